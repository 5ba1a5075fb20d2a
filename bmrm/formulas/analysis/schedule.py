"""The schedule of a program: what each loop becomes, and on a GPU where results, parameters and rows are.

All of this is decided here, once; printers only print it, and `explain` shows it.

On a GPU results have the first place in shared memory, then parameters in ascending order of size: the
"write-first" order of Ma and Agrawal (2009, section 4.3.1).

References
----------
W. Ma and G. Agrawal, A translation system for enabling data mining applications on GPUs, ICS 2009.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TypeAlias

from bmrm.formulas.analysis import loops
from bmrm.formulas.analysis.counters import find_counters
from bmrm.formulas.analysis.facts import ProgramFacts, find_facts
from bmrm.formulas.analysis.long_loops import ROWS, long_loops, work_of_iteration
from bmrm.formulas.analysis.loops import Best
from bmrm.formulas.analysis.products import Blocks, choose_blocks, held_bytes, without_lines
from bmrm.formulas.analysis.tiles import TILE_BYTES, Tile, choose_tiles
from bmrm.formulas.analysis.tried import MIN_TRIED, TRIED, can_be_tried
from bmrm.formulas.language.operators import FunctionOperator
from bmrm.formulas.language.tree import (
    Apply,
    Argument,
    Combine,
    Expr,
    For,
    Loop,
    Program,
    Size,
    SizeOf,
    Statement,
    While,
    direct_expressions,
    name_of,
    parts,
    parts_of,
    statements,
)

WARP = 32
"""Lanes of a warp."""

MAX_WARPS = 8
"""Maximum number of warps of a block."""

SHARED_BYTES = 96 * 1024
"""Maximum shared memory of a block: two blocks of this size fit a multiprocessor of an H100."""

ALIGNED_NUMBERS = 2
"""Numbers of 8 bytes of which places in shared memory are multiples if that fits: loads of 16 bytes."""

MAX_REGISTER_COLUMNS = 64
"""Maximum number of columns of a row that is kept in registers."""

BLOCKED_ROWS = 2
"""Number of rows that a lane computes at once: each parameter is read from shared memory once for all."""

MAX_BLOCKED_BYTES = 128
"""Maximum size of one of these rows: all of them are in registers."""

MAX_OWN_ELEMENTS = 64
"""Maximum size of a result of each row that a lane keeps until the row's end."""

MAX_BUTTERFLY = 16
"""Maximum number of targets that are reduced together: their numbers are in registers."""

FOLLOWING = {"add", "sub", "min", "max", "lt", "le", "gt", "ge", "eq", "ne", "and", "or", "not", "select"}
"""Operators that are no slower if a size is no constant."""


@dataclass(frozen=True)
class Uniform:
    """All lanes count together; ``unroll`` iterations are written out, or as many as the compiler decides.

    Rows of the parameters ``tiles`` are copied into shared memory, some at a time. ``tried`` iterations run
    without branches first, if not 0.
    """

    unroll: int = 0
    tiles: tuple[str, ...] = ()
    tried: int = 0

    def __str__(self) -> str:
        written_out = f", {self.unroll} iterations written out" if self.unroll > 1 else ""
        return "uniform" + written_out + (f", tiles of {', '.join(self.tiles)}" if self.tiles else "")


@dataclass(frozen=True)
class Diverging:
    """Each lane has the iterations of its row; if something is combined, all lanes wait for the last one."""

    waits: bool

    def __str__(self) -> str:
        return "each row ends on its own" + (", lanes wait for the last one" if self.waits else "")


@dataclass(frozen=True)
class Butterfly:
    """Sums with a target per iteration: ``count`` of them are reduced together by a warp butterfly."""

    sums: tuple[Combine, ...]
    count: int
    unrolled: bool

    def __str__(self) -> str:
        return f"{self.count} targets at a time by a warp butterfly"


@dataclass(frozen=True)
class ColumnLanes:
    """Lanes are iterations, for one row after the other; if half of them suffice, for two rows."""

    sums: tuple[Combine, ...]
    lanes: int

    def __str__(self) -> str:
        return f"columns in {self.lanes} lanes, row by row"


@dataclass(frozen=True)
class Ranked:
    """Lanes with the same target take turns, ranked once for all iterations."""

    sums: tuple[Combine, ...]

    def __str__(self) -> str:
        return "lanes with the same target one by one, ranked once"


@dataclass(frozen=True)
class BestOfGroups:
    """The best of a group of iterations is compared with the best so far."""

    best: Best

    def __str__(self) -> str:
        return f"the best of groups of {self.best.group} iterations"


@dataclass(frozen=True)
class VectorColumns:
    """On a CPU, a vector has columns of one row, and rows follow one by one."""

    def __str__(self) -> str:
        return "vectors of columns, row by row"


GpuLoop: TypeAlias = Uniform | Diverging | Butterfly | ColumnLanes | Ranked | BestOfGroups
CpuLoop: TypeAlias = Uniform | Diverging | VectorColumns


@dataclass(frozen=True)
class Memory:
    """Where results, parameters and the row are on a GPU.

    Attributes
    ----------
    warps : int
        Warps of a block.
    unit : int
        Numbers of 8 bytes of which all places in shared memory are multiples, as the compiler is told.
    slice_items : int
        Numbers of 8 bytes of the results of a warp, with the gaps after them.
    shared_results : bool
        Whether results are in shared memory.
    shared_parameters : tuple of str
        Parameters that are copied to shared memory.
    shared_bytes : int
        Shared memory of a block.
    held_bytes : int
        The part of it in which warps add sums of products, after the results of the warps.
    register_row : bool
        Whether a row is kept in registers.
    """

    warps: int
    unit: int
    slice_items: int
    shared_results: bool
    shared_parameters: tuple[str, ...]
    shared_bytes: int
    held_bytes: int
    register_row: bool


@dataclass(frozen=True)
class GpuSchedule:
    """What a GPU does.

    Attributes
    ----------
    facts : ProgramFacts
    memory : Memory
    counters : dict of str to int
        Shared results that are sums of 32 bits in shared memory, and the rows for which each has room.
    blocks : Blocks
        Sums of products that are computed by blocks, and go from registers to global memory.
    blocked : int
        Number of the first statements, which a lane computes for `BLOCKED_ROWS` rows at once.
    loops : dict of int to GpuLoop
        By the identity of the loop.
    ranked_by : dict of int to int
        Statements that combine into the row of a result for which a loop just before has ranked the lanes:
        identity of the statement to that of the loop.
    in_place : set of str
        Results of each row that are combined and assigned in global memory.
    run_time : set of str
        Sizes that are read at run time: nothing is unrolled by them, and no register depends on them.
    tiles : dict of str to Tile
        Parameters of which loops copy some rows at a time into shared memory.
    looking : dict of str to int
        Loops that look whether the pass is to end early, and the work of an iteration of each.
    """

    facts: ProgramFacts
    memory: Memory
    counters: Mapping[str, int]
    blocks: Blocks
    blocked: int
    loops: Mapping[int, GpuLoop]
    ranked_by: Mapping[int, int]
    in_place: frozenset[str]
    run_time: frozenset[str]
    tiles: Mapping[str, Tile]
    looking: Mapping[str, int]

    def of(self, node: For | While) -> GpuLoop:
        """Return what a loop becomes."""
        return self.loops[id(node)]

    @property
    def most_rows(self) -> int | None:
        """How many rows may be added up together at most; None if any number."""
        return min(self.counters.values(), default=None)

    @property
    def is_exact(self) -> bool:
        """Whether results have the same bits in whatever order rows are combined."""
        return all(
            a.type == "int" and not isinstance(a.operator, FunctionOperator)
            for a in self.facts.program.combined()
        )

    @property
    def rows_take_long(self) -> bool:
        """Whether a row alone takes long: it looks whether the pass is to end, or walks over tiles."""
        return ROWS in self.looking or bool(self.tiles)

    def is_together(self, result: Argument) -> bool:
        """Return whether the warps of a block combine a result, so that there is one part per block."""
        if result.name in self.blocks.results():
            return True
        alone = result.operator is not None and not result.keeps_row
        return self.memory.shared_results and bool(result.dims) and alone


def schedule_gpu(
    program: Program,
    sizes: Mapping[str, int],
    real_bytes: int,
    sparse: bool,
    shared_bytes: int = SHARED_BYTES,
) -> GpuSchedule:
    """Decide what a GPU does.

    ``shared_bytes`` limits the shared memory of a block; a GPU may have less than `SHARED_BYTES`.
    """
    facts = find_facts(program, sizes)
    blocks = choose_blocks(facts, sparse)
    counters = find_counters(facts, WARP)
    memory = _choose_memory(facts, blocks, counters, real_bytes, sparse, shared_bytes)
    counters = counters if memory.shared_results else {}
    few = memory.register_row and real_bytes * sizes[program.width] <= MAX_BLOCKED_BYTES
    blocked = loops.count_blocked(facts) if few and not blocks.sums() else 0
    found: dict[int, GpuLoop] = {}
    rest = tuple(s for place, s in enumerate(program.body) if place not in (*blocks.apart, *blocks.along))
    for each in statements(rest):
        if isinstance(each, (For, While)):
            first = any(each is statement for statement in program.body[:blocked])
            best = loops.find_best(each, facts) if first and isinstance(each, For) else None
            found[id(each)] = BestOfGroups(best) if best else _choose_loop(each, facts, counters)
    tiles, walks = _choose_tiles(facts, rest, memory, real_bytes, shared_bytes)
    for place, each in enumerate(rest):
        how, names = found.get(id(each)), walks.get(id(each))
        if names and isinstance(each, For) and isinstance(how, Uniform):
            may = place >= blocked and real_bytes == 4 and can_be_tried(each, facts, counters)
            tried = min(TRIED, 2 * how.unroll or TRIED, *(tiles[name].rows for name in names))
            found[id(each)] = Uniform(how.unroll, names, tried if may and tried >= MIN_TRIED else 0)
    ranked_by = dict(_find_ranked(rest, facts, found))
    run_time = frozenset(set(sizes) - _constant_sizes(facts, memory, blocks, found))
    in_place = frozenset(
        a.name
        for a in program.outputs()
        if a.name in program.arrays and facts.count(a.dims) > MAX_OWN_ELEMENTS
    )
    looking = {name: work_of_iteration(each) for name, each in long_loops(program, sizes).items()}
    return GpuSchedule(
        facts, memory, counters, blocks, blocked, found, ranked_by, in_place, run_time, tiles, looking
    )


def _choose_memory(
    facts: ProgramFacts,
    blocks: Blocks,
    counters: Mapping[str, int],
    real_bytes: int,
    sparse: bool,
    shared_bytes: int,
) -> Memory:
    """Decide where results and parameters are; see the top of this file."""
    program, count, in_blocks = facts.program, facts.count, blocks.results()
    results = [a for a in program.combined() if a.name not in in_blocks]
    counts = [
        held_items(count(a.dims), a.name in counters)
        for a in results
        if a.dims
        for _ in range(2 if a.keeps_row else 1)
    ]
    items = sum(counts)
    warps, held = MAX_WARPS, held_bytes(blocks, facts.sizes)
    while warps > 1 and 8 * items * warps + held > shared_bytes:
        warps //= 2
    shared_results = 8 * items * warps + held <= shared_bytes
    if not shared_results:
        warps = MAX_WARPS
    unit, padded = ALIGNED_NUMBERS, sum(rounded_up(each, ALIGNED_NUMBERS) for each in counts)
    if shared_results and 8 * padded * warps + held > shared_bytes:
        unit, padded = 1, items
    used = held + (8 * padded * warps if shared_results else 0)
    chosen = []
    for argument in sorted(_array_parameters(program), key=lambda a: count(a.dims)):
        bytes_ = rounded_up(count(argument.dims) * _item_bytes(argument, real_bytes), 8 * unit)
        if used + bytes_ <= shared_bytes:
            chosen.append(argument.name)
            used += bytes_
    register_row = not sparse and facts.sizes[program.width] <= MAX_REGISTER_COLUMNS
    return Memory(warps, unit, padded, shared_results, tuple(chosen), used, held, register_row)


def held_items(count: int, is_counter: bool) -> int:
    """Return the numbers of 8 bytes that a result takes in shared memory; counters have a place more."""
    return count // 2 + 1 if is_counter else count


def _array_parameters(program: Program) -> list[Argument]:
    return [a for a in program.arguments.values() if a.role == "parameter" and a.dims and not a.axes]


def _item_bytes(argument: Argument, real_bytes: int) -> int:
    """Return the size of a number of a parameter as it is in shared memory."""
    return {"real": real_bytes, "int": 8, "bool": 1}[argument.type]


def _choose_tiles(
    facts: ProgramFacts, body: tuple[Statement, ...], memory: Memory, real_bytes: int, shared_bytes: int
) -> tuple[dict[str, Tile], dict[int, tuple[str, ...]]]:
    """Return the tiles of parameters that are in global memory, and which of them each loop copies."""
    far = {
        a.name: _item_bytes(a, real_bytes)
        for a in _array_parameters(facts.program)
        if a.name not in memory.shared_parameters
    }
    room = (shared_bytes - memory.shared_bytes) // (memory.warps * TILE_BYTES)
    return choose_tiles(facts, body, far, room)


def rounded_up(number: int, unit: int) -> int:
    """Return the least multiple of a unit that is not below a number."""
    return -(-number // unit) * unit


def _choose_loop(node: For | While, facts: ProgramFacts, counters: Mapping[str, int]) -> GpuLoop:
    if facts.diverges(node):
        return Diverging(has_combination((node,)))
    if isinstance(node, While):
        return Uniform()
    if node.name in facts.masked:  # rows that take no part have numbers that no bound holds for
        return Uniform(loops.unrolled_iterations(node, facts, counters))
    iterations = facts.iterations(node)
    if sums := loops.butterfly_sums(node, facts):
        count = min(MAX_BUTTERFLY, 1 << (iterations - 1).bit_length())
        return Butterfly(sums, count, iterations <= MAX_REGISTER_COLUMNS)
    if sums := loops.column_sums(node, facts):
        is_half = iterations <= WARP // 2 and len({each.array for each in sums}) == len(sums)
        return ColumnLanes(sums, WARP // 2 if is_half else WARP)
    if sums := loops.ranked_sums(node, facts):
        return Ranked(sums)
    return Uniform(loops.unrolled_iterations(node, facts, counters))


def has_combination(body: tuple[Statement, ...]) -> bool:
    """Return whether some statement, or one inside it, combines a result."""
    return any(isinstance(statement, Combine) for statement in statements(body))


def _find_ranked(
    body: tuple[Statement, ...], facts: ProgramFacts, found: Mapping[int, GpuLoop]
) -> Iterator[tuple[int, int]]:
    """Yield the statements whose lanes a loop just before has ranked, and the loop."""
    known: dict[tuple[Expr, ...], int] = {}
    for statement in body:
        if isinstance(statement, Combine):
            loop = known.get(tuple(map(without_lines, statement.index)))
            if loop is not None:
                yield id(statement), loop
            continue
        for inner in parts_of(statement):
            yield from _find_ranked(inner, facts, found)
        how = found[id(statement)] if isinstance(statement, For) else None
        known = {}
        if isinstance(statement, For) and isinstance(how, Ranked) and facts.bounds.has_iteration(statement):
            known[loops.chosen_row(how.sums[0])] = id(statement)


def _constant_sizes(
    facts: ProgramFacts, memory: Memory, blocks: Blocks, found: Mapping[int, GpuLoop]
) -> set[str]:
    """Return the sizes that must be constants of the text: its speed depends on them.

    All others are the first dimensions of arrays, and ends of loops whose iterations are not all written out.
    """
    program = facts.program
    dims: list[Size] = [size for array in program.arrays.values() for size in array.dims]
    dims += [size for argument in program.arguments.values() for size in argument.dims[1:]]
    dims += [size for name in blocks.results() for size in program.arguments[name].dims]
    dims += [program.width] if memory.register_row else []
    fixed = {size for size in dims if isinstance(size, str)}
    for statement in statements(program.body):
        for expr in direct_expressions(statement):
            for part in parts(expr):
                if isinstance(part, Apply) and part.op not in FOLLOWING:
                    fixed |= _sizes_in(part)
        how = found.get(id(statement))
        is_free = isinstance(how, BestOfGroups) or (isinstance(how, Uniform) and how.unroll > 0)
        if isinstance(statement, For) and not (is_free or (isinstance(how, Butterfly) and not how.unrolled)):
            known = facts.bounds.known.get(statement.name, ())
            fixed |= {bound.size for bound in known if bound}
            fixed |= _sizes_in(statement.start) | _sizes_in(statement.stop)
    return fixed


def _sizes_in(expr: Expr) -> set[str]:
    return {part.size for part in parts(expr) if isinstance(part, SizeOf)}


@dataclass(frozen=True)
class CpuSchedule:
    """What a CPU does; the same for all sizes.

    Attributes
    ----------
    facts : ProgramFacts
    loops : dict of int to CpuLoop
        By the identity of the loop.
    counters : set of str
        Shared results that lanes add to counters.
    """

    facts: ProgramFacts
    loops: Mapping[int, CpuLoop]
    counters: AbstractSet[str]

    def of(self, node: For | While) -> CpuLoop:
        """Return what a loop becomes."""
        return self.loops[id(node)]


def schedule_cpu(
    program: Program, lanes: int, *, contiguous: bool, counters: AbstractSet[str] = frozenset()
) -> CpuSchedule:
    """Decide what a CPU does with a number of rows in the lanes of vectors.

    ``contiguous`` says whether the values of a row are next to each other. ``counters`` are results whose
    sizes allow them.
    """
    facts = find_facts(program, {})
    if lanes == 1:
        facts = ProgramFacts(program, {}, facts.bounds, {})

    def choose(node: For | While) -> CpuLoop:
        may = lanes > 1 and contiguous and node.name not in facts.masked
        if isinstance(node, For) and may and loops.ColumnVectors(node, facts).fit():
            return VectorColumns()
        return Diverging(waits=True) if node.name in facts.varying.keys() | facts.left else Uniform()

    found = {id(each): choose(each) for each in statements(program.body) if isinstance(each, (For, While))}
    return CpuSchedule(facts, found, counters)


def explain_loops(program: Program, schedule: GpuSchedule | CpuSchedule) -> str:
    """Return what loops become, in the order of the function, as text."""
    found = [
        f"{spoken_name(each)}: {schedule.of(each)}"
        for each in statements(program.body)
        if isinstance(each, (For, While)) and id(each) in schedule.loops
    ]
    return "; ".join(found) or "none"


def spoken_name(node: Loop) -> str:
    """Return how a loop is called in what users read; "" if it has no name of theirs."""
    if isinstance(node, While):
        return f"while in line {node.line}"
    *function, counter, _ = name_of(node).split(".")
    return f"{counter} of {function[0]}" if any(function) else counter if function == [] else ""
