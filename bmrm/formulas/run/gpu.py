"""A pass over the rows on a GPU: chunks of fixed rows, combined in a fixed order on the device.

Rows that are on the GPU already are used in place; others are uploaded for the call, of a mapped file some
at a time. Those of a `bmrm.Dataset`, which does not change, stay there for the next calls. On several ranks
each GPU combines the rows of its rank, and these results are combined in the order of the ranks: the bits
depend on the rows that each rank has, while those of the CPU need not.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bmrm.distributed.rows import DenseRows, DeviceRows, HostRows, SparseRows, reads_too_much
from bmrm.errors import ParameterError, ReductionError
from bmrm.formulas.analysis.layout import ZERO, Layout
from bmrm.formulas.gpu.cuda_text import MAX_SITES, NO_FAILURE, SHARED_BYTES, WARP, CudaCode, print_cuda
from bmrm.formulas.gpu.nvrtc import compile_cuda
from bmrm.formulas.language.plain import size_of
from bmrm.formulas.language.source import Source
from bmrm.formulas.run.accumulators import Pass, Results, accumulated_type, output_type, over_ranks
from bmrm.formulas.run.binding import Call, to_host
from bmrm.formulas.run.plain import run_plain_row
from bmrm.matrix.gpu.device_arrays import DeviceArray, c_strides
from bmrm.matrix.gpu.driver import Device, GpuArray, Module, device, pointer_device

MIN_CHUNK_ROWS = 128
"""Minimum number of rows of a chunk: results are written once for each chunk."""

USUAL_CHUNKS = 132 * 24
"""Maximum number of chunks. An H100 has 132 multiprocessors, which run 8 to 48 warps each, mostly 24: a few
chunks more than there are warps would take as long as twice as many."""

FEW_CHUNKS = 132 * 8
"""The same if results are large: one block of 8 warps on each multiprocessor."""

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
"""Number of parameters that stay, before all are forgotten."""

UPLOADED_BYTES = 1 << 26
"""Size of rows of a mapped file that are uploaded before their pages are given back."""

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


def chunk_rows(rows: int, bytes_: int) -> int:
    """Return the number of rows of a chunk.

    Examples
    --------
    >>> chunk_rows(1000, 100), chunk_rows(10_000_000, 100), chunk_rows(10_000_000, 30_000)
    (128, 3168, 9472)
    """
    chunks = USUAL_CHUNKS if USUAL_CHUNKS * bytes_ <= USUAL_PARTIAL_BYTES else FEW_CHUNKS
    chunks = max(1, min(chunks, MAX_PARTIAL_BYTES // max(1, bytes_)))
    each = max(MIN_CHUNK_ROWS, -(-rows // chunks))
    return -(-each // WARP) * WARP


class _Result(NamedTuple):
    """A result of a call: all but the number of rows is known before."""

    name: str
    slot: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    per_row: bool
    rows_slot: int | None
    """Place in the table of the rows of its extrema."""
    together: bool
    """Whether it has a part per block, not per chunk."""


class _Kernels(NamedTuple):
    code: CudaCode
    module: Module
    rows: ctypes.c_void_p
    combine: ctypes.c_void_p
    blocks: int
    """Blocks of the first kernel that the device runs side by side."""
    results: tuple[_Result, ...]
    result_bytes: int
    """Size of the results of a chunk, with the rows of extrema."""
    together: bool
    """Whether all warps of a block must have a chunk."""
    combine_blocks: int


class _ErrorWord(NamedTuple):
    """Where kernels write the earliest failure; the last of a pass copies it to main memory."""

    there: GpuArray
    here: ctypes.c_int64


class GpuPasses:
    """Passes of one row function on GPUs; remembers its compiled code."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._kernels: dict[Any, _Kernels] = {}
        self._held: dict[Any, GpuArray] = {}
        self._error_words: dict[Device, list[_ErrorWord]] = {}

    def code_of(self, call: Call, shared_bytes: int = SHARED_BYTES) -> CudaCode:
        """Print the code of a call."""
        kind = call.rows.kind()
        item = ITEMS[kind.item]
        item = f"unsigned {item.removeprefix('signed ')}" if kind.unsigned else item
        real = "float" if call.real is np.float32 else "double"
        column = ITEMS[kind.column]
        return print_cuda(call.program, call.sizes, real, item, column, shared_bytes, _wide(call))

    def compiled(self, call: Call, on: Device, contract: bool) -> _Kernels:
        kind = call.rows.kind()
        stored = kind.item, kind.unsigned, kind.column
        key = (call.key, stored, call.real, _wide(call), on, contract)
        if key not in self._kernels:
            code = self.code_of(call, min(SHARED_BYTES, on.shared_bytes))
            module = on.load(compile_cuda(code.text, on.capability, contract=contract))
            shared = code.placement.shared_bytes
            rows, combine = module.function("bmrm_rows", shared), module.function("bmrm_combine")
            each = module.blocks_per_multiprocessor(rows, code.placement.warps * WARP, shared)
            results = tuple(_results_of(call, code))
            in_chunks = [(math.prod(r.shape), r.rows_slot is not None) for r in results if not r.per_row]
            bytes_ = sum(8 * count * (1 + has_rows) for count, has_rows in in_chunks)
            needed = sum(-(-count // WARP) for count, _ in in_chunks)
            combining = max(1, min(needed, MAX_COMBINE_BLOCKS))
            blocks = each * on.multiprocessors
            together = any(result.together for result in results)
            self._kernels[key] = _Kernels(
                code, module, rows, combine, blocks, results, bytes_, together, combining
            )
        return self._kernels[key]

    def run(
        self,
        call: Call,
        number: int = 0,
        keep: bool = False,
        *,
        contract: bool = True,
        blocks: int | None = None,
    ) -> dict[str, Any]:
        """Run a pass on a GPU; ``blocks`` sets the grid, on which no result depends."""
        if keep:
            if call.rows.ranks is not None and call.rows.ranks.group.size > 1:
                raise ParameterError("keep: found True on several ranks, expected False")
            return dict(self._run_here(call, number, contract, blocks)[0])
        return over_ranks(call, lambda: _to_host(call, *self._run_here(call, number, contract, blocks)))

    def _run_here(
        self, call: Call, number: int, contract: bool, blocks: int | None
    ) -> tuple[dict[str, GpuArray], dict[str, GpuArray]]:
        """Run a pass over the rows of this rank; return results, and the rows of extrema."""
        on = device(number)
        kernels = self.compiled(call, on, contract)
        placement, slots = kernels.code.placement, kernels.code.layout.slots
        kind = ctypes.c_int64 * len(slots)
        table, total = kind(), kind()
        owners = [*_fill_rows(on, call, table, slots), *self._fill_arguments(on, call, table, slots)]
        rows = call.rows.shape[0]
        each = chunk_rows(rows, kernels.result_bytes)
        chunks = max(1, -(-rows // each))
        if kernels.together:
            chunks = -(-chunks // placement.warps) * placement.warps
        partial = on.allocate((chunks * kernels.result_bytes,), np.uint8)
        whole = on.allocate((kernels.result_bytes,), np.uint8)
        place, kept = partial.address, 0
        found: dict[str, GpuArray] = {}
        best_rows: dict[str, GpuArray] = {}
        for name, slot, shape, dtype, per_row, rows_slot, together in kernels.results:
            if per_row:
                found[name] = on.allocate((rows,), dtype)
                table[slot] = found[name].address
                continue
            size = 8 * math.prod(shape)
            found[name] = whole.part(kept, shape, dtype)
            table[slot], total[slot] = place, whole.address + kept
            place += (chunks // placement.warps if together else chunks) * size
            kept += size
            if rows_slot is not None:
                best_rows[name] = whole.part(kept, shape, np.dtype(np.int64))
                table[rows_slot], total[rows_slot] = place, whole.address + kept
                place += chunks * size
                kept += size
        table[slots["last"]], table[slots["number"]] = rows, call.rows.first_row
        table[slots["chunks"]], table[slots["chunk_rows"]] = chunks, each
        threads = placement.warps * WARP
        grid = min(kernels.blocks, -(-chunks // placement.warps)) if blocks is None else blocks
        with on.current():
            error = self._take_error_word(on)
            table[slots["error"]], total[slots["error"]] = error.there.address, ctypes.addressof(error.here)
            kernels.module.launch(kernels.rows, grid, threads, placement.shared_bytes, table)
            kernels.module.launch(kernels.combine, kernels.combine_blocks, COMBINE_THREADS, 0, table, total)
            on.wait()
            failed = error.here.value
        if failed != NO_FAILURE:
            on.write(error.there, 0, np.array(NO_FAILURE))
        self._error_words[on].append(error)
        if failed != NO_FAILURE:
            self._raise_failure(call, kernels.code.layout, failed)
        del owners, partial
        return found, best_rows

    def _take_error_word(self, on: Device) -> _ErrorWord:
        """Return a word that no other pass uses, with no failure in it; the context must be current."""
        try:
            return self._error_words.setdefault(on, []).pop()
        except IndexError:
            return _ErrorWord(on.upload(np.array(NO_FAILURE)), on.map_word())

    def _fill_arguments(self, on: Device, call: Call, table: Any, slots: dict[str, int]) -> list[Any]:
        """Put parameters on the device, and their addresses in the table; return what must live so long."""
        owners = []
        for what, arrays in (("argument", call.values), ("squares", call.squares)):
            for name, array in arrays.items():
                if isinstance(array, np.ndarray) or not _is_on(on, array):
                    array = self._upload(on, np.asarray(to_host(array), order="C"))
                table[slots[f"{what} {name}"]] = array.address
                owners.append(array)
        return owners

    def _upload(self, on: Device, array: NDArray[Any]) -> GpuArray:
        """Upload a parameter; a small one that was uploaded before is there."""
        if array.nbytes > MAX_HELD_BYTES:
            return on.upload(array)
        key = on.number, array.dtype, array.shape, array.tobytes()
        found = self._held.get(key)
        if found is None:
            if len(self._held) >= MAX_HELD:
                self._held.clear()
            found = self._held[key] = on.upload(array)
        return found

    def _raise_failure(self, call: Call, layout: Layout, failed: int) -> None:
        """Raise the error of a row: of the plain function, with the number found, if it raises one too.

        It does not if the rows are on the GPU, or if a rounding on the GPU leads to another index.
        """
        row, number = divmod(failed, MAX_SITES)
        if not isinstance(call.rows, DeviceRows):
            run_plain_row(self.source, call, row)
        site = layout.sites[number]
        where = f"{self.source.name}, line {site.line}: row {row}"
        if site.kind == ZERO:
            raise ReductionError(f"{where}: division of a whole number by 0")
        last = size_of(site.size, call.sizes) - 1
        raise ReductionError(f"{where}: {site.what}: found an index outside of it, expected 0 to {last}")


def _wide(call: Call) -> frozenset[str]:
    """Return the parameters that are float64 where real numbers are float32."""
    if call.real is not np.float32:
        return frozenset()
    return frozenset([name for name, array in call.values.items() if array.dtype.char == "d"])


def _results_of(call: Call, code: CudaCode) -> Iterator[_Result]:
    """Yield what is known of the results of a call."""
    layout = code.layout
    for argument in call.program.results():
        name, per_row = argument.name, argument.role == "output"
        kind = np.dtype(output_type(argument, call.real) if per_row else accumulated_type(argument))
        rows_slot = layout.slots.get(f"rows {name}")
        slot, together = layout.slots[f"argument {name}"], code.placement.is_together(argument)
        yield _Result(name, slot, call.shape(argument), kind, per_row, rows_slot, together)


def _to_host(call: Call, found: dict[str, GpuArray], best_rows: dict[str, GpuArray]) -> Pass:
    results, outputs = Results(call, 1), {}
    for name, array in found.items():
        if name in results.arrays:
            results.arrays[name][0] = array.numpy()
        else:
            outputs[name] = array.numpy()
    for name, array in best_rows.items():
        results.best_rows[name][0] = array.numpy()
    return results, outputs


def _fill_rows(on: Device, call: Call, table: Any, slots: dict[str, int]) -> list[Any]:
    """Put the rows on the device, and their addresses in the table; return what must live until the end."""
    rows = call.rows
    if isinstance(rows, DeviceRows):
        array: Any = rows.array
        strides, owners = array.strides, [array]
    else:
        owners = _rows_there(on, rows)
        if isinstance(rows, SparseRows):
            for name, array in zip(("starts", "columns", "values"), owners, strict=False):
                table[slots[name]] = array.address
            return owners
        array = owners[0]
        strides = c_strides(array.shape, array.dtype.itemsize)
    table[slots["rows"]] = array.address
    table[slots["row_step"]], table[slots["column_step"]] = strides
    return owners


def _rows_there(on: Device, rows: HostRows) -> list[Any]:
    """Upload the arrays of rows in main memory; those of a data set stay for the next calls."""
    found = rows.held.get(on) if rows.held else None
    if found is None:
        if isinstance(rows, DenseRows):
            found = [_upload_rows(on, rows)]
        else:
            csr = rows.csr
            found = [on.upload(part) for part in (csr.indptr, csr.indices, csr.data) if part is not None]
        if rows.held is not None:
            rows.held[on] = found
    return found


def _upload_rows(on: Device, rows: DenseRows) -> GpuArray:
    """Copy rows to the device in the type that compiled code reads, those of a mapped file by pieces."""
    each = rows.converted_rows
    held = on.allocate(rows.shape, rows.real if each else rows.array.dtype)
    mapped = rows if reads_too_much(rows) else None
    row_bytes = max(1, rows.nbytes // max(1, rows.shape[0]))
    if not each:
        whole = mapped is None and rows.array.flags.c_contiguous
        each = max(1, rows.shape[0] if whole else UPLOADED_BYTES // row_bytes)
    for first in range(0, rows.shape[0], each):
        last = min(rows.shape[0], first + each)
        piece = rows.converted(first, last) if rows.converted_rows else rows.array[first:last]
        on.write(held, first * rows.shape[1], piece)
        if mapped is not None:
            mapped.give_back(first, last)
    return held


def _is_on(on: Device, array: GpuArray | DeviceArray) -> bool:
    return array.address == 0 or pointer_device(array.address) == on.number
