"""The printer of sums of products for the GPU: blocks of 8 x 8 sums in the registers of a warp.

A warp multiplies eight rows at a time. Lane 4 g + t has column g of each block of columns of the rows t and
4 + t, as `mma.m8n8k4` wants its factors (PTX ISA, "Matrix fragments for mma.m8n8k4 with .f64 floating point
type"), and reads them from where the rows are: four rows of eight neighbours. Products and sums are float64:
products of float32 are exact. Tensor cores compute them from compute capability 8.0 on, others exchange the
factors by shuffles. A vector of sums needs no product: each lane adds its column of its rows, and the four
lanes of a column are added at the end.

Sums that only need the rows and parameters have a loop of their own over the rows of a chunk (``apart``); of
sums that do not fit in registers, a block of columns by a block of columns at a time. Sums that need the
row's own numbers, which another lane has computed, are added on the way (``along``); shuffles bring these
numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from bmrm.formulas.bounds import Bounds
from bmrm.formulas.products import COUNTER, ProductSum, Side, find_products, is_visited
from bmrm.formulas.tree import Expr, Program, parts

BLOCK = 8
"""Rows and columns of a block of sums, and rows that are multiplied at a time."""

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
        numbers = sum(count_numbers(each, sizes) for each in sums)
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
    found = {
        (i // BLOCK, j // BLOCK)
        for i in range(left.count)
        for j in range(right.count)
        if is_visited(sum_, sizes, {left.counter: left.low + i, right.counter: right.low + j})
    }
    return sorted(found)


def count_numbers(sum_: ProductSum, sizes: Mapping[str, int]) -> int:
    """Return how many sums a lane has."""
    return side_blocks(sum_.left) if sum_.right is None else 2 * len(tiles_of(sum_, sizes))


class Printer(Protocol):
    """What prints the rest of the program."""

    program: Program
    sizes: Mapping[str, int]
    direct: bool

    def put(self, text: str) -> None: ...
    def open(self, text: str) -> None: ...
    def close(self, end: str = "}") -> None: ...
    def name(self, name: str) -> str: ...
    def rename(self, names: dict[str, str]) -> None: ...
    def bring(self, names: list[str], other: str) -> dict[str, str]: ...
    def fresh(self, hint: str) -> str: ...
    def size(self, size: str | int) -> str: ...
    def kind(self, kind: str) -> str: ...
    def row_address(self) -> None: ...
    def expr(self, node: Expr, mask: str) -> str: ...


@dataclass(frozen=True)
class _Factors:
    """Factors of a side that a lane has, and the blocks that it has of them."""

    name: str
    side: Side
    tests: tuple[Expr, ...]
    origin: str
    blocks: int
    kind: str

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
        self.factors: dict[tuple[object, ...], _Factors] = {}
        self.parts: list[tuple[ProductSum, str, _Factors, _Factors | None, list[tuple[int, int]]]] = []
        for each in sums:
            left = self.add(each.left, each, "first_left")
            right = self.add(each.right, each, "first_right") if each.right else None
            tiles = []
            if right:
                every = [(a, b) for a in range(left.blocks) for b in range(right.blocks)]
                tiles = every if one_of_many else tiles_of(each, printer.sizes)
            self.parts.append((each, printer.fresh("sums"), left, right, tiles))

    def add(self, side: Side, sum_: ProductSum, first: str) -> _Factors:
        blocks = side_blocks(side)
        if self.one_of_many:
            blocks = min(blocks, GROUP_BLOCKS if sum_.right else GROUP_VECTOR_BLOCKS)
        origin = first if self.one_of_many else f"{side.low}LL"
        alone = len(side.factors) == 1 and side.factors[0].type == "real"
        made = _Factors("", side, sum_.tests, origin, blocks, "T" if alone else "double")
        key = made.key()
        if key not in self.factors:
            name = self.printer.fresh("side")
            self.factors[key] = _Factors(name, side, sum_.tests, origin, blocks, made.kind)
        return self.factors[key]

    def declare(self) -> None:
        """Declare the sums."""
        for _, name, left, _, tiles in self.parts:
            count = f"[{len(tiles)}][2]" if tiles else f"[{left.blocks}]"
            self.printer.put(f"double {name}{count} = {{}};")

    def names(self, suffix: str = "") -> str:
        return ", ".join(each.name + suffix for each in self.factors.values())

    def reader(self) -> None:
        """Print the function that reads the factors of eight rows."""
        printer = self.printer
        arguments = ", ".join(f"{f.kind} (&{f.name})[{f.blocks}][2]" for f in self.factors.values())
        printer.open(f"const auto read = [&](const whole first_row, {arguments})")
        printer.put("#pragma unroll")
        printer.open("for (int half = 0; half < 2; half++)")
        printer.put("const whole row = first_row + 4 * half + lane % 4;")
        printer.put("const bool here = row < end;")
        printer.put("const whole mine = here ? row : first_row;")
        held = printer.bring(
            sorted({name for each in self.sums for name in each.locals()}), "int(row - base)"
        )
        printer.row_address()
        printer.direct = True
        tests = {}
        for each in self.factors.values():
            if each.tests not in tests:
                tests[each.tests] = printer.fresh("used")
                text = " && ".join(["here", *(printer.expr(test, "here") for test in each.tests)])
                printer.put(f"const bool {tests[each.tests]} = {text};")
        for each in self.factors.values():
            printer.put("#pragma unroll")
            printer.open(f"for (int block = 0; block < {each.blocks}; block++)")
            counter = f"{each.origin} + {BLOCK} * block + lane / 4"
            if self.one_of_many or each.side.count % BLOCK:
                counter = f"least<whole>({counter}, {each.side.high}LL)"
            if any(COUNTER in parts(factor) for factor in each.side.factors):
                printer.put(f"const whole {printer.name(COUNTER.name)} = {counter};")
            used = tests[each.tests]
            texts = [f"{each.kind}({printer.expr(factor, used)})" for factor in each.side.factors]
            value = " * ".join(texts) or "1.0"
            printer.put(f"{each.name}[block][half] = {used} ? {value} : {each.kind}(0);")
            printer.close()
        printer.direct = False
        printer.rename(held)
        printer.close()
        printer.close("};")

    def convert(self) -> None:
        """Print the factors in float64."""
        printer = self.printer
        for each in self.factors.values():
            printer.put(f"double {each.name}[{each.blocks}][2];")
            printer.put("#pragma unroll")
            printer.open(f"for (int block = 0; block < {each.blocks}; block++)")
            for half in range(2):
                at = f"{each.name}[block][{half}]"
                printer.put(f"{at} = double({each.name}_read[block][{half}]);")
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
            places = {tile: place for place, tile in enumerate(tiles)}
            for a, b in tiles:
                place, other = places[a, b], places.get((a + 1, b))
                of = f"{right.name}[{b}]"
                if a % 2 == 0 and other is not None:
                    printer.put(
                        f"add_products({name}[{place}], {name}[{other}], {left.name}[{a}], "
                        f"{left.name}[{a + 1}], {of});"
                    )
                elif a % 2 == 0 or (a - 1, b) not in places:
                    printer.put(f"add_products({name}[{place}], {left.name}[{a}], {of});")

    def loop(self) -> None:
        """Print the loop of sums that have one of their own: the next rows are read during the products."""
        printer = self.printer
        self.reader()
        for each in self.factors.values():
            printer.put(f"{each.kind} {each.name}_read[{each.blocks}][2];")
        printer.put("whole first = chunk * chunk_rows;")
        printer.put(f"if (first < end) read(first, {self.names('_read')});")
        printer.open(f"for (; first < end; first += {BLOCK})")
        self.convert()
        printer.put(f"if (first + {BLOCK} < end) read(first + {BLOCK}, {self.names('_read')});")
        self.products()
        printer.close()

    def step(self) -> None:
        """Print what is added for the rows of a warp."""
        printer = self.printer
        printer.open("")
        self.reader()
        printer.put("#pragma unroll 1")
        printer.open(f"for (whole first = base; first < end && first < base + WARP; first += {BLOCK})")
        for each in self.factors.values():
            printer.put(f"{each.kind} {each.name}_read[{each.blocks}][2];")
        printer.put(f"read(first, {self.names('_read')});")
        self.convert()
        self.products()
        printer.close()
        printer.close()

    def write(self) -> None:
        """Print how the sums go to their results, in global memory, which are 0 before."""
        printer = self.printer
        for sum_, name, left, right, tiles in self.parts:
            result = printer.program.arguments[sum_.result]
            i, to = printer.name(sum_.left.counter), printer.name(sum_.result)
            visited = [f"{i} <= {sum_.left.high}LL"]
            if right is None:
                visited += self.visited(sum_)
                printer.put("#pragma unroll")
                printer.open(f"for (int block = 0; block < {left.blocks}; block++)")
                printer.put(f"const whole {i} = {left.origin} + {BLOCK} * block + lane / 4;")
                printer.put(f"const double sum = over_rows({name}[block]);")
                printer.put(f"if (lane % 4 == 0 && {' && '.join(visited)}) {to}[{i}] = sum;")
                printer.close()
                continue
            assert sum_.right is not None
            j, write = printer.name(sum_.right.counter), printer.fresh("write")
            visited += [f"{j} <= {sum_.right.high}LL", *self.visited(sum_)]
            printer.open(f"const auto {write} = [&](int a, int b, const double (&sums)[2])")
            printer.open("for (int second = 0; second < 2; second++)")
            printer.put(f"const whole {i} = {left.origin} + {BLOCK} * a + lane / 4;")
            printer.put(f"const whole {j} = {right.origin} + {BLOCK} * b + 2 * (lane % 4) + second;")
            at = f"{i} * {printer.size(result.dims[1])} + {j}"
            printer.put(f"if ({' && '.join(visited)}) {to}[{at}] = sums[second];")
            printer.close()
            printer.close("};")
            for place, (a, b) in enumerate(tiles):
                printer.put(f"{write}({a}, {b}, {name}[{place}]);")

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
    if sum(count_numbers(each, printer.sizes) for each in sums) <= MAX_APART_NUMBERS:
        Group(printer, sums).print_apart()
        return
    for each in sums:
        if count_numbers(each, printer.sizes) <= MAX_APART_NUMBERS:
            Group(printer, (each,)).print_apart()
        else:
            _print_groups(printer, each)


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
