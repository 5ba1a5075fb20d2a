"""The printer of the kernel that combines the parts of all chunks, in a fixed order."""

from __future__ import annotations

from bmrm.formulas.analysis.schedule import WARP
from bmrm.formulas.gpu.operator_text import identity_text
from bmrm.formulas.gpu.writer import CudaWriter, Number
from bmrm.formulas.language.tree import Argument


class CombineKernel:
    """Prints the kernel.

    Parameters
    ----------
    writer : CudaWriter
    """

    def __init__(self, writer: CudaWriter) -> None:
        self.writer, self.program, self.facts = writer, writer.program, writer.facts
        self.put, self.open, self.close = writer.put, writer.open, writer.close

    def print(self) -> None:
        """Print the kernel that combines the parts."""
        self.open('extern "C" __global__ void __launch_bounds__(1024) bmrm_combine(Table table, Table to)')
        self.put("__shared__ double held[32][33];")
        if any(a.leader for a in self.program.combined()):
            self.put("__shared__ whole rows[32][33];")
        self.put(f"const whole chunks = {self.writer.slot('chunks')};")
        error = self.writer.layout.slots["error"]
        self.put("const bool is_first = blockIdx.x == 0 && threadIdx.x == 0;")
        self.put(f"if (is_first) *(volatile whole*)to.at[{error}] = *(const whole*)table.at[{error}];")
        before = Number(0)
        for result in self.program.combined():
            if result.role == "other":
                continue
            if result.keeps_row:
                self.combine_best(result, before)
            else:
                self.combine_plain(result, before)
            count = self.writer.count(result.dims)
            before += Number(-(-max(1, count.value) // WARP), count.at_run_time)
        self.close()

    def numbers(self, result: Argument, before: Number) -> tuple[str, str, str]:
        """Return the number of elements of a result, that of blocks of those before, and its type."""
        count = self.writer.number(self.writer.count(result.dims), f"count {result.name}", "LL")
        first = self.writer.number(before, f"before {result.name}", "u")
        return count, first if first.endswith("u") else f"unsigned({first})", self.writer.accumulated(result)

    def combine_plain(self, result: Argument, before: Number) -> None:
        """Print how a result is combined that is combined on its own."""
        count, first, kind = self.numbers(result, before)
        slot = self.writer.layout.slots[f"argument {result.name}"]
        parts_ = "chunks / WARPS" if self.writer.schedule.is_together(result) else "chunks"
        op = self.writer.struct(result.combined_by)
        self.put(
            f"combine_parts<{op}, {kind}>((const {kind}*)table.at[{slot}], "
            f"({kind}*)to.at[{slot}], {count}, {parts_}, {identity_text(result)}, {first}, "
            f"({kind} (*)[33])held);"
        )

    def combine_best(self, result: Argument, before: Number) -> None:
        """Print how extrema are combined that bring others along."""
        count, first, kind = self.numbers(result, before)
        slot, rows = (self.writer.layout.slots[f"{what} {result.name}"] for what in ("argument", "rows"))
        self.open(
            f"combine_best<{result.combined_by.struct}>((const {kind}*)table.at[{slot}], "
            f"(const whole*)table.at[{rows}], ({kind}*)to.at[{slot}], (whole*)to.at[{rows}], {count}, "
            f"chunks, {kind}({identity_text(result)}), {first}, ({kind} (*)[33])held, rows, "
            "[&](const whole q, const whole chosen)"
        )
        for other in self.program.results():
            if other.leader == result.name:
                place_ = self.writer.layout.slots[f"argument {other.name}"]
                type_ = self.writer.accumulated(other)
                taken = f"((const {type_}*)table.at[{place_}])[chosen * {count} + q]"
                nothing = f"{type_}({identity_text(other)})"
                self.put(f"(({type_}*)to.at[{place_}])[q] = chosen < 0 ? {nothing} : {taken};")
        self.close("});")
