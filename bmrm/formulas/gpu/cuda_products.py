"""The printer of sums of products for the GPU: blocks of 8 x 8 sums in the registers of a warp.

A warp multiplies eight rows at a time. Lane 4 g + t has column g of each block of columns of the rows t and
4 + t, as `mma.m8n8k4` wants its factors (PTX ISA, "Matrix fragments for mma.m8n8k4 with .f64 floating point
type"), and reads them from where the rows are. The values of the next rows are on their way from memory
during the products. Products and sums are float64: products of float32 are exact. Tensor cores compute them
from compute capability 8.0 on, others exchange the factors by shuffles. A vector of sums needs no product:
each lane adds its column of its rows, and the four lanes of a column are added at the end.

Neighbouring columns are a block, or, if both sides of all products are the same, columns are dealt to blocks
in turn, as in ``gram.cuh``: then a lane's columns are neighbours, and are read by vectors. Of two such blocks
only one product is computed, and each sum goes to both places.

Sums that only need the rows and parameters have a loop of their own over the rows of a chunk (``apart``); of
sums that do not fit in registers, a block of columns by a block of columns at a time. Sums that need the
row's own numbers, which another lane has computed, are added on the way (``along``); shuffles bring these
numbers.

The sums of the warps of a block are added in order in shared memory, and are one part of the result.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from bmrm.formulas.analysis.bounds import Bounds
from bmrm.formulas.analysis.products import COUNTER, ProductSum, Side, find_products, visited_cells
from bmrm.formulas.language.tree import Expr, Program, RowItem, Value, parts

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

HELPERS = r"""
__device__ __forceinline__ void add_products(double (&sums)[2], const double (&left)[2],
                                             const double (&right)[2]) {
#pragma unroll
  for (int half = 0; half < 2; half++) {
#if __CUDA_ARCH__ >= 800
    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
        : "+d"(sums[0]), "+d"(sums[1])
        : "d"(left[half]), "d"(right[half]));
#else
    const int lane = threadIdx.x % WARP;
#pragma unroll 1
    for (int k = 0; k < 4; k++) {
      const double mine = __shfl_sync(FULL, left[half], lane / 4 * 4 + k);
      sums[0] += mine * __shfl_sync(FULL, right[half], lane % 4 * 8 + k);
      sums[1] += mine * __shfl_sync(FULL, right[half], lane % 4 * 8 + 4 + k);
    }
#endif
  }
}
// Two blocks with the same right side.
__device__ __forceinline__ void add_products(double (&sums)[2], double (&others)[2], const double (&left)[2],
                                             const double (&lower)[2], const double (&right)[2]) {
#if __CUDA_ARCH__ >= 900
  asm("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+d"(sums[0]), "+d"(sums[1]), "+d"(others[0]), "+d"(others[1])
      : "d"(left[0]), "d"(lower[0]), "d"(left[1]), "d"(lower[1]), "d"(right[0]), "d"(right[1]));
#else
  add_products(sums, left, right);
  add_products(others, lower, right);
#endif
}
__device__ __forceinline__ double over_rows(double sum) {
  sum += __shfl_xor_sync(FULL, sum, 1);
  return sum + __shfl_xor_sync(FULL, sum, 2);
}
"""


class Blocks(NamedTuple):
    """Sums of products of a program, by the place of their statement, and where they are computed."""

    apart: dict[int, tuple[ProductSum, ...]]
    along: dict[int, tuple[ProductSum, ...]]

    def sums(self) -> list[ProductSum]:
        return [each for some in (self.apart, self.along) for sums in some.values() for each in sums]

    def results(self) -> dict[str, None]:
        return dict.fromkeys(each.result for each in self.sums())


def choose_blocks(program: Program, sizes: Mapping[str, int], sparse: bool) -> Blocks:
    """Find the sums of products, and choose where each is computed."""
    blocks = Blocks({}, {})
    if sparse:
        return blocks
    found = find_products(program, sizes, Bounds(program))
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


def held_bytes(blocks: Blocks, sizes: Mapping[str, int]) -> int:
    """Return the size of the shared memory in which the warps of a block add their sums."""
    numbers = [group_numbers(sums, sizes) for sums in blocks.along.values()]
    for sums in blocks.apart.values():
        for some, one_of_many in split_sums(sums, sizes):
            many = 2 * GROUP_BLOCKS**2 if some[0].right else GROUP_VECTOR_BLOCKS
            numbers.append(many if one_of_many else group_numbers(some, sizes))
    return WARP_BYTES * max(numbers, default=0)


class Printer(Protocol):
    """What prints the rest of the program."""

    program: Program
    sizes: Mapping[str, int]
    direct: bool
    item: str
    column_text: str
    value_texts: dict[str, str]
    held_at: int

    def put(self, text: str) -> None: ...
    def open(self, text: str) -> None: ...
    def close(self, end: str = "}") -> None: ...
    def name(self, name: str) -> str: ...
    def rename(self, names: dict[str, str]) -> None: ...
    def bring(self, names: list[str], other: str) -> dict[str, str]: ...
    def fresh(self, hint: str) -> str: ...
    def size(self, size: str | int) -> str: ...
    def memory(self, kind: str) -> str: ...
    def slot(self, name: str) -> str: ...
    def row_address(self) -> None: ...
    def expr(self, node: Expr, mask: str) -> str: ...


@dataclass(frozen=True)
class _Values:
    """Values of the rows that a lane has: its columns of two rows."""

    name: str
    origin: str
    high: int
    blocks: int
    whole: bool
    """Whether all columns exist."""


@dataclass(frozen=True)
class _Factors:
    """Factors of a side that a lane has, and the blocks that it has of them."""

    name: str
    side: Side
    tests: tuple[Expr, ...]
    origin: str
    blocks: int
    values: _Values | None

    def key(self) -> tuple[object, ...]:
        side = self.side
        return side.factors, side.high, self.tests, self.origin, self.blocks


class Group:
    """Sums that are computed together.

    Parameters
    ----------
    printer : Printer
    sums : tuple of ProductSum
    one_of_many : bool, default False
        Whether they are a group of blocks of one sum, from ``first_left`` and ``first_right`` on.
    """

    def __init__(self, printer: Printer, sums: tuple[ProductSum, ...], one_of_many: bool = False) -> None:
        self.printer, self.sums, self.one_of_many = printer, sums, one_of_many
        self.dealt = not one_of_many and is_dealt(sums, printer.sizes)
        self.factors: dict[tuple[object, ...], _Factors] = {}
        self.values: dict[tuple[str, int, int], _Values] = {}
        self.row_values = {
            p.name: printer.fresh("value")
            for each in sums
            for expr in each.expressions()
            for p in parts(expr)
            if isinstance(p, Value) and printer.program.arguments[p.name].role == "row value"
        }
        self.parts: list[tuple[ProductSum, str, _Factors, _Factors | None, list[tuple[int, int]]]] = []
        for each in sums:
            left = self.add(each.left, each, "first_left")
            right = self.add(each.right, each, "first_right") if each.right else None
            tiles = []
            if right:
                every = [(a, b) for a in range(left.blocks) for b in range(right.blocks)]
                tiles = every if one_of_many else tiles_of(each, printer.sizes)
                tiles = half_tiles(left.blocks) if self.dealt else tiles
            self.parts.append((each, printer.fresh("sums"), left, right, tiles))

    def add(self, side: Side, sum_: ProductSum, first: str) -> _Factors:
        blocks = side_blocks(side)
        if self.one_of_many:
            blocks = min(blocks, GROUP_BLOCKS if sum_.right else GROUP_VECTOR_BLOCKS)
        origin = first if self.one_of_many else f"{side.low}LL"
        values = None
        if any(isinstance(p, RowItem) and p.index == COUNTER for f in side.factors for p in parts(f)):
            whole = not self.one_of_many and side.count == BLOCK * blocks
            place = origin, side.high, blocks
            if place not in self.values:
                self.values[place] = _Values(self.printer.fresh("read"), *place, whole)
            values = self.values[place]
        made = _Factors("", side, sum_.tests, origin, blocks, values)
        key = made.key()
        if key not in self.factors:
            name = self.printer.fresh("side")
            self.factors[key] = _Factors(name, side, sum_.tests, origin, blocks, values)
        return self.factors[key]

    def column(self, origin: str, blocks: int, block: str, lane: str = "lane / 4") -> str:
        """Return a column of a block: that of this lane, if no other is given."""
        if self.dealt:
            return f"{origin} + {blocks} * ({lane}) + {block}"
        return f"{origin} + {BLOCK} * {block} + {lane}"

    def declare(self) -> None:
        """Declare the sums."""
        for _, name, left, _, tiles in self.parts:
            count = f"[{len(tiles)}][2]" if tiles else f"[{left.blocks}]"
            self.printer.put(f"double {name}{count} = {{}};")

    def declare_values(self) -> None:
        """Declare what is read of eight rows."""
        printer = self.printer
        for each in self.values.values():
            printer.put(f"{printer.item} {each.name}[{each.blocks}][2];")
        for name, held in self.row_values.items():
            printer.put(f"{printer.memory(printer.program.arguments[name].type)} {held}[2];")

    def reader(self) -> None:
        """Print the function that reads values of eight rows; rows past the end are the last one."""
        printer = self.printer
        widest = max((self.vector(each) for each in self.values.values()), default=1)
        if widest > 1:
            size = {"float": 4, "double": 8}[printer.item]
            places = f"({printer.slot('rows')} | {printer.slot('row_step')}) % {size * widest} == 0"
            printer.put(f"const bool dense = {printer.slot('column_step')} == {size} && {places};")
        printer.open("const auto read = [&](const whole first_row)")
        printer.put("#pragma unroll")
        printer.open("for (int half = 0; half < 2; half++)")
        printer.put("const whole mine = least<whole>(first_row + 4 * half + lane % 4, end - 1);")
        printer.row_address()
        for each in self.values.values():
            item = f"const {printer.item}"
            if (vector := self.vector(each)) > 1:
                printer.open("if (dense)")
                column, type_ = self.column(each.origin, each.blocks, "0"), f"{item}{vector}"
                printer.put(
                    f"const auto* const from = (const {printer.item}{vector}*)(({item}*)at + {column});"
                )
                printer.put("#pragma unroll")
                printer.open(f"for (int block = 0; block < {each.blocks}; block += {vector})")
                printer.put(f"{type_} some = __ldg(from + block / {vector});")
                for place, part in zip(range(vector), "xyzw", strict=False):
                    printer.put(f"{each.name}[block + {place}][half] = some.{part};")
                printer.close()
                printer.close("} else")
            printer.put("#pragma unroll")
            printer.open(f"for (int block = 0; block < {each.blocks}; block++)")
            column = self.column(each.origin, each.blocks, "block")
            if not each.whole:
                column = f"least<whole>({column}, {each.high}LL)"
            printer.put(f"{each.name}[block][half] = __ldg(({item}*)(at + ({column}) * across));")
            printer.close()
        for name, held in self.row_values.items():
            printer.put(f"{held}[half] = {printer.name(name)}[mine];")
        printer.close()
        printer.close("};")

    def vector(self, values: _Values) -> int:
        """Return how many values of a row are read at once if nothing is between them."""
        most = {"float": 4, "double": 2}.get(self.printer.item, 1)
        low = int(values.origin.removesuffix("LL")) if self.dealt and values.whole else 1
        return math.gcd(most, values.blocks, low) if self.dealt and values.whole else 1

    def convert(self) -> None:
        """Print the factors of eight rows, from ``first`` on, from what was read."""
        printer = self.printer
        for each in self.factors.values():
            printer.put(f"double {each.name}[{each.blocks}][2];")
        printer.put("#pragma unroll")
        printer.open("for (int half = 0; half < 2; half++)")
        printer.put("const whole row = first + 4 * half + lane % 4;")
        printer.put("const bool here = row < end;")
        printer.put("const whole mine = here ? row : first;")
        held = printer.bring(
            sorted({name for each in self.sums for name in each.locals()}), "int(row - base)"
        )
        printer.row_address()
        printer.direct = True
        printer.value_texts = {name: f"{text}[half]" for name, text in self.row_values.items()}
        tests = {}
        for each in self.factors.values():
            if each.tests not in tests:
                tests[each.tests] = printer.fresh("used")
                text = " && ".join(["here", *(printer.expr(test, "here") for test in each.tests)])
                printer.put(f"const bool {tests[each.tests]} = {text};")
        for each in self.factors.values():
            printer.put("#pragma unroll")
            printer.open(f"for (int block = 0; block < {each.blocks}; block++)")
            counter = self.column(each.origin, each.blocks, "block")
            if self.one_of_many or each.side.count % BLOCK:
                counter = f"least<whole>({counter}, {each.side.high}LL)"
            if any(COUNTER in parts(factor) for factor in each.side.factors):
                printer.put(f"const whole {printer.name(COUNTER.name)} = {counter};")
            used = tests[each.tests]
            printer.column_text = f"{each.values.name}[block][half]" if each.values else ""
            texts = [printer.expr(factor, used) for factor in each.side.factors]
            printer.column_text = ""
            if len(texts) == 1 and each.side.factors[0].type == "real":
                value = f"double({used} ? {texts[0]} : T(0))"
            else:
                value = f"{used} ? {' * '.join(f'double({text})' for text in texts) or '1.0'} : 0.0"
            printer.put(f"{each.name}[block][half] = {value};")
            printer.close()
        printer.direct, printer.value_texts = False, {}
        printer.rename(held)
        printer.close()

    def products(self) -> None:
        """Print the products of eight rows."""
        printer = self.printer
        for _, name, left, right, tiles in self.parts:
            if right is None:
                printer.put("#pragma unroll")
                printer.put(
                    f"for (int block = 0; block < {left.blocks}; block++) "
                    f"{name}[block] += {left.name}[block][0] + {left.name}[block][1];"
                )
                continue
            for b in range(right.blocks):
                some = [(place, a) for place, (a, other) in enumerate(tiles) if other == b]
                for (place, a), (lower, below) in zip(some[::2], some[1::2], strict=False):
                    printer.put(
                        f"add_products({name}[{place}], {name}[{lower}], {left.name}[{a}], "
                        f"{left.name}[{below}], {right.name}[{b}]);"
                    )
                for place, a in some[len(some) // 2 * 2 :]:
                    printer.put(f"add_products({name}[{place}], {left.name}[{a}], {right.name}[{b}]);")

    def loop(self) -> None:
        """Print the loop of sums that have one of their own: the next rows are read during the products."""
        printer = self.printer
        self.declare_values()
        self.reader()
        printer.put("whole first = chunk * chunk_rows;")
        printer.put("if (first < end) read(first);")
        printer.put("#pragma unroll 1")
        printer.open(f"for (; first < end; first += {BLOCK})")
        self.convert()
        printer.put(f"if (first + {BLOCK} < end) read(first + {BLOCK});")
        self.products()
        printer.close()

    def step(self) -> None:
        """Print what is added for the rows of a warp."""
        printer = self.printer
        printer.open("")
        self.declare_values()
        self.reader()
        printer.put("#pragma unroll 1")
        printer.open(f"for (whole first = base; first < end && first < base + WARP; first += {BLOCK})")
        printer.put("read(first);")
        self.convert()
        self.products()
        printer.close()
        printer.close()

    def write(self) -> None:
        """Print how the sums of the warps of a block are added, and go to results, which are 0 before."""
        printer = self.printer
        printer.open("")
        printer.put(f"double* const held = (double*)((char*)shared + {printer.held_at});")
        printer.put("#pragma unroll 1")
        printer.open("for (int turn = 0; turn < WARPS; turn++)")
        printer.open("if (warp == turn)")
        begins, count = [], 0
        for _, name, left, _, tiles in self.parts:
            begins.append(count)
            numbers = 2 * len(tiles) or left.blocks
            sum_ = f"{name}[n / 2][n % 2]" if tiles else f"over_rows({name}[n])"
            printer.put("#pragma unroll")
            printer.open(f"for (int n = 0; n < {numbers}; n++)")
            printer.put(f"double& place = held[({count} + n) * WARP + lane];")
            printer.put(f"const double mine = {sum_};")
            printer.put("place = turn ? place + mine : mine;")
            printer.close()
            count += numbers
        printer.close()
        printer.put("__syncthreads();")
        printer.close()
        for begin, part in zip(begins, self.parts, strict=True):
            self.write_part(begin, *part)
        printer.put("__syncthreads();")
        printer.close()

    def write_part(
        self,
        begin: int,
        sum_: ProductSum,
        _: str,
        left: _Factors,
        right: _Factors | None,
        tiles: list[tuple[int, int]],
    ) -> None:
        printer = self.printer
        result = printer.program.arguments[sum_.result]
        i, to = printer.name(sum_.left.counter), printer.name(sum_.result)
        visited = [f"{i} <= {sum_.left.high}LL"]
        sum_text = f"held[({begin} + n) * WARP + lane]"
        printer.open("")
        if right is None:
            visited += self.visited(sum_)
            printer.put("#pragma unroll 1")
            printer.open(f"for (int n = warp; n < {left.blocks}; n += WARPS)")
            printer.put(f"const whole {i} = {self.column(left.origin, left.blocks, 'n')};")
            printer.put(f"if (lane % 4 == 0 && {' && '.join(visited)}) {to}[{i}] = {sum_text};")
            printer.close()
            printer.close()
            return
        assert sum_.right is not None
        j = printer.name(sum_.right.counter)
        visited += [f"{j} <= {sum_.right.high}LL", *self.visited(sum_)]
        places = ", ".join(f"{{{a}, {b}}}" for a, b in tiles)
        printer.put(f"static constexpr unsigned char tiles[][2] = {{{places}}};")
        printer.open(f"const auto write = [&](const whole {i}, const whole {j}, const double sum)")
        at = f"{i} * {printer.size(result.dims[1])} + {j}"
        printer.put(f"if ({' && '.join(visited)}) {to}[{at}] = sum;")
        printer.close("};")
        printer.put("#pragma unroll 1")
        printer.open(f"for (int n = warp; n < {2 * len(tiles)}; n += WARPS)")
        printer.put("const int a = tiles[n / 2][0], b = tiles[n / 2][1];")
        printer.put(f"const whole of_left = {self.column(left.origin, left.blocks, 'a')};")
        across = self.column(right.origin, right.blocks, "b", "2 * (lane % 4) + n % 2")
        printer.put(f"const whole of_right = {across};")
        printer.put(f"write(of_left, of_right, {sum_text});")
        if self.dealt:
            printer.put(f"if (a != b) write(of_right, of_left, {sum_text});")
        printer.close()
        printer.close()

    def visited(self, sum_: ProductSum) -> list[str]:
        """Return the conditions that the loops around a sum come to a cell."""
        printer, found = self.printer, []
        for loop in sum_.loops:
            name = printer.name(loop.name)
            start, stop = printer.expr(loop.start, "true"), printer.expr(loop.stop, "true")
            found += [f"{start} <= {name}", f"{name} < {stop}"]
        return found

    def print_apart(self) -> None:
        """Print all of sums that have a loop of their own."""
        self.printer.open("")
        self.declare()
        self.loop()
        self.write()
        self.printer.close()


def print_apart(printer: Printer, sums: tuple[ProductSum, ...]) -> None:
    """Print the loops of the sums of a statement that need nothing else of the row."""
    for some, one_of_many in split_sums(sums, printer.sizes):
        if one_of_many:
            _print_groups(printer, some[0])
        else:
            Group(printer, some).print_apart()


def _print_groups(printer: Printer, sum_: ProductSum) -> None:
    """Print a loop over groups of blocks, each with its own loop over the rows."""
    group = Group(printer, (sum_,), one_of_many=True)
    _, _, left, right, _ = group.parts[0]
    side, wide = sum_.left, BLOCK * left.blocks
    printer.open(f"for (whole first_left = {side.low}; first_left <= {side.high}; first_left += {wide})")
    if right is not None:
        assert sum_.right is not None
        side, high = sum_.right, BLOCK * right.blocks
        printer.open(
            f"for (whole first_right = {side.low}; first_right <= {side.high}; first_right += {high})"
        )
        i, j = printer.name(sum_.left.counter), printer.name(side.counter)
        printer.put("bool any = false;")
        printer.open(f"for (int q = lane; q < {wide * high}; q += WARP)")
        printer.put(f"const whole {i} = first_left + q / {high}, {j} = first_right + q % {high};")
        inside = [f"{i} <= {sum_.left.high}LL", f"{j} <= {side.high}LL", *group.visited(sum_)]
        printer.put(f"any |= {' && '.join(inside)};")
        printer.close()
        printer.put("if (!__any_sync(FULL, any)) continue;")
    group.print_apart()
    if right is not None:
        printer.close()
    printer.close()
