"""A pass over the rows on the CPU: any number of threads, each of which takes the next part of fixed rows.

With ``order="any"`` each thread has results of its own, of whichever parts it takes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmrm.base import _threads, interrupts
from bmrm.base.recent import Recent
from bmrm.base.threads import preferred_threads
from bmrm.errors import ReductionError
from bmrm.formulas.analysis.counters import find_counters
from bmrm.formulas.analysis.facts import find_facts
from bmrm.formulas.analysis.layout import ROOM, ZERO, TableLayout
from bmrm.formulas.analysis.long_loops import long_loops
from bmrm.formulas.cpu import native
from bmrm.formulas.cpu.lanes import Code, print_lanes
from bmrm.formulas.language.plain import size_of
from bmrm.formulas.language.source import FunctionSource
from bmrm.formulas.run.accumulators import Pass, Results, make_outputs, over_ranks
from bmrm.formulas.run.binding import MAX_PLANS, Call
from bmrm.formulas.run.cost import MIN_THREADED_SECONDS, predict_seconds
from bmrm.formulas.run.memory import array_bytes, choose_lanes, require_room

MIN_WATCHED_SECONDS = 0.1
"""Predicted time of a pass from which the main thread only waits, so that it can handle signals."""


class CpuRunner:
    """Passes of one row function on the CPU; remembers its compiled code."""

    def __init__(self, source: FunctionSource) -> None:
        self.source = source
        self._codes: Recent[tuple[Code, Callable[[int], None]]] = Recent(MAX_PLANS)
        self._long_loops: Recent[frozenset[str]] = Recent(MAX_PLANS)
        self._counters: Recent[dict[str, int]] = Recent(MAX_PLANS)

    def long_loops(self, call: Call) -> frozenset[str]:
        """Return the loops of a call that look whether the pass is to end early."""
        return self._long_loops.get(call.key, lambda: frozenset(long_loops(call.program, call.sizes)))

    def counters(self, call: Call) -> dict[str, int]:
        """Return the results of a call that have counters, and the rows for which each has room."""
        lanes = choose_lanes(call)

        def find() -> dict[str, int]:
            if lanes == 1:
                return {}
            return find_counters(find_facts(call.program, call.sizes), lanes)

        return self._counters.get((call.key, lanes), find)

    def code_of(self, call: Call, *, contract: bool = True) -> Code:
        """Print the code of a call."""
        kind, real, lanes = call.rows.X.kind(), _llvm_real(call.real), choose_lanes(call)
        vector, looking = native.vector_bytes() // np.dtype(call.real).itemsize, self.long_loops(call)
        return print_lanes(
            call.program,
            kind,
            real,
            lanes,
            vector,
            contract=contract,
            looking=looking,
            counters=self.counters(call).keys(),
        )

    def compiled(self, call: Call, contract: bool) -> tuple[Code, Callable[[int], None]]:
        looking, counters = self.long_loops(call), frozenset(self.counters(call))

        def make() -> tuple[Code, Callable[[int], None]]:
            code = self.code_of(call, contract=contract)
            return code, native.compile_text(code.text)

        key = (call.program, call.rows.X.kind(), call.real, choose_lanes(call), contract, looking, counters)
        return self._codes.get(key, make)

    def run(
        self, call: Call, threads: int | None = None, order: str = "fixed", *, contract: bool = True
    ) -> dict[str, Any]:
        """Run a pass with compiled code."""
        return over_ranks(call, lambda: self._run_here(call, threads, order, contract))

    def _run_here(self, call: Call, threads: int | None, order: str, contract: bool) -> Pass:
        """Run a pass over the rows of this rank."""
        call.require_host_rows()
        code, function = self.compiled(call, contract)
        bounds = call.part_bounds(order)
        parts = len(bounds) - 1
        if threads is None:
            threads = default_threads(call)
        threads = min(threads, parts)
        require_room(self.source, call, threads if order == "any" else parts, threads)
        results = Results(call, threads if order == "any" else parts)
        outputs = make_outputs(call, call.rows.here)
        errors = np.zeros((parts, 3), np.int64)
        rows = call.rows.X
        too_much = rows.reads_too_much
        tables: dict[int, _Table] = {}
        failed: list[int] = []
        leave = np.zeros(1, np.uint8)

        def work(part: int, member: int) -> None:
            if leave[0] or any(other < part for other in failed):
                return
            if member not in tables:
                tables[member] = _Table(call, code, outputs, leave, self.counters(call))
            table = tables[member]
            table.point(results, member if order == "any" else part, errors[part])
            for entries in table.passes(bounds[part], bounds[part + 1]):
                function(entries)
            if too_much:
                rows.release(bounds[part], bounds[part + 1])
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
        return bool(self.long_loops(call)) or predict_seconds(call, threads) > MIN_WATCHED_SECONDS


def default_threads(call: Call) -> int:
    """Return the number of threads of a pass: one if it is short."""
    if predict_seconds(call, 1) < MIN_THREADED_SECONDS:
        return 1
    return preferred_threads()


def _llvm_real(real: type[np.floating[Any]]) -> str:
    return "float" if real is np.float32 else "double"


class _Table:
    """The table of addresses and numbers that a worker passes to compiled code."""

    def __init__(
        self,
        call: Call,
        code: Code,
        outputs: dict[str, NDArray[Any]],
        leave: NDArray[np.uint8],
        counters: dict[str, int],
    ) -> None:
        self.call, self.slots = call, code.layout.slots
        self.table = np.zeros(len(self.slots), np.int64)
        self.kept: list[NDArray[Any]] = []
        self._aggregates = [a.name for a in call.program.combined()]
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
        for name, bytes_ in zip(call.program.own_arrays(), array_bytes(call), strict=True):
            self.set(f"array {name}", self.room(lanes * bytes_))
        for name in counters:
            count = math.prod(call.shape(call.program.arguments[name]))
            self.set(f"counters {name}", self.room(4 * (count + 1)))
        if counters:
            self.set(ROOM, min(counters.values()))
        self.set("number", call.rows.first)
        self.set("leave", leave.ctypes.data)
        for name, value in call.rows.X.entries().items():
            self.set(name, value)

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
        for start, stop, entries in self.call.rows.X.pieces(first, last):
            for name, value in entries.items():
                self.set(name, value)
            self.set("first", start)
            self.set("last", stop)
            yield int(self.table.ctypes.data)


def raise_failure(source: FunctionSource, call: Call, layout: TableLayout, error: NDArray[np.int64]) -> None:
    """Raise the error that compiled code reports: the place, the row and the number found."""
    number, row, found = (int(each) for each in error)
    site = layout.sites[number - 1]
    where = f"{site.place(source.name)}: row {row}"
    if site.kind == ZERO:
        raise ReductionError(f"{where}: division of an integer by 0")
    last = size_of(site.size, call.sizes) - 1
    raise ReductionError(f"{where}: {site.what}: found the index {found}, expected 0 to {last}")
