"""The printer of the kernel that walks over the rows.

A warp has a chunk of rows of its own, one row per lane. Chunks are fixed: they depend on the number of rows
and the size of the results alone. Each warp has results of its own, in shared memory if those of all warps of
a block fit, else in the chunk's place in global memory. Counters alone are combined by atomic operations:
their sums are the same in any order. Values with the same index for all lanes are combined over the warp by
halves. Those whose index depends on the row are combined by rounds: a round has one lane of each index, the
earliest that is left.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from bmrm.formulas.analysis.long_loops import ROWS
from bmrm.formulas.analysis.schedule import BLOCKED_ROWS, WARP
from bmrm.formulas.gpu.blocked_rows import BlockedRows
from bmrm.formulas.gpu.cuda_products import BlockGroup, print_apart
from bmrm.formulas.gpu.expressions import View
from bmrm.formulas.gpu.operator_text import identity_text
from bmrm.formulas.gpu.statements import CudaStatements
from bmrm.formulas.gpu.tiled_loop import declare_tiles
from bmrm.formulas.gpu.writer import CudaWriter, Number
from bmrm.formulas.language.tree import Argument


class RowsKernel:
    """Prints the kernel.

    Parameters
    ----------
    writer : CudaWriter
    """

    def __init__(self, writer: CudaWriter) -> None:
        self.writer, self.schedule, self.memory = writer, writer.schedule, writer.memory
        self.program, self.facts = writer.program, writer.facts
        self.width = writer.sizes[self.program.width]
        self.put, self.open, self.close = writer.put, writer.open, writer.close
        counts = [writer.count(result.dims) for result in self.array_results()]
        changes = any(count.at_run_time for count in counts)
        self.slice = Number(self.memory.slice_items, changes)
        """Numbers of 8 bytes of the results of a warp."""
        held_at = 8 * self.memory.slice_items * self.memory.warps if self.memory.shared_results else 0
        self.held_at = Number(held_at, changes and self.memory.shared_results)
        """Where warps add sums of products, in bytes of shared memory."""
        self.row = CudaStatements(writer, View(registers="x" if self.memory.register_row else ""))

    def print(self) -> None:
        writer, blocks = self.writer, self.schedule.blocks
        held_at = writer.number(self.held_at, "held", unit=8 * self.memory.unit) if blocks.sums() else ""
        threads = self.memory.warps * WARP
        self.open(f'extern "C" __global__ void __launch_bounds__({threads}) bmrm_rows(Table table)')
        self.put("const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;")
        self.put("extern __shared__ __align__(16) double shared[];")
        self.parameters()
        declare_tiles(writer)
        self.put(f"const whole last = {writer.slot('last')}, number = {writer.slot('number')};")
        self.put(f"const whole chunks = {writer.slot('chunks')}, chunk_rows = {writer.slot('chunk_rows')};")
        if (vector := self.vector()) > 1:
            item = {"float": 4, "double": 8}[writer.item]
            places = f"({writer.slot('rows')} | {writer.slot('row_step')}) % {item * vector} == 0"
            self.put(f"const bool packed = {writer.slot('column_step')} == {item} && {places};")
        self.put("const whole step = gridDim.x * whole(WARPS);")
        if self.schedule.looking:
            self.put("int work = 0;")
        self.open("for (whole chunk = blockIdx.x * whole(WARPS) + warp; chunk < chunks; chunk += step)")
        self.results()
        self.put("const whole end = least((chunk + 1) * chunk_rows, last);")
        for sums in blocks.apart.values():
            print_apart(self.row, sums, held_at)
        along = {}
        for place, sums in blocks.along.items():
            along[place] = BlockGroup(self.row, sums)
            along[place].declare()
        if len(blocks.apart) < len(self.program.body):
            self.rows_loop(along)
        for group in along.values():
            group.write(held_at)
        self.write_results()
        self.close()
        self.close()

    def rows_loop(self, along: dict[int, BlockGroup]) -> None:
        """Print the loop that has a row per lane, or some rows for the first statements."""
        count = self.schedule.blocked
        if count:
            blocked = BlockedRows(self.writer, self.read_row)
            self.open(f"for (whole start = chunk * chunk_rows; start < end; start += {BLOCKED_ROWS} * WARP)")
            self.writer.declare_numbers()
            blocked.print(self.program.body[:count])
            each = f"base < end && base < start + {BLOCKED_ROWS} * WARP"
            self.open(f"for (whole base = start; {each}; base += WARP)")
            self.writer.own_row("base", "base")
        else:
            self.open("for (whole base = chunk * chunk_rows; base < end; base += WARP)")
            self.writer.own_row("base", "base")
            self.find_row()
            self.writer.declare_numbers()
        self.declare_arrays()
        first_line = len(self.writer.lines)
        for place, statement in enumerate(self.program.body[count:], count):
            if place in along:
                along[place].step()
            elif place not in self.schedule.blocks.apart:
                self.row.statement(statement, "here")
        self.writer.report_failures(first_line)
        self.outputs()
        if count:
            blocked.next_row()
            self.close()
        if ROWS in self.schedule.looking:
            row = f"{'start' if count else 'base'} + lane"
            test = self.writer.is_to_end(row, self.schedule.looking[ROWS])
            self.put(f"if (__any_sync(FULL, {test})) break;")
        self.close()

    # --- arguments

    def array_results(self) -> list[Argument]:
        in_blocks = self.schedule.blocks.results()
        return [a for a in self.program.combined() if a.dims and a.name not in in_blocks]

    def number_results(self) -> list[Argument]:
        return [a for a in self.program.combined() if not a.dims]

    def arrays_of(self, result: Argument) -> Iterator[tuple[str, str, str, str]]:
        """Yield the arrays of a result: the name in the text, entry of the table, type and identity."""
        writer, name = self.writer, self.writer.name(result.name)
        yield name, f"argument {result.name}", writer.held(result), identity_text(result)
        if result.keeps_row:
            yield f"{name}_row", f"rows {result.name}", "whole", "GREATEST_WHOLE"

    def parameters(self) -> None:
        """Point to the parameters; copy those that have a place in shared memory."""
        writer, offset = self.writer, self.held_at + Number(self.memory.held_bytes)
        for argument in self.program.arguments.values():
            if argument.role != "parameter":
                continue
            kind = writer.stored(argument.type)
            stored = "double" if argument.name in writer.wide else kind
            given = f"((const {stored}*){writer.slot(f'argument {argument.name}')})"
            name = writer.name(argument.name)
            if argument.name in self.memory.shared_parameters:
                number = writer.count(argument.dims)
                at = writer.number(offset, f"shared {argument.name}", unit=8 * self.memory.unit)
                count = writer.number(number, f"count {argument.name}")
                self.put(f"{kind}* const {name} = ({kind}*)((char*)shared + {at});")
                self.put(f"for (int q = threadIdx.x; q < {count}; q += blockDim.x) {name}[q] = {given}[q];")
                bytes_ = number.value * {"T": 4 if writer.real == "float" else 8, "whole": 8}.get(kind, 1)
                offset += Number(bytes_, number.at_run_time).rounded_up(8 * self.memory.unit)
            elif not argument.axes and not argument.dims:
                self.put(f"const {writer.kind(argument.type)} {name} = {given}[0];")
            else:
                self.put(f"const {stored}* __restrict__ const {name} = {given};")
        for name in self.program.squares:
            given = f"(const T*){writer.slot(f'squares {name}')}"
            self.put(f"const T* __restrict__ const {writer.name(name + '.squares')} = {given};")
        self.put("__syncthreads();")

    def results(self) -> None:
        """Point to the results of this chunk, and give them their identities."""
        writer, offset = self.writer, Number(0)
        for result in self.array_results():
            count = self.count(result)
            for array, slot, type_, identity in self.arrays_of(result):
                if self.memory.shared_results:
                    at = writer.number(offset, f"shared {array}", unit=self.memory.unit)
                    place = f"({type_}*)(shared + warp * {self.each_slice()} + {at})"
                else:
                    place = f"(({type_}*){writer.slot(slot)} + chunk * {self.count(result, 'LL')})"
                self.put(f"{type_}* const {array} = {place};")
                self.put("#pragma unroll 1")
                self.put(f"for (int q = lane; q < {count}; q += WARP) {array}[q] = {identity};")
                offset += writer.held_items(result).rounded_up(self.memory.unit)
        in_blocks = self.schedule.blocks.results()
        for result in self.program.results():
            if result.name not in in_blocks:
                continue
            count, name = self.count(result), writer.name(result.name)
            place = f"(double*){writer.slot(f'argument {result.name}')} + chunk / WARPS * {count}LL"
            self.put(f"double* const {name} = {place};")
            self.put(f"for (int q = threadIdx.x; q < {count}; q += blockDim.x) {name}[q] = 0;")
        for result in self.number_results():
            for name, _, type_, identity in self.arrays_of(result):
                self.put(f"{type_} {name} = {identity};")
        self.put("__syncwarp();")

    def write_results(self) -> None:
        """Write the results of a chunk, or of those of a block, to their place in global memory."""
        writer = self.writer
        together = [result for result in self.array_results() if self.schedule.is_together(result)]
        self.put("__syncthreads();" if together else "__syncwarp();")
        for result in self.array_results() if self.memory.shared_results else []:
            count = self.count(result)
            if result in together:
                self.write_together(result)
                continue
            for array, slot, type_, _ in self.arrays_of(result):
                to = f"(({type_}*){writer.slot(slot)})[chunk * {self.count(result, 'LL')} + q]"
                self.put(f"for (int q = lane; q < {count}; q += WARP) {to} = {array}[q];")
        for result in self.number_results():
            for name, slot, type_, _ in self.arrays_of(result):
                value = name
                if result.operator and not result.keeps_row:
                    value = f"{name}_all"
                    op = writer.struct(result.operator)
                    self.put(f"const {type_} {value} = over_warp<{op}>({name});")
                self.put(f"if (lane == 0) (({type_}*){writer.slot(slot)})[chunk] = {value};")
        self.put("__syncthreads();" if together else "__syncwarp();")

    def each_slice(self) -> str:
        """Return the numbers of 8 bytes from the results of a warp to those of the next."""
        return self.writer.number(self.slice, "slice", unit=self.memory.unit)

    def count(self, result: Argument, suffix: str = "") -> str:
        """Return the number of elements of a result."""
        return self.writer.number(self.writer.count(result.dims), f"count {result.name}", suffix)

    def write_together(self, result: Argument) -> None:
        """Combine a result over the warps of a block, in their order, and write it."""
        writer, each = self.writer, self.each_slice()
        kind, held, name = writer.accumulated(result), writer.held(result), writer.name(result.name)
        if result.name in self.schedule.counters:
            each = f"2 * {each}"
        self.open(f"for (int q = threadIdx.x; q < {self.count(result)}; q += blockDim.x)")
        self.put(f"const {held}* const first = {name} - warp * {each};")
        self.put(f"{kind} all = first[q];")
        self.put("#pragma unroll")
        self.open("for (int other = 1; other < WARPS; other++)")
        self.put(
            f"all = {self.writer.struct(result.combined_by)}::of(all, {kind}(first[other * {each} + q]));"
        )
        self.close()
        to = f"(({kind}*){writer.slot(f'argument {result.name}')})"
        self.put(f"{to}[chunk / WARPS * {self.count(result, 'LL')} + q] = all;")
        self.close()

    # --- the row

    def find_row(self) -> None:
        """Find the row of this lane; lanes without one read the first of their warp."""
        if self.writer.column:
            self.put(f"const whole* const starts = (const whole*){self.writer.slot('starts')};")
            self.put("const whole row_first = starts[mine], row_last = here ? starts[mine + 1] : row_first;")
            return
        self.writer.row_address()
        if self.memory.register_row:
            self.put(f"T x[{max(1, self.width)}];")
            self.read_row("x")

    def read_row(self, x: str) -> None:
        """Read a row into registers."""
        if self.width:
            vector = self.vector()
            packed = "packed" if vector > 1 else "false"
            self.put(f"read_row<{self.writer.item}, {vector}, {self.width}>(at, across, {packed}, {x});")

    def vector(self) -> int:
        """Return how many values of a row in registers are read at once if nothing is between them."""
        most = {"float": 4, "double": 2}.get(self.writer.item, 1)
        return math.gcd(most, self.width) if self.memory.register_row and self.width else 1

    def declare_arrays(self) -> None:
        """Declare the arrays that a row writes, as they are at first."""
        for name, array in self.program.arrays.items():
            count, kind, own = self.facts.count(array.dims), self.writer.element(name), self.writer.name(name)
            result = self.program.arguments.get(name)
            initial, guard = identity_text(result) if result else "0", ""
            if result and name in self.schedule.in_place:
                self.put(f"{kind}* const {own} = {self.own_place(result, kind, 'mine')};")
                guard = "if (here) "
            else:
                self.put(f"{kind} {own}[{max(1, count)}];")
            self.put(f"{guard}for (int q = 0; q < {count}; q++) {own}[q] = {initial};")

    def own_place(self, result: Argument, kind: str, row: str) -> str:
        """Return where a result of a row begins."""
        place = self.writer.row_place(result.name, result.dims, row)
        return f"({kind}*){self.writer.slot(f'argument {result.name}')} + {place}"

    def outputs(self) -> None:
        """Print how the results of each row are written that are not in place."""
        for result in self.program.outputs():
            name = self.writer.name(result.name)
            if result.name not in self.program.arrays:
                kind = self.writer.stored(result.type)
                to = f"(({kind}*){self.writer.slot(f'argument {result.name}')})[row]"
                self.put(f"if (here) {to} = {name};")
            elif result.name not in self.schedule.in_place:
                to = f"({self.own_place(result, self.writer.element(result.name), 'row')})[q]"
                self.put("#pragma unroll")
                count = self.facts.count(result.dims)
                self.put(f"for (int q = 0; q < {count}; q++) if (here) {to} = {name}[q];")
