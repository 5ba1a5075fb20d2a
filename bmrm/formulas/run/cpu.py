"""A pass over the rows on the CPU by any number of threads, which take parts of fixed rows in turn.

With ``order="any"`` each thread has results of its own, of whichever parts it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmrm.base import _threads, interrupts
from bmrm.base.threads import preferred_threads
from bmrm.distributed.rows import DenseRows, reads_too_much
from bmrm.errors import ReductionError
from bmrm.formulas.analysis.layout import ZERO, Layout
from bmrm.formulas.analysis.turns import long_loops
from bmrm.formulas.cpu import native
from bmrm.formulas.cpu.lanes import Code, print_lanes
from bmrm.formulas.language.plain import size_of
from bmrm.formulas.language.source import Source
from bmrm.formulas.run.accumulators import Pass, Results, make_outputs, over_ranks
from bmrm.formulas.run.binding import MAX_PLANS, Call
from bmrm.formulas.run.memory import _array_bytes, choose_lanes, require_room
from bmrm.formulas.run.parts import part_bounds

MIN_THREADED_SECONDS = 2e-3
"""Predicted time below which one thread is used."""

MIN_WATCHED_SECONDS = 0.25
"""Predicted time of a pass from which the main thread only waits, so that it can handle signals."""


class HostPasses:
    """Passes of one row function on the CPU; remembers its compiled code."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._codes: dict[Any, tuple[Code, Callable[[int], None]]] = {}
        self._long_loops: dict[tuple[Any, ...], frozenset[str]] = {}

    def long_loops(self, call: Call) -> frozenset[str]:
        """Return the loops of a call that look whether the pass is to end early."""
        found = self._long_loops.get(call.key)
        if found is None:
            if len(self._long_loops) >= MAX_PLANS:  # another thread may do the same
                self._long_loops.clear()
            found = self._long_loops[call.key] = long_loops(call.program, call.sizes)
        return found

    def code_of(self, call: Call, *, contract: bool = True) -> Code:
        """Print the code of a call."""
        kind, real, lanes = call.rows.kind(), _llvm_real(call.real), choose_lanes(call)
        vector, looking = native.vector_bytes() // np.dtype(call.real).itemsize, self.long_loops(call)
        return print_lanes(call.program, kind, real, lanes, vector, contract=contract, looking=looking)

    def compiled(self, call: Call, contract: bool) -> tuple[Code, Callable[[int], None]]:
        looking = self.long_loops(call)
        key = (id(call.program), call.rows.kind(), call.real, choose_lanes(call), contract, looking)
        if key not in self._codes:
            code = self.code_of(call, contract=contract)
            self._codes[key] = code, native.compile_text(code.text)
        return self._codes[key]

    def run(
        self, call: Call, threads: int | None = None, order: str = "fixed", *, contract: bool = True
    ) -> dict[str, Any]:
        """Run a pass with compiled code."""
        return over_ranks(call, lambda: self._run_here(call, threads, order, contract))

    def _run_here(self, call: Call, threads: int | None, order: str, contract: bool) -> Pass:
        """Run a pass over the rows of this rank."""
        code, function = self.compiled(call, contract)
        bounds = part_bounds(call)
        parts = len(bounds) - 1
        if threads is None:
            threads = default_threads(call)
        threads = min(threads, parts)
        require_room(self.source, call, threads if order == "any" else parts, threads)
        results = Results(call, threads if order == "any" else parts)
        outputs = make_outputs(call)
        errors = np.zeros((parts, 3), np.int64)
        rows = call.host_rows()
        mapped = rows if reads_too_much(rows) else None
        tables: dict[int, _Table] = {}
        failed: list[int] = []
        leave = np.zeros(1, np.uint8)

        def work(part: int, member: int) -> None:
            if leave[0] or any(other < part for other in failed):
                return
            if member not in tables:
                tables[member] = _Table(call, code, outputs, leave)
            table = tables[member]
            table.point(results, member if order == "any" else part, errors[part])
            for entries in table.passes(bounds[part], bounds[part + 1]):
                function(entries)
            if mapped is not None:
                mapped.give_back(bounds[part], bounds[part + 1])
            if errors[part, 0]:
                failed.append(part)

        if self._may_last(call, threads):
            interrupts.wait_for(lambda: _threads.run(work, parts, threads), lambda: leave.fill(1))
        else:
            _threads.run(work, parts, threads)
        if failed:
            raise_failure(self.source, call, code.layout, errors[min(failed)])
        return results, outputs

    def _may_last(self, call: Call, threads: int) -> bool:
        """Return whether a pass may take so long that it must end on a signal."""
        from bmrm.formulas.run.cost import predict_seconds

        return bool(self.long_loops(call)) or predict_seconds(call, threads) > MIN_WATCHED_SECONDS


def default_threads(call: Call) -> int:
    """Return the number of threads of a pass: one if it is short."""
    from bmrm.formulas.run.cost import predict_seconds

    if predict_seconds(call, 1) < MIN_THREADED_SECONDS:
        return 1
    return preferred_threads()


def _llvm_real(real: type[np.floating[Any]]) -> str:
    return "float" if real is np.float32 else "double"


class _Table:
    """The table of addresses and numbers that a worker passes to compiled code."""

    def __init__(
        self, call: Call, code: Code, outputs: dict[str, NDArray[Any]], leave: NDArray[np.uint8]
    ) -> None:
        self.call, self.slots = call, code.layout.slots
        self.table = np.zeros(len(self.slots), np.int64)
        self.kept: list[NDArray[Any]] = []
        self._aggregates = [a.name for a in call.program.results() if a.role != "output"]
        size = np.dtype(call.real).itemsize
        lanes = code.lanes
        for name, value in call.sizes.items():
            if f"size {name}" in self.slots:
                self.set(f"size {name}", value)
        for name, array in {**call.values, **outputs}.items():
            self.set(f"argument {name}", array.ctypes.data)
        for name, array in call.squares.items():
            self.set(f"squares {name}", array.ctypes.data)
        self.set("staged", self.room(lanes * size * (1 if call.rows.sparse else call.rows.shape[1])))
        for (name, _), bytes_ in zip(call.program.arrays.items(), _array_bytes(call), strict=True):
            self.set(f"array {name}", self.room(lanes * bytes_))
        rows = call.host_rows()
        self.set("number", rows.first_row)
        self.set("leave", leave.ctypes.data)
        if isinstance(rows, DenseRows) and not rows.converted_rows:
            self.set("rows", rows.array.ctypes.data)
            self.set("row_step", rows.array.strides[0])
            self.set("column_step", rows.array.strides[1])
        elif not isinstance(rows, DenseRows):
            self.set("starts", rows.csr.indptr.ctypes.data)
            self.set("columns", rows.csr.indices.ctypes.data)
            if rows.csr.data is not None:
                self.set("values", rows.csr.data.ctypes.data)

    def set(self, name: str, value: int) -> None:
        self.table[self.slots[name]] = value

    def room(self, bytes_: int) -> int:
        """Return the address of zeros that begin at a cache line."""
        found = np.zeros(bytes_ + 64, np.uint8)
        self.kept.append(found)
        return int(-(-found.ctypes.data // 64) * 64)

    def point(self, results: Results, at: int, error: NDArray[np.int64]) -> None:
        for name in self._aggregates:
            self.set(f"argument {name}", results.arrays[name][at : at + 1].ctypes.data)
        for name, array in results.best_rows.items():
            self.set(f"rows {name}", array[at : at + 1].ctypes.data)
        self.set("error", error.ctypes.data)

    def passes(self, first: int, last: int) -> Iterator[int]:
        """Yield the address of the table for each call that the rows of a part need: mostly one."""
        rows = self.call.rows
        each = rows.converted_rows if isinstance(rows, DenseRows) else 0
        for start in range(first, last, each) if each else (first,):
            stop = min(last, start + each) if each else last
            if each and isinstance(rows, DenseRows):
                block = rows.converted(start, stop)
                self.set("rows", block.ctypes.data - start * block.strides[0])
                self.set("row_step", block.strides[0])
                self.set("column_step", block.strides[1])
            self.set("first", start)
            self.set("last", stop)
            yield int(self.table.ctypes.data)


def raise_failure(source: Source, call: Call, layout: Layout, error: NDArray[np.int64]) -> None:
    """Raise the error that compiled code reports: the place, the row and the number found."""
    number, row, found = (int(each) for each in error)
    site = layout.sites[number - 1]
    where = f"{source.name}, line {site.line}: row {row}"
    if site.kind == ZERO:
        raise ReductionError(f"{where}: division of a whole number by 0")
    last = size_of(site.size, call.sizes) - 1
    raise ReductionError(f"{where}: {site.what}: found the index {found}, expected 0 to {last}")
