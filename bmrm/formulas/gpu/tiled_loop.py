"""The printer of a loop over tiles of parameters: see `analysis/tiles.py` and `analysis/tried.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bmrm.formulas.analysis.schedule import Uniform
from bmrm.formulas.analysis.tried import changed_arrays, changed_numbers, counted_after, divisors
from bmrm.formulas.gpu.leaving import CudaLeaving
from bmrm.formulas.gpu.writer import CudaWriter, Tried
from bmrm.formulas.language.tree import Combine, For


def declare_tiles(writer: CudaWriter) -> None:
    """Print where the tiles of this warp are."""
    for name, tile in writer.schedule.tiles.items():
        kind, own = writer.stored(writer.program.arguments[name].type), writer.name(name)
        writer.put(f"alignas(16) __shared__ {kind} {own}_tiles[WARPS][{tile.rows * tile.stride}];")
        writer.put(f"{kind}* const {own}_tile = {own}_tiles[warp];")


class TiledLoop:
    """Prints one loop.

    Parameters
    ----------
    around : CudaLeaving
    node : For
    how : Uniform
    count_at : callable
        Prints how a counter is added to whose indices and value are found: see `CudaStatements.count_at`.
    """

    def __init__(
        self,
        around: CudaLeaving,
        node: For,
        how: Uniform,
        count_at: Callable[[Combine, list[str], str, str], None],
    ) -> None:
        self.count_at = count_at
        self.around, self.node, self.how, self.writer = around, node, how, around.writer
        self.put, self.open, self.close = around.put, around.open, around.close
        self.tiles = {name: self.writer.schedule.tiles[name] for name in how.tiles}
        self.rows = min(tile.rows for tile in self.tiles.values())
        self.divisors: dict[str, str] = {}
        self.first, self.end, self.some = map(around.fresh, ("first", "end", "some"))

    def print(self, start: str, stop: str, iteration: Callable[[], None], row: str = "row") -> None:
        """Print a loop over tiles, and in it the iterations of a tile; ``row`` is the lane's first."""
        first, end, rows = self.first, self.end, self.rows
        for divisor in divisors(self.node, self.writer.program) if self.how.tried else ():
            text = self.around.expr(divisor, "true")
            if text not in self.divisors:
                self.divisors[text] = self.around.fresh("divisor")
                self.put(f"const Divisor {self.divisors[text]}({text});")
        self.open(f"for (whole {first} = {start}, {end} = {stop}; {first} < {end}; {first} += {rows})")
        self.put(f"const int {self.some} = int(least<whole>({end} - {first}, {rows}));")
        self.copy()
        if self.how.tried:
            self.tried(iteration)
        else:
            if self.how.unroll:
                self.put(f"#pragma unroll {self.how.unroll}")
            item = self.around.fresh("item")
            self.open(f"for (int {item} = 0; {item} < {self.some}; {item}++)")
            self.iteration(item, iteration)
            self.close()
        self.around.look(self.node, row=row, times=rows)
        self.close()

    def copy(self) -> None:
        """Print how the rows of a tile are copied."""
        self.put("__syncwarp();")
        for name, tile in self.tiles.items():
            own, each = self.writer.name(name), tile.numbers
            place = f"q / {each} * {tile.stride} + q % {each}" if tile.stride > each else "q"
            kind = self.writer.stored(self.writer.program.arguments[name].type)
            self.put("#pragma unroll")
            self.open(f"for (int q = lane; q < {self.rows * each}; q += WARP)")
            copied = f"{own}_tile[{place}] = {kind}({own}[{self.first} * {each} + q]);"
            self.put(f"if (q < {self.some} * {each}) {copied}")
            self.close()
        self.put("__syncwarp();")

    def iteration(self, item: str, iteration: Callable[[], None]) -> None:
        """Print the iteration of a row of a tile."""
        writer = self.writer
        self.put(f"const whole {writer.name(self.node.name)} = {self.first} + {item};")
        for name, tile in self.tiles.items():
            kind = writer.stored(writer.program.arguments[name].type)
            of_item = self.around.fresh(f"{writer.name(name)}_item")
            at = f"{writer.name(name)}_tile + ({item}) * {tile.stride}"
            if tile.in_registers:
                self.put(f"{kind} {of_item}[{tile.stride}];")
                self.put(f"read_neighbours<{kind}, {tile.stride}>({at}, {of_item});")
            else:
                self.put(f"const {kind}* const {of_item} = {at};")
            writer.rows_of_tiles[name] = self.node.name, of_item
        iteration()
        for name in self.tiles:
            del writer.rows_of_tiles[name]

    def tried(self, iteration: Callable[[], None]) -> None:
        """Print iterations that are tried; if one is unusual, all are taken back, and run one by one."""
        item, unusual, count = self.around.fresh("next"), self.around.fresh("unusual"), self.how.tried
        self.put(f"int {item} = 0;")
        self.open(f"while ({item} < {self.some})")
        self.open(f"for (; {item} + {count} <= {self.some}; {item} += {count})")
        self.put(f"bool {unusual} = false;")
        back, counts = self.keep(), {}
        for each in counted_after(self.node):
            places, values = [self.around.fresh("at") for _ in each.index], self.around.fresh("values")
            self.put(f"whole {', '.join(f'{place}[{count}]' for place in places)};")
            self.put(f"int {values}[{count}];")
            counts[id(each)] = places, values
        number = self.around.fresh("number")
        self.writer.tried = Tried(unusual, number, self.divisors, counts)
        self.put("#pragma unroll")
        self.open(f"for (int {number} = 0; {number} < {count}; {number}++)")
        self.iteration(f"{item} + {number}", iteration)
        self.close()
        self.writer.tried = None
        self.open(f"if ({unusual})")
        for line in back:
            self.put(line)
        self.put("break;")
        self.close()
        if counts:
            self.count(counts)
        self.close()
        end = self.around.fresh("end")
        self.put("#pragma unroll 1")
        self.open(f"for (int {end} = least({item} + {count}, {self.some}); {item} < {end}; {item}++)")
        self.iteration(item, iteration)
        self.close()
        self.close()

    def count(self, counts: Mapping[int, tuple[list[str], str]]) -> None:
        """Print how what iterations have found is counted."""
        self.put("#pragma unroll")
        self.open(f"for (int q = 0; q < {self.how.tried}; q++)")
        for each in counted_after(self.node):
            places, values = counts[id(each)]
            self.count_at(each, [f"{place}[q]" for place in places], f"{values}[q]", "here")
        self.close()

    def keep(self) -> list[str]:
        """Print how what iterations change is kept; return the lines that take it back."""
        back = []
        for name in changed_numbers(self.node):
            own, kept = self.around.name(name), self.around.fresh("kept")
            self.put(f"const auto {kept} = {own};")
            back.append(f"{own} = {kept};")
        for name in changed_arrays(self.node):
            own, kept = self.around.name(name), self.around.fresh("kept")
            count = self.around.facts.count(self.writer.program.arrays[name].dims)
            self.put(f"{self.writer.element(name)} {kept}[{max(1, count)}];")
            self.put(f"for (int q = 0; q < {count}; q++) {kept}[q] = {own}[q];")
            back.append(f"for (int q = 0; q < {count}; q++) {own}[q] = {kept}[q];")
        return back
