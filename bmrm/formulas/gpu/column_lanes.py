"""The printer of a loop row by row, for the GPU: lanes are its iterations.

Values of some rows are read before they are added, and two rows are added at a time: both targets are read
before either is written, and of two equal targets the second takes what the first has. If a half of the lanes
suffices for the iterations, the other half has two other rows, and adds after the first half if one of its
targets is one of those. Rows that do not take part add 0 to some target.
"""

from __future__ import annotations

from bmrm.formulas.analysis.schedule import WARP, ColumnLanes
from bmrm.formulas.gpu.expressions import CudaExpressions, View, bring
from bmrm.formulas.gpu.leaving import CudaLeaving
from bmrm.formulas.gpu.writer import EVERY
from bmrm.formulas.language.tree import For, names_in

ROWS_AHEAD = 8
"""Number of rows whose values are read before they are added."""


class ColumnLoop:
    """Prints one loop.

    Parameters
    ----------
    around : CudaLeaving
        Prints the expressions of this lane's row, and the loops around.
    node : For
    how : ColumnLanes
    """

    def __init__(self, around: CudaLeaving, node: For, how: ColumnLanes) -> None:
        self.around, self.node, self.sums, self.lanes = around, node, how.sums, how.lanes
        self.writer, self.program = around.writer, around.program
        self.put, self.open, self.close = around.put, around.open, around.close
        self.first, self.end, self.taking, self.item = map(around.fresh, ("first", "end", "taking", "item"))
        self.half = f"lane / {self.lanes} * {self.lanes}"
        """The first lane of this half, and the row of its lanes."""

    def print(self, start: str, stop: str, mask: str) -> None:
        around, lanes, item, name = self.around, self.lanes, self.item, self.around.name(self.node.name)
        self.open()
        self.put(f"const whole {self.first} = {start}, {self.end} = {stop};")
        mask = around.with_iteration(self.node, self.first, self.end, mask)
        self.put(f"const unsigned {self.taking} = __ballot_sync(FULL, {mask});")
        targets = self.targets(mask)
        block = around.fresh("block")
        self.put(
            f"const whole across = {self.writer.slot('column_step')}, along = {self.writer.slot('row_step')};"
        )
        rows = self.writer.slot("rows")
        self.put(f"const char* const base_at = (const char*){rows} + (base + {self.half}) * along;")
        self.open(f"for (whole {block} = {self.first}; {block} < {self.end}; {block} += {lanes})")
        self.put(f"const whole {name} = {block} + lane % {lanes};")
        self.put(f"const bool has_turn = {name} < {self.end};")
        for place, each in enumerate(self.sums):
            self.put(f"{self.kind(each.array)}* const to{place} = {around.name(each.array)} + {name};")
        self.put("#pragma unroll 1")
        self.open(f"for (int {item} = 0; {item} < {lanes}; {item} += {ROWS_AHEAD})")
        for place, (each, (_, kind)) in enumerate(zip(self.sums, targets, strict=True)):
            self.put(f"{kind} place{place}[{ROWS_AHEAD}];")
            self.put(f"{self.kind(each.array)} value{place}[{ROWS_AHEAD}];")
        self.put(f"const char* const item_at = base_at + {item} * along;")
        chosen = [text for text, _ in targets]
        self.open(f"if ({self.taking} == FULL && {block} + {lanes} <= {self.end})")
        self.read_ahead(chosen, "true")
        self.close()
        self.open("else")
        self.put(f"const unsigned of_rows = {self.taking} >> {self.half} >> {item};")
        self.read_ahead(chosen, "(has_turn && (of_rows >> ahead & 1u))")
        self.close()
        self.add_all()
        self.close()
        around.look(self.node, times=lanes)
        self.close()
        self.put("__syncwarp();")
        self.close()

    def kind(self, result: str) -> str:
        return self.writer.accumulated(self.program.arguments[result])

    def targets(self, mask: str) -> list[tuple[str, str]]:
        """Print the rows of results to which this lane's row is added; return their names and types."""
        around, found = self.around, []
        for each in self.sums:
            dims = self.program.arguments[each.array].dims
            flat = around.flat(each.index[:-1], dims[:-1], each.array, each.line, mask)
            flat = flat if mask in EVERY else f"({mask} ? {flat} : 0)"
            chosen = around.fresh("chosen")
            kind = "int" if around.facts.count(dims) < 1 << 31 else "whole"
            self.put(f"const {kind} {chosen} = ({flat}) * {self.writer.size(dims[-1])};")
            found.append((chosen, kind))
        if self.lanes < WARP:
            others = [
                f"{chosen} == __shfl_xor_sync(FULL, {chosen}, {other})"
                for chosen, _ in found
                for other in (self.lanes, self.lanes + 1)
            ]
            self.put(f"const unsigned meeting = __ballot_sync(FULL, {' | '.join(others)});")
        return found

    def read_ahead(self, chosen: list[str], used: str) -> None:
        """Print how the targets and values of the next rows are read, those of other lanes."""
        other = f"{self.item} + ahead + {self.half}"
        self.put("#pragma unroll")
        self.open(f"for (int ahead = 0; ahead < {ROWS_AHEAD}; ahead++)")
        for place, index in enumerate(chosen):
            self.put(f"place{place}[ahead] = __shfl_sync(FULL, {index}, {other});")
        self.close()
        self.put("#pragma unroll")
        self.open(f"for (int ahead = 0; ahead < {ROWS_AHEAD}; ahead++)")
        self.put(f"const int from = {other};")
        self.put(f"const bool used = {used};")
        names = names_in(*(each.value for each in self.sums))
        own = sorted((names - {self.node.name}) & set(self.program.locals))
        far = CudaExpressions(self.writer, View(bring(self.around, own, "from"), other_row=True))
        self.put("const whole row = base + from, mine = used ? row : base;")
        self.put("const char* const at = item_at + ahead * along;")
        for place, each in enumerate(self.sums):
            value = f"{self.kind(each.array)}({far.expr(each.value, 'used')})"
            self.put(f"value{place}[ahead] = used ? {value} : 0;")
        self.close()

    def add_all(self) -> None:
        """Print how the values that were read are added, two rows at a time."""
        self.put("#pragma unroll")
        self.open(f"for (int ahead = 0; ahead < {ROWS_AHEAD}; ahead += 2)")
        if self.lanes == WARP:
            self.add_two("has_turn")
        else:
            self.put(f"const bool apart = !(meeting >> ({self.item} + ahead) & 3u);")
            self.add_two(f"has_turn && (apart || lane < {self.lanes})")
            self.open("if (!apart)")
            self.put("__syncwarp();")
            self.add_two(f"has_turn && lane >= {self.lanes}")
            self.close()
            self.put("__syncwarp();")
        self.close()

    def add_two(self, test: str) -> None:
        """Print how the values of two rows are added to their targets."""
        self.open(f"if ({test})")
        for place in range(len(self.sums)):
            two = [f"{what}{place}[{at}]" for what in ("place", "value") for at in ("ahead", "ahead + 1")]
            self.put(f"add_two(to{place}, {', '.join(two)});")
        self.close()
