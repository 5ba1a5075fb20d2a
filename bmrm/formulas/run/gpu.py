"""A pass over the rows on a GPU: chunks of fixed rows, combined in a fixed order on the device.

Rows are taken in blocks, as those of estimators are (`bmrm.distributed.blocks`), mostly all in one. Each has
chunks of its own, and the results of blocks, and of ranks, are combined in their order in main memory. So no
bit depends on the GPU's memory. On several ranks the bits depend on the rows that each rank has, while those
of the CPU need not.

Rows that are on the GPU already are used in place. Others are uploaded for the call: one block that is all
of them, or one after the other, each while the one before is worked on. Those of a `bmrm.Dataset`, which does
not change, stay there for the next calls, as many as fit.
"""

from __future__ import annotations

import ctypes
import math
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bmrm.base import interrupts
from bmrm.base.recent import Recent
from bmrm.distributed.blocks import block_parts
from bmrm.errors import ParameterError, ReductionError
from bmrm.formulas.analysis.layout import ZERO, TableLayout
from bmrm.formulas.analysis.schedule import SHARED_BYTES, WARP
from bmrm.formulas.gpu.cuda_text import MAX_SITES, NO_FAILURE, CudaCode, print_cuda
from bmrm.formulas.gpu.nvrtc import compile_cuda
from bmrm.formulas.language.plain import size_of
from bmrm.formulas.language.source import FunctionSource
from bmrm.formulas.run.accumulators import Pass, Results, output_type, over_ranks
from bmrm.formulas.run.beside import CpuSide
from bmrm.formulas.run.binding import MAX_PLANS, Call, to_host
from bmrm.formulas.run.device_blocks import blocks_on, find_whole, rows_of_blocks
from bmrm.formulas.run.plain import run_plain_row
from bmrm.matrix.gpu.device_arrays import DeviceArray
from bmrm.matrix.gpu.driver import Device, GpuArray, Module, device, pointer_device

MIN_CHUNK_ROWS = 128
"""Minimum number of rows of a chunk: results are written once for each chunk."""

USUAL_CHUNKS = 132 * 24
"""Maximum number of chunks. An H100 has 132 multiprocessors, which run 8 to 48 warps each, mostly 24: a few
chunks more than there are warps would take as long as twice as many."""

FEW_CHUNKS = 132 * 8
"""The same if results are large: one block of 8 warps on each multiprocessor."""

MANY_CHUNKS = 132 * 24 * 16
"""The same if each row takes long: warps that have less to do take more of them."""

USUAL_PARTIAL_BYTES = 1 << 26
"""Size of the results of all chunks that takes little time to write and to read again."""

MAX_PARTIAL_BYTES = 1 << 28
"""Maximum size of the results of all chunks."""

COMBINE_THREADS = 1024
"""Threads of a block of the second kernel: 32 groups for 32 elements."""

MAX_COMBINE_BLOCKS = 1024
"""Maximum number of blocks of the second kernel."""

MAX_HELD_BYTES = 256
"""Maximum size of a parameter that stays on the GPU, found by its value: numbers, mostly."""

MAX_HELD = 256
"""Number of parameters that stay: those used last."""

MAX_MODULES = 32
"""Number of modules that a function keeps on GPUs, those used last: some 100 kB each."""

BYTES, NUMBERS = np.dtype(np.uint8), np.dtype(np.float64)

Table: TypeAlias = "ctypes.Array[ctypes.c_int64]"
"""What a kernel gets: addresses and numbers."""

Addresses: TypeAlias = "ctypes.Array[ctypes.c_void_p]"
Parameters = ctypes.c_void_p * 2
"""The addresses of the two tables: the second kernel gets both, the first one has the first only."""

ITEMS = {
    "": "",
    "float": "float",
    "double": "double",
    "i8": "signed char",
    "i16": "short",
    "i32": "int",
    "i64": "long long",
}
"""C++ types of LLVM's."""


def chunk_rows(rows: int, bytes_: int, most: int | None = None, *, apart: bool = False) -> int:
    """Return the number of rows of a chunk.

    Parameters
    ----------
    rows, bytes_ : int
        All rows, and the size of the results of a chunk.
    most : int, optional
        Maximum number of rows of a chunk.
    apart : bool
        Whether there are to be many chunks: their rows take long, and not the same time.

    Examples
    --------
    >>> chunk_rows(1000, 100), chunk_rows(10_000_000, 100), chunk_rows(10_000_000, 30_000)
    (128, 3168, 9472)
    >>> chunk_rows(1_000_000, 800, 2000), chunk_rows(1_000_000, 800, apart=True)
    (320, 32)
    """
    usual, least = (MANY_CHUNKS, WARP) if apart else (USUAL_CHUNKS, MIN_CHUNK_ROWS)
    chunks = usual if usual * bytes_ <= USUAL_PARTIAL_BYTES else FEW_CHUNKS
    chunks = max(1, min(chunks, MAX_PARTIAL_BYTES // max(1, bytes_)))
    each = -(-max(least, -(-rows // chunks)) // WARP) * WARP
    return each if most is None else min(each, most // WARP * WARP)


class _Loaded:
    """A module on a device, which calls with different sizes may share."""

    def __init__(self, module: Module) -> None:
        self.module, self.combine = module, module.function("bmrm_combine")
        self._shared_bytes = 0

    def rows(self, shared_bytes: int) -> ctypes.c_void_p:
        """Return the kernel of the rows, allowed as much shared memory as any call needs."""
        self._shared_bytes = max(self._shared_bytes, shared_bytes)
        return self.module.function("bmrm_rows", self._shared_bytes)


class _Kernels:
    """Compiled code, and all that calls with the same types and sizes share.

    Attributes
    ----------
    code : CudaCode
    slots : dict of str to int
        Entries of the table that kernels get.
    table : ctypes array
        What the table has in all calls.
    module : Module
    rows, combine : ctypes.c_void_p
        The kernels.
    blocks, combine_blocks : int
        Blocks of the first kernel that the device runs side by side, and of the second one.
    threads, warps, shared_bytes : int
        Of a block of the first kernel.
    parts : list of (int, int, bool)
        For each result its entry of the table, the size of a part, and whether it has one per block of the
        grid, not per chunk.
    together : bool
        Whether some result has.
    results : list of (int, int)
        Entry of the table for each result, and where it is among all, in bytes.
    result_bytes : int
    outputs : list of (str, tuple of int, dtype)
        Results of which each row has its own, with the shape of a row's.
    row_values : list of str
        Entries of parameters of which each row has its own.
    """

    def __init__(self, code: CudaCode, loaded: _Loaded, on: Device, call: Call) -> None:
        memory = code.schedule.memory
        self.code, self.slots, self.module = code, code.layout.slots, loaded.module
        self.table: Table = (ctypes.c_int64 * len(self.slots))()
        for name, value in code.numbers.items():
            self.table[self.slots[name]] = value
        self.warps, self.threads, self.shared_bytes = memory.warps, memory.warps * WARP, memory.shared_bytes
        self.rows, self.combine = loaded.rows(self.shared_bytes), loaded.combine
        each = self.module.blocks_per_multiprocessor(self.rows, self.threads, self.shared_bytes)
        self.blocks = each * on.multiprocessors
        needed = sum(-(-place.size // WARP) for place in call.places if not place.is_row)
        self.combine_blocks = max(1, min(needed, MAX_COMBINE_BLOCKS))
        self.parts, self.results = list[tuple[int, int, bool]](), list[tuple[int, int]]()
        for place in call.places:
            slot = self.slots[f"{'rows' if place.is_row else 'argument'} {place.argument.name}"]
            together = not place.is_row and code.schedule.is_together(place.argument)
            self.parts.append((slot, 8 * place.size, together))
            self.results.append((slot, 8 * place.first))
        self.together = any(together for *_, together in self.parts)
        self.result_bytes = sum(bytes_ for _, bytes_, _ in self.parts)
        self.outputs = [
            (a.name, call.shape(a), np.dtype(output_type(a, call.real))) for a in call.program.outputs()
        ]
        of_rows = [a.name for a in call.program.row_values()]
        self.row_values = [f"argument {name}" for name in of_rows]
        self.row_values += [f"squares {name}" for name in call.program.squares if name in of_rows]
        self._chunkings: Recent[_Chunking] = Recent(MAX_PLANS)

    def chunking(self, rows: int, each: int) -> _Chunking:
        """Return the chunks of so many rows, in blocks of ``each``."""
        return self._chunkings.get((rows, each), lambda: _Chunking(self, rows, each))


class _Chunking:
    """The chunks of the blocks of a number of rows, and where they have their results.

    Attributes
    ----------
    blocks : list of slice
        Rows of each block.
    places : list of (int, int)
        Entry of the table for each result, and where its parts are among all, in bytes.
    bytes_ : int
        Size of the results of all chunks of a block.
    """

    def __init__(self, kernels: _Kernels, rows: int, each: int) -> None:
        self._kernels, self.blocks = kernels, block_parts(rows, each)
        schedule, most = kernels.code.schedule, min(each, max(1, rows))
        apart = schedule.is_exact and schedule.rows_take_long
        self._rows = chunk_rows(most, kernels.result_bytes, schedule.most_rows, apart=apart)
        self._chunks = [self._count(some.stop - some.start) for some in self.blocks]
        most, self.places, self.bytes_ = self._chunks[0], list[tuple[int, int]](), 0
        for slot, bytes_, together in kernels.parts:
            self.places.append((slot, self.bytes_))
            self.bytes_ += bytes_ * (most // kernels.warps if together else most)

    def _count(self, rows: int) -> int:
        found, warps = max(1, -(-rows // self._rows)), self._kernels.warps
        return -(-found // warps) * warps if self._kernels.together else found

    def launch(self, i: int, table: Table, parameters: Addresses, grid: int | None) -> None:
        """Launch the kernels over a block; the context must be current."""
        kernels, some, chunks = self._kernels, self.blocks[i], self._chunks[i]
        slots = kernels.slots
        table[slots["last"]], table[slots["chunks"]] = some.stop - some.start, chunks
        table[slots["chunk_rows"]] = self._rows
        grid = min(kernels.blocks, -(-chunks // kernels.warps)) if grid is None else grid
        kernels.module.launch(kernels.rows, grid, kernels.threads, kernels.shared_bytes, parameters)
        kernels.module.launch(kernels.combine, kernels.combine_blocks, COMBINE_THREADS, 0, parameters)


class _ErrorWord(NamedTuple):
    """Where kernels write the earliest failure; the last of a pass copies it to main memory."""

    there: GpuArray
    here: ctypes.c_int64


class GpuRunner:
    """Passes of one row function on GPUs; remembers its compiled code."""

    def __init__(self, source: FunctionSource) -> None:
        self.source = source
        self._kernels: Recent[_Kernels] = Recent(MAX_PLANS)
        self._modules: Recent[_Loaded] = Recent(MAX_MODULES)
        self._held: Recent[GpuArray] = Recent(MAX_HELD)
        self._error_words: dict[Device, list[_ErrorWord]] = {}
        self._flags: dict[Device, list[ctypes.c_int64]] = {}

    def code_of(self, call: Call, shared_bytes: int = SHARED_BYTES) -> CudaCode:
        """Print the code of a call."""
        kind = call.rows.X.kind()
        item = ITEMS[kind.item]
        item = f"unsigned {item.removeprefix('signed ')}" if kind.unsigned else item
        real = "float" if call.real is np.float32 else "double"
        column = ITEMS[kind.column]
        return print_cuda(call.program, call.sizes, real, item, column, shared_bytes, _wide(call))

    def compiled(self, call: Call, on: Device, contract: bool) -> _Kernels:
        kind = call.rows.X.kind()
        stored = kind.item, kind.unsigned, kind.column
        key = (call.key, stored, call.real, _wide(call), on, contract)
        return self._kernels.get(key, lambda: self._make_kernels(call, on, contract))

    def _make_kernels(self, call: Call, on: Device, contract: bool) -> _Kernels:
        code = self.code_of(call, min(SHARED_BYTES, on.shared_bytes))
        loaded = self._modules.get(
            (code.text, on, contract),
            lambda: _Loaded(on.load(compile_cuda(code.text, on.capability, contract=contract))),
        )
        return _Kernels(code, loaded, on, call)

    def run(
        self,
        call: Call,
        number: int = 0,
        keep: bool = False,
        *,
        contract: bool = True,
        blocks: int | None = None,
        cpu: CpuSide | None = None,
    ) -> dict[str, Any]:
        """Run a pass on a GPU; ``blocks`` sets the grid, on which no result depends.

        - ``cpu``: computes some of the rows that do not stay there, unless results are kept on the GPU
        """
        if keep:
            if call.rows.ranks > 1:
                raise ParameterError("keep: found True on several ranks, expected False")
            return self._kept(call, *self._run_here(call, number, contract, blocks))

        def here() -> Pass:
            last = call.rows.here if cpu is None else cpu.first_row(call, number)

            def on_gpu() -> Pass:
                return _to_host(call, *self._run_here(call, number, contract, blocks, last))

            return on_gpu() if cpu is None or last == call.rows.here else cpu.run(call, last, on_gpu)

        return over_ranks(call, here)

    def _kept(self, call: Call, parts: GpuArray, outputs: dict[str, GpuArray]) -> dict[str, Any]:
        """Return results as arrays on the GPU."""
        whole = parts
        if parts.shape[0] > 1:
            whole = parts.device.upload(_to_host(call, parts, {})[0].combined().matrix)
        found = {
            place.argument.name: whole.part(8 * place.first, place.shape, place.dtype)
            for place in call.places
            if not place.is_row
        }
        return found | outputs

    def _run_here(
        self, call: Call, number: int, contract: bool, grid: int | None, last: int | None = None
    ) -> tuple[GpuArray, dict[str, GpuArray]]:
        """Run a pass over the rows of this rank, or those before ``last``.

        Return the results of each block, and those of rows.

        One that may last looks at a flag in main memory: then the main thread only waits, for signals too.
        """
        on = device(number)
        kernels = self.compiled(call, on, contract)
        if not kernels.code.schedule.looking:
            return self._pass_over(call, on, kernels, 0, grid, last)
        flags = self._flags.setdefault(on, [])
        with on.current():
            flag = flags.pop() if flags else on.map_word()
        flag.value = 0

        def work() -> tuple[GpuArray, dict[str, GpuArray]]:
            try:
                return self._pass_over(call, on, kernels, ctypes.addressof(flag), grid, last)
            finally:
                flags.append(flag)  # not before the pass has ended

        return interrupts.wait_for(work, lambda: setattr(flag, "value", 1))

    def _pass_over(
        self,
        call: Call,
        on: Device,
        kernels: _Kernels,
        leave: int,
        grid: int | None,
        last: int | None,
    ) -> tuple[GpuArray, dict[str, GpuArray]]:
        """Run a pass; ``leave`` is the address of the flag that ends it early."""
        each, count = rows_of_blocks(call.rows.X), call.rows.here if last is None else last
        chunking, slots = kernels.chunking(call.rows.here, each), kernels.slots
        blocks = len(block_parts(count, each))
        table, total = type(kernels.table).from_buffer_copy(kernels.table), type(kernels.table)()
        parameters = Parameters(ctypes.addressof(table), ctypes.addressof(total))
        table[slots["leave"]] = leave
        owners = self._fill_arguments(on, call, table, slots)
        outputs = {name: on.allocate((count, *shape), dtype) for name, shape, dtype in kernels.outputs}
        per_row = [(slots[f"argument {name}"], array) for name, array in outputs.items()]
        per_row += [(slots[name], owners[name]) for name in kernels.row_values]
        partial = on.allocate((chunking.bytes_,), BYTES)
        parts = on.allocate((blocks, kernels.result_bytes // 8), NUMBERS)
        for slot, offset in chunking.places:
            table[slot] = partial.address + offset
        on_gpu = blocks_on(on, call.rows, each)
        errors: list[tuple[int, _ErrorWord]] = []
        with on_gpu.lock, on.current():
            try:
                for i in on_gpu.pass_over(blocks):
                    first, error = chunking.blocks[i].start, self._take_error_word(on)
                    errors.append((first, error))
                    for name, value in on_gpu.on[i].entries.items():
                        table[slots[name]] = value
                    for slot, array in per_row:
                        each_row = array.dtype.itemsize * math.prod(array.shape[1:])
                        table[slot] = array.address + first * each_row
                    table[slots["number"]] = call.rows.first + first
                    table[slots["error"]] = error.there.address
                    total[slots["error"]] = ctypes.addressof(error.here)
                    for slot, offset in kernels.results:
                        total[slot] = parts.address + i * kernels.result_bytes + offset
                    chunking.launch(i, table, parameters, grid)
                    if i >= on_gpu.resident:  # another block comes to its place
                        on.wait()
                        if error.here.value != NO_FAILURE:
                            break
            finally:
                on.wait()
                failed = self._return_error_words(on, errors)
        if failed is not None:
            self._raise_failure(call, kernels.code.layout, *failed)
        return parts, outputs

    def _return_error_words(self, on: Device, errors: list[tuple[int, _ErrorWord]]) -> tuple[int, int] | None:
        """Let other passes use the error words of blocks; return row and place of the first failure."""
        first = None
        for before, word in errors:
            failed = word.here.value
            if failed != NO_FAILURE:
                row, number = divmod(failed, MAX_SITES)
                first = first or (before + row, number)
                on.write(word.there, 0, np.array(NO_FAILURE))
            self._error_words[on].append(word)
        return first

    def _take_error_word(self, on: Device) -> _ErrorWord:
        """Return a word that no other pass uses, with no failure in it; the context must be current."""
        try:
            return self._error_words.setdefault(on, []).pop()
        except IndexError:
            return _ErrorWord(on.upload(np.array(NO_FAILURE)), on.map_word())

    def _fill_arguments(self, on: Device, call: Call, table: Any, slots: dict[str, int]) -> dict[str, Any]:
        """Put parameters on the device, and their addresses in the table; return what must live so long."""
        owners: dict[str, Any] = {}
        for name, rows in call.sets.items():
            if found := find_whole(on, rows):
                table[slots[f"argument {name}"]], owners[f"argument {name}"] = found
        for what, arrays in (("argument", call.values), ("squares", call.squares)):
            for name, array in arrays.items():
                entry = f"{what} {name}"
                if entry in owners:
                    continue
                if isinstance(array, np.ndarray) or not _is_on(on, array):
                    array = self._upload(on, to_host(array))
                table[slots[entry]], owners[entry] = array.address, array
        return owners

    def _upload(self, on: Device, array: NDArray[Any]) -> GpuArray:
        """Upload a parameter; a small one that was uploaded before is there."""
        if array.nbytes > MAX_HELD_BYTES:
            return on.upload(array)
        key = on.number, array.dtype, array.shape, array.tobytes()
        return self._held.get(key, lambda: on.upload(array))

    def _raise_failure(self, call: Call, layout: TableLayout, row: int, number: int) -> None:
        """Raise the error of a row: of the plain function, with the number found, if it raises one too.

        It does not if the rows are on the GPU, or if a rounding on the GPU leads to another index.
        """
        if not call.rows.on_gpu:
            run_plain_row(self.source, call, row)
        site = layout.sites[number]
        where = f"{site.place(self.source.name)}: row {row}"
        if site.kind == ZERO:
            raise ReductionError(f"{where}: division of an integer by 0")
        last = size_of(site.size, call.sizes) - 1
        raise ReductionError(f"{where}: {site.what}: found an index outside of it, expected 0 to {last}")


def _wide(call: Call) -> frozenset[str]:
    """Return the parameters that are float64 where real numbers are float32."""
    if call.real is not np.float32:
        return frozenset()
    return frozenset([name for name, array in call.values.items() if array.dtype.char == "d"])


def _to_host(call: Call, parts: GpuArray, outputs: dict[str, GpuArray]) -> Pass:
    results = Results(call, parts.shape[0])
    results.matrix[...] = parts.numpy()
    return results, {name: array.numpy() for name, array in outputs.items()}


def _is_on(on: Device, array: GpuArray | DeviceArray) -> bool:
    if isinstance(array, GpuArray):
        return array.device is on
    return array.address == 0 or pointer_device(array.address) == on.number
