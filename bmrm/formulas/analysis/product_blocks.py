"""Sums of products on a GPU: which are computed by blocks of 8 x 8 sums, and where.

Neighbouring columns are a block, or, if both sides of all products are the same, columns are dealt to blocks
in turn: then a lane's columns are neighbours. Sums that only need the rows and parameters have a loop of
their own over the rows (``apart``). Sums that need the row's own numbers are added on the way (``along``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from bmrm.formulas.analysis.facts import Facts
from bmrm.formulas.analysis.products import ProductSum, Side, find_products, visited_cells

BLOCK = 8
"""Rows and columns of a block of sums, and rows that are multiplied at a time."""

WARP_BYTES = 256
"""Size of a number of each lane of a warp."""

MAX_APART_NUMBERS = 88
"""Maximum number of sums of a lane that has a loop of its own: with two rows of factors, 255 registers."""

MAX_ALONG_NUMBERS = 32
"""Maximum number of sums of a lane that are added on the way, besides all else that the row needs."""

GROUP_BLOCKS = 4
"""Blocks of rows, and of columns, of a matrix that does not fit."""

GROUP_VECTOR_BLOCKS = 16
"""Blocks of a vector that does not fit."""

MAX_COUNTED_CELLS = 1 << 14
"""Maximum number of cells of a matrix whose blocks are looked at one by one."""


class Blocks(NamedTuple):
    """Sums of products of a program, by the place of their statement, and where they are computed."""

    apart: dict[int, tuple[ProductSum, ...]]
    along: dict[int, tuple[ProductSum, ...]]

    def sums(self) -> list[ProductSum]:
        return [each for some in (self.apart, self.along) for sums in some.values() for each in sums]

    def results(self) -> dict[str, None]:
        return dict.fromkeys(each.result for each in self.sums())


def choose_blocks(facts: Facts, sparse: bool) -> Blocks:
    """Find the sums of products, and choose where each is computed."""
    blocks, program, sizes = Blocks({}, {}), facts.program, facts.sizes
    if sparse:
        return blocks
    found = find_products(program, sizes, facts.bounds)
    alone = len(found) == len(program.body) and not any(
        a.role == "output" or not a.dims for a in program.results()
    )
    left = MAX_ALONG_NUMBERS
    for place, sums in found.items():
        numbers = group_numbers(sums, sizes)
        own = any(each.locals() for each in sums)
        if numbers <= left and not (alone and not own):
            blocks.along[place] = sums
            left -= numbers
        elif not own:
            blocks.apart[place] = sums
    return blocks


def side_blocks(side: Side) -> int:
    """Return how many blocks of columns a side has."""
    return -(-side.count // BLOCK)


def tiles_of(sum_: ProductSum, sizes: Mapping[str, int]) -> list[tuple[int, int]]:
    """Return the blocks of a matrix of sums to which its loops come."""
    left, right = sum_.left, sum_.right
    assert right is not None
    if left.count * right.count > MAX_COUNTED_CELLS:
        return [(a, b) for a in range(side_blocks(left)) for b in range(side_blocks(right))]
    found: set[tuple[int, int]] = set()
    for i, some in visited_cells(sum_, sizes):
        found.update(((i - left.low) // BLOCK, (j - right.low) // BLOCK) for j in some)
    return sorted(found)


def half_tiles(blocks: int) -> list[tuple[int, int]]:
    """Return one of (a, b) and (b, a) for any two blocks, such that b appears an even number of times.

    Two products with the same b are computed at once. One b may be left over.

    Examples
    --------
    >>> half_tiles(3)
    [(0, 0), (0, 2), (1, 0), (1, 1), (2, 1), (2, 2)]
    """
    odd = [b for b in range(blocks) if (blocks - b) % 2]
    turned = {(high, low): (low, high) for low, high in zip(odd[::2], odd[1::2], strict=False)}
    return sorted(turned.get((a, b), (a, b)) for b in range(blocks) for a in range(b, blocks))


def is_symmetric(sum_: ProductSum, sizes: Mapping[str, int]) -> bool:
    """Return whether both sides of a product are the same, and half of all blocks are no more than needed."""
    left, right = sum_.left, sum_.right
    if right is None or (left.low, left.high, left.factors) != (right.low, right.high, right.factors):
        return False
    blocks = side_blocks(left)
    return blocks * (blocks + 1) // 2 <= len(tiles_of(sum_, sizes))


def is_dealt(sums: tuple[ProductSum, ...], sizes: Mapping[str, int]) -> bool:
    """Return whether columns are dealt to blocks in turn."""
    matrices = [each for each in sums if each.right]
    return bool(matrices) and all(is_symmetric(each, sizes) for each in matrices)


def group_numbers(sums: tuple[ProductSum, ...], sizes: Mapping[str, int]) -> int:
    """Return how many sums a lane has of those that are computed together."""
    dealt = is_dealt(sums, sizes)
    total = 0
    for each in sums:
        blocks = side_blocks(each.left)
        if each.right is None:
            total += blocks
        else:
            total += blocks * (blocks + 1) if dealt else 2 * len(tiles_of(each, sizes))
    return total


def split_sums(
    sums: tuple[ProductSum, ...], sizes: Mapping[str, int]
) -> Iterator[tuple[tuple[ProductSum, ...], bool]]:
    """Yield what is computed together of sums with a loop of their own, and whether by groups of blocks."""
    if group_numbers(sums, sizes) <= MAX_APART_NUMBERS:
        yield sums, False
        return
    for each in sums:
        yield (each,), group_numbers((each,), sizes) > MAX_APART_NUMBERS


def max_group_blocks(sum_: ProductSum) -> int:
    """Return the maximum number of blocks of a side of a sum that does not fit."""
    return GROUP_BLOCKS if sum_.right else GROUP_VECTOR_BLOCKS


def held_bytes(blocks: Blocks, sizes: Mapping[str, int]) -> int:
    """Return the size of the shared memory in which the warps of a block add their sums."""
    numbers = [group_numbers(sums, sizes) for sums in blocks.along.values()]
    for sums in blocks.apart.values():
        for some, one_of_many in split_sums(sums, sizes):
            side = max_group_blocks(some[0])
            many = 2 * side**2 if some[0].right else side
            numbers.append(many if one_of_many else group_numbers(some, sizes))
    return WARP_BYTES * max(numbers, default=0)
