"""Tiles of parameters that a loop walks over, on a GPU.

A parameter that does not fit into shared memory is read from global memory. If all lanes of a warp count
together and an iteration reads the row of the parameter that its counter says, the warp copies some rows into
shared memory at a time: neighbours in one access. Each warp has tiles of its own and waits for no other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from bmrm.formulas.analysis.facts import ProgramFacts
from bmrm.formulas.language.tree import (
    Argument,
    Expr,
    For,
    Leave,
    Load,
    Statement,
    Var,
    direct_expressions,
    parts,
    statements,
)

TILE_ROWS = 32
"""Maximum number of rows of a tile: one for each lane that copies."""

TILE_BYTES = 1024
"""Maximum size of a tile, of which each warp has one."""

MIN_TILE_ROWS = 4
"""Minimum number of rows of a tile: copies of fewer would cost more than they save."""

PIECE_BYTES = 16
"""Size of what a lane reads at once."""

MAX_REGISTER_NUMBERS = 8
"""Maximum size of a row of a tile that an iteration has in registers."""


class Tile(NamedTuple):
    """A tile of a parameter.

    Attributes
    ----------
    rows : int
    numbers : int
        Numbers of a row.
    stride : int
        Numbers from a row to the next.
    in_registers : bool
        Whether an iteration reads its row at once.
    """

    rows: int
    numbers: int
    stride: int
    in_registers: bool


def choose_tile(argument: Argument, facts: ProgramFacts, item_bytes: int) -> Tile | None:
    """Return the tile of a parameter; None if it has too long rows."""
    numbers = facts.count(argument.dims[1:])
    piece = PIECE_BYTES // item_bytes
    stride = 1 << (numbers - 1).bit_length() if numbers < piece else -(-numbers // piece) * piece
    rows = min(TILE_ROWS, TILE_BYTES // (stride * item_bytes)) if numbers else 0
    if rows < MIN_TILE_ROWS:
        return None
    return Tile(1 << (rows.bit_length() - 1), numbers, stride, numbers <= MAX_REGISTER_NUMBERS)


def choose_tiles(
    facts: ProgramFacts, body: Iterable[Statement], far: Mapping[str, int], most: int
) -> tuple[dict[str, Tile], dict[int, tuple[str, ...]]]:
    """Return the tiles of parameters, and which of them each loop copies, by its identity.

    ``far`` are the parameters that are in global memory, and the sizes of their numbers in bytes; of ``most``
    there is room for a tile.
    """
    tiles: dict[str, Tile] = {}
    walks: dict[int, tuple[str, ...]] = {}
    for each in body:
        if not isinstance(each, For) or each.step != 1 or facts.diverges(each):
            continue
        if any(isinstance(statement, Leave) for statement in statements(each.body)):
            continue
        named = [name for name in far if _is_walked(each, name, facts)]
        for name in named:
            tile = choose_tile(facts.program.arguments[name], facts, far[name])
            if tile is not None and (name in tiles or len(tiles) < most):
                tiles[name] = tile
        walks[id(each)] = tuple(name for name in named if name in tiles)
    return tiles, walks


def is_of_iteration(load: Load, counter: str) -> bool:
    """Return whether an expression reads the row that the counter of a loop says."""
    return bool(load.index) and load.index[0] == Var(counter, "int")


def _is_walked(loop: For, name: str, facts: ProgramFacts) -> bool:
    """Return whether iterations of a loop read the row of a parameter that its counter says."""
    inside = facts.bounds.inside(Var(loop.name, "int"), facts.program.arguments[name].dims[0])
    exprs: list[Expr] = [e for each in statements(loop.body) for e in direct_expressions(each)]
    return inside and any(
        isinstance(part, Load) and part.array == name and is_of_iteration(part, loop.name)
        for expr in exprs
        for part in parts(expr)
    )
