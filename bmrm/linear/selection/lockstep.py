"""Solves in step, so that products of all with one matrix become one product with several columns.

A product with five columns reads X once and takes about as long as one with a single column, where memory is
what limits it.  So the solves of a cross validation that do not share their cuts run side by side: each goes
on until it asks for a product, and when all of them wait, their columns are multiplied together.

A solve is a plain call of `bmrm.solve` on a thread of its own, but only one thread at a time is let run: that
between two products is short beside them, has threads of its own below, and stays the same bit for bit from
run to run.  Where solves climb the dual, whose sweeps are the work of one thread each, they wait for these
likewise, and the sweeps of all run side by side.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from bmrm.base import interrupts
from bmrm.base.vectors import Indices, Vector
from bmrm.linear.backends.host._ascent import Ascent
from bmrm.linear.backends.host.ascent import ascent_on
from bmrm.matrix._cpu import Matrix
from bmrm.matrix.adapted import MatrixView

Found = TypeVar("Found")


class Stopped(BaseException):
    """Ends a solve where it waits, as nothing that catches errors or Ctrl-C may keep it from."""


class _Product(NamedTuple):
    """What a solve waits for: ``out = X v``, or X' v."""

    transposed: bool
    vector: Vector
    out: Vector


class _Sweep(NamedTuple):
    """What a solve waits for: a step of its ascent, the weights that go with it, and the gap that ends it."""

    ascent: Ascent
    w: Vector
    gap: float

    def take(self) -> None:
        """Take the step."""
        self.ascent.step(self.w, self.gap)


class _SeatedAscent:
    """An ascent whose steps run when its seat is let."""

    def __init__(self, seat: Worker, ascent: Ascent) -> None:
        self._seat, self._ascent = seat, ascent

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ascent, name)

    def step(self, w: Vector, wanted: float) -> None:
        """Sweep over the rows, until the gap is what is wanted."""
        self._seat.wait(_Sweep(self._ascent, w, wanted))


class Worker(MatrixView):
    """A resident matrix as one of the solves sees it.

    Parameters
    ----------
    matrix : Matrix
    """

    def __init__(self, matrix: Matrix) -> None:
        super().__init__(matrix)
        self.start()
        self.done = True

    def start(self) -> None:
        """Get ready for a new task."""
        self._go, self._stands = threading.Semaphore(0), threading.Semaphore(0)
        self.wanted: _Product | _Sweep | None = None
        self.done = self.stopped = False

    def matvec(self, w: Vector, out: Vector | None = None) -> Vector:
        """``out = X w``."""
        out = np.empty(self.inner.shape[0]) if out is None else out
        self.wait(_Product(False, w, out))
        return out

    def rmatvec_blocks(self, r: Vector, starts: Indices, out: Vector) -> Vector:
        """``out[p] = X_p' r_p`` for each block of rows."""
        if len(starts) > 2:
            return np.asarray(self.inner.rmatvec_blocks(r, starts, out))
        self.wait(_Product(True, r, out[0]))
        return out

    def ascent(self, *arguments: Any, **keywords: Any) -> _SeatedAscent:
        """Begin an ascent in the dual; see `bmrm.linear.backends.host._ascent.Ascent`."""
        begin = ascent_on(self.inner)
        assert begin is not None
        return _SeatedAscent(self, begin(*arguments, **keywords))

    def wait(self, wanted: _Product | _Sweep) -> None:
        """Wait until what is wanted has been done."""
        if self.done:  # nobody else runs
            _do(self.inner, [wanted])
            return
        if not self.stopped:
            self.wanted = wanted
            self._stands.release()
            self._go.acquire()
        if self.stopped:
            raise Stopped

    def begin(self) -> None:
        """Wait for the first turn."""
        self._go.acquire()
        if self.stopped:
            raise Stopped

    def end(self) -> None:
        """Give the turn back for good."""
        self.done = True
        self._stands.release()

    def turn(self) -> None:
        """Let the solve go on until it wants something, or ends."""
        self.wanted = None
        self._go.release()
        self._stands.acquire()

    def stop(self) -> None:
        """Let a solve that has not ended do so, with a `Stopped` from what it waits for."""
        self.stopped = True
        self._go.release()


def _do(matrix: Matrix, wanted: Sequence[_Product | _Sweep]) -> None:
    """Do all that solves wait for: products of one kind at once, sweeps side by side."""
    for transposed in (False, True):
        if products := [p for p in wanted if isinstance(p, _Product) and p.transposed == transposed]:
            _multiply(matrix, products)
    _sweep([p for p in wanted if isinstance(p, _Sweep)], matrix.threads)


def _sweep(wanted: Sequence[_Sweep], threads: int) -> None:
    """Take steps of ascents, each on one thread."""
    if len(wanted) <= 1 or threads == 1:
        for sweep in wanted:
            sweep.take()
        return
    with ThreadPoolExecutor(min(threads, len(wanted)), "bmrm-sweep") as pool:
        for done in [pool.submit(sweep.take) for sweep in wanted]:
            done.result()


def _multiply(matrix: Matrix, wanted: Sequence[_Product]) -> None:
    """Do products of one kind at once."""
    transposed, vector, out = wanted[0]
    if len(wanted) > 1:
        product = matrix.rmatvecs if transposed else matrix.matvecs
        product([p.vector for p in wanted], [p.out for p in wanted])
    elif transposed:
        matrix.rmatvec(vector, out)
    else:
        matrix.matvec(vector, out)


class Lockstep(Generic[Found]):
    """Runs tasks in step, each on a seat of its own.

    Parameters
    ----------
    matrix : Matrix
    seats : int
    """

    def __init__(self, matrix: Matrix, seats: int) -> None:
        self._matrix = matrix
        self.seats = [Worker(matrix) for _ in range(seats)]

    def run(self, tasks: Mapping[int, Callable[[], Found]]) -> dict[int, Found]:
        """Run tasks, each of which takes its products from the seat of its number; return what they return.

        Raises
        ------
        KeyboardInterrupt
            The tasks were stopped before they ended.
        Exception
            The first that a task raised.
        """
        seats = [self.seats[number] for number in tasks]
        for seat in seats:
            seat.start()

        found: dict[int, Found] = {}
        faults: dict[int, BaseException] = {}

        def on(seat: Worker, number: int) -> None:
            try:
                seat.begin()
                found[number] = tasks[number]()
            except BaseException as fault:
                faults[number] = fault
            finally:
                seat.end()

        # Threads that the end of the process does not wait for, should one be left where it stands.
        threads = [
            threading.Thread(target=on, args=pair, name="bmrm-fold", daemon=True)
            for pair in zip(seats, tasks, strict=True)
        ]
        # A signal that struck here, between threads that wait for each other, could leave one waiting.
        with interrupts.hold_signals():
            try:
                for thread in threads:
                    thread.start()
                while self._round(seats) and not faults:
                    interrupts.check_signals()
            finally:
                # After a fault or an interrupt those that wait are stopped where they are.
                for seat in seats:
                    seat.stop()
                for thread in threads:
                    if thread.ident is not None:
                        thread.join()
        for fault in sorted(faults.values(), key=lambda e: isinstance(e, Stopped)):
            raise fault
        return {number: found[number] for number in tasks}

    def _round(self, seats: Sequence[Worker]) -> bool:
        """Let each solve go on to what it wants next, and do that; False once all are done."""
        for seat in seats:
            if not seat.done:
                seat.turn()
        waiting = [seat.wanted for seat in seats if not seat.done and seat.wanted is not None]
        _do(self._matrix, waiting)
        return bool(waiting)
