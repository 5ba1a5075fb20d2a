"""The printer of the kernel that combines the parts of all chunks, in a fixed order."""

from __future__ import annotations

from bmrm.formulas.analysis.schedule import WARP
from bmrm.formulas.gpu.expressions import SIGNS
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
        if any(a.leader for a in self.program.results()):
            self.put("__shared__ whole rows[32][33];")
        self.put(f"const whole chunks = {self.writer.slot('chunks')};")
        error = self.writer.layout.slots["error"]
        self.put("const bool is_first = blockIdx.x == 0 && threadIdx.x == 0;")
        self.put(f"if (is_first) *(volatile whole*)to.at[{error}] = *(const whole*)table.at[{error}];")
        before = Number(0)
        for result in self.program.results():
            if result.role in ("output", "other"):
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
        """Print how extrema are combined that bring others along: as `combine_parts`, groups in order."""
        count, first, kind = self.numbers(result, before)
        slot, rows = (self.writer.layout.slots[f"{what} {result.name}"] for what in ("argument", "rows"))
        sign = SIGNS[result.combined_by.order]
        as_double = "" if kind == "double" else "__longlong_as_double"
        from_double = "" if kind == "double" else "__double_as_longlong"
        better = f"chosen < 0 || v {sign} best || (v == best && r < row)"
        mine = f"(blockIdx.x + gridDim.x - {first} % gridDim.x) % gridDim.x"
        self.open(f"for (whole first = {mine} * 32LL; first < {count}; first += gridDim.x * 32LL)")
        self.put("const int cell = threadIdx.x % 32, group = threadIdx.x / 32;")
        self.put("const whole q = first + cell;")
        self.put(f"{kind} best = {identity_text(result)};")
        self.put("whole row = GREATEST_WHOLE, chosen = -1;")
        self.put("#pragma unroll 4")
        self.open(f"for (whole chunk = q < {count} ? group : chunks; chunk < chunks; chunk += 32)")
        self.put(f"const {kind} v = ((const {kind}*)table.at[{slot}])[chunk * {count} + q];")
        self.put(f"const whole r = ((const whole*)table.at[{rows}])[chunk * {count} + q];")
        self.put("if (r == GREATEST_WHOLE) continue;")
        self.put(f"if ({better}) best = v, row = r, chosen = chunk;")
        self.close()
        self.put(f"held[group][cell] = {as_double}(best);")
        self.put("rows[group][cell] = chosen;")
        self.put("__syncthreads();")
        self.open(f"if (group == 0 && q < {count})")
        self.put("#pragma unroll 1")
        self.open("for (int g = 1; g < 32; g++)")
        self.put(f"const {kind} v = {from_double}(held[g][cell]);")
        self.put("const whole c = rows[g][cell];")
        self.put("if (c < 0) continue;")
        self.put(f"const whole r = ((const whole*)table.at[{rows}])[c * {count} + q];")
        self.put(f"if ({better}) best = v, row = r, chosen = c;")
        self.close()
        self.put(f"(({kind}*)to.at[{slot}])[q] = best;")
        self.put(f"((whole*)to.at[{rows}])[q] = row;")
        for other in self.program.results():
            if other.leader == result.name:
                place_ = self.writer.layout.slots[f"argument {other.name}"]
                type_ = self.writer.accumulated(other)
                taken = f"((const {type_}*)table.at[{place_}])[chosen * {count} + q]"
                nothing = f"{type_}({identity_text(other)})"
                self.put(f"(({type_}*)to.at[{place_}])[q] = chosen < 0 ? {nothing} : {taken};")
        self.close()
        self.put("__syncthreads();")
        self.close()
