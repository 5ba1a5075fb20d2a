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
from dataclasses import dataclass, replace

from bmrm.formulas.analysis.long_loops import ROWS
from bmrm.formulas.analysis.products import (
    BLOCK,
    COUNTER,
    ProductSide,
    ProductSum,
    half_tiles,
    is_dealt,
    max_group_blocks,
    side_blocks,
    split_sums,
    tiles_of,
)
from bmrm.formulas.analysis.schedule import WARP
from bmrm.formulas.gpu.expressions import CudaExpressions, View, bring
from bmrm.formulas.language.tree import Expr, RowItem, Value, parts


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
    side: ProductSide
    tests: tuple[Expr, ...]
    origin: str
    blocks: int
    values: _Values | None

    def key(self) -> tuple[object, ...]:
        side = self.side
        return side.factors, side.high, self.tests, self.origin, self.blocks


class BlockGroup:
    """Sums that are computed together.

    Parameters
    ----------
    row : CudaExpressions
        Prints expressions of this lane's row.
    sums : tuple of ProductSum
    one_of_many : bool, default False
        Whether they are a group of blocks of one sum, from ``first_left`` and ``first_right`` on.
    """

    def __init__(self, row: CudaExpressions, sums: tuple[ProductSum, ...], one_of_many: bool = False) -> None:
        self.row, self.sums, self.one_of_many = row, sums, one_of_many
        printer = self.printer = row.writer
        self.dealt = not one_of_many and is_dealt(sums, printer.sizes)
        self.factors: dict[tuple[object, ...], _Factors] = {}
        self.values: dict[tuple[str, int, int], _Values] = {}
        self.row_values = {
            p.name: printer.fresh("value")
            for each in sums
            for expr in each.expressions()
            for p in parts(expr)
            if isinstance(p, Value) and printer.program.arguments[p.name].axes
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

    def add(self, side: ProductSide, sum_: ProductSum, first: str) -> _Factors:
        blocks = side_blocks(side)
        if self.one_of_many:
            blocks = min(blocks, max_group_blocks(sum_))
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
            printer.put(f"{printer.item} {each.name}[2][{each.blocks}];")
        for name, held in self.row_values.items():
            printer.put(f"{printer.stored(printer.program.arguments[name].type)} {held}[2];")

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
            vector, apart = self.vector(each), 1 if self.dealt else BLOCK
            dense, whole = "dense" if vector > 1 else "false", "true" if each.whole else "false"
            printer.put(
                f"read_columns<{apart}, {whole}, {vector}>(at, across, {dense}, "
                f"{self.column(each.origin, each.blocks, '0')}, {each.high}LL, {each.name}[half]);"
            )
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
        names = bring(self.row, sorted({name for s in self.sums for name in s.locals()}), "int(row - base)")
        printer.row_address()
        values = {name: f"{text}[half]" for name, text in self.row_values.items()}
        view = View(names, other_row=True, values=values)
        tests = {}
        for each in self.factors.values():
            if each.tests not in tests:
                tests[each.tests] = printer.fresh("used")
                far = CudaExpressions(printer, view)
                text = " && ".join(["here", *(far.expr(test, "here") for test in each.tests)])
                printer.put(f"const bool {tests[each.tests]} = {text};")
        for each in self.factors.values():
            self.convert_side(each, view, tests[each.tests])
        printer.close()

    def convert_side(self, each: _Factors, view: View, used: str) -> None:
        """Print the factors of a side."""
        printer = self.printer
        printer.put("#pragma unroll")
        printer.open(f"for (int block = 0; block < {each.blocks}; block++)")
        counter = self.column(each.origin, each.blocks, "block")
        if self.one_of_many or each.side.count % BLOCK:
            counter = f"least<whole>({counter}, {each.side.high}LL)"
        if any(COUNTER in parts(factor) for factor in each.side.factors):
            printer.put(f"const whole {printer.name(COUNTER.name)} = {counter};")
        far = CudaExpressions(
            printer, replace(view, column=f"{each.values.name}[half][block]" if each.values else "")
        )
        texts = [far.expr(factor, used) for factor in each.side.factors]
        if len(texts) == 1 and each.side.factors[0].type == "real":
            value = f"double({used} ? {texts[0]} : T(0))"
        else:
            value = f"{used} ? {' * '.join(f'double({text})' for text in texts) or '1.0'} : 0.0"
        printer.put(f"{each.name}[block][half] = {value};")
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
                        f"multiply_16x8x8({name}[{place}], {name}[{lower}], {left.name}[{a}], "
                        f"{left.name}[{below}], {right.name}[{b}]);"
                    )
                for place, a in some[len(some) // 2 * 2 :]:
                    printer.put(f"multiply_8x8x8({name}[{place}], {left.name}[{a}], {right.name}[{b}]);")

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
        if ROWS in printer.schedule.looking:
            tiles = sum(len(tiles) for *_, tiles in self.parts)
            test = printer.is_to_end("first", 2 * BLOCK**3 // WARP * tiles)
            printer.put(f"if (__any_sync(FULL, {test})) break;")
        printer.close()

    def step(self) -> None:
        """Print what is added for the rows of a warp."""
        printer = self.printer
        printer.open()
        self.declare_values()
        self.reader()
        printer.put("#pragma unroll 1")
        printer.open(f"for (whole first = base; first < end && first < base + WARP; first += {BLOCK})")
        printer.put("read(first);")
        self.convert()
        self.products()
        printer.close()
        printer.close()

    def write(self, held_at: str) -> None:
        """Print how the sums of the warps of a block are added, and go to results, which are 0 before.

        ``held_at`` says where in shared memory they are added.
        """
        printer = self.printer
        printer.open()
        printer.put(f"double* const held = (double*)((char*)shared + {held_at});")
        printer.open("add_warps<WARPS>([&](const bool is_first)")
        begins, count = [], 0
        for _, name, left, _, tiles in self.parts:
            begins.append(count)
            printer.put(f"add_numbers(held + {count} * WARP + lane, {name}, is_first);")
            count += 2 * len(tiles) or left.blocks
        printer.close("});")
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
        printer.open()
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
            start, stop = self.row.expr(loop.start, "true"), self.row.expr(loop.stop, "true")
            found += [f"{start} <= {name}", f"{name} < {stop}"]
        return found

    def print_apart(self, held_at: str) -> None:
        """Print all of sums that have a loop of their own."""
        self.printer.open()
        self.declare()
        self.loop()
        self.write(held_at)
        self.printer.close()


def print_apart(row: CudaExpressions, sums: tuple[ProductSum, ...], held_at: str) -> None:
    """Print the loops of the sums of a statement that need nothing else of the row."""
    for some, one_of_many in split_sums(sums, row.writer.sizes):
        if one_of_many:
            _print_groups(row, some[0], held_at)
        else:
            BlockGroup(row, some).print_apart(held_at)


def _print_groups(row: CudaExpressions, sum_: ProductSum, held_at: str) -> None:
    """Print a loop over groups of blocks, each with its own loop over the rows."""
    printer, group = row.writer, BlockGroup(row, (sum_,), one_of_many=True)
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
    group.print_apart(held_at)
    for _ in range(1 if right is None else 2):
        if ROWS in printer.schedule.looking:  # warps add their sums together: none leaves alone
            printer.put("if (__syncthreads_or(work >= kLookAfter)) break;")
        printer.close()
