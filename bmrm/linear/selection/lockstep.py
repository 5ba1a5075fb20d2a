"""Solves in lockstep: their products with one matrix become one product with several columns.

A product with five columns reads X once and takes about as long as one with a single column if
memory limits it.  So the solves of a cross validation that do not share their cuts run side by side: each
runs until it requests a product. When all of them wait, their columns are multiplied together.

A solve is a plain call of `bmrm.solve` on a thread of its own, but only one thread runs at a time. The work
between two products is short compared with them and has threads of its own; and the result stays the same bit
for bit from run to run.  Sweeps of ascent in the dual use one thread each.  Solves wait for them in the same
way, and the sweeps of all solves run in parallel.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from bmrm.base import _threads, interrupts
from bmrm.base.vectors import Indices, Vector
from bmrm.linear.backends.host._ascent import Ascent
from bmrm.linear.backends.host.ascent import ascent_on
from bmrm.matrix._cpu import Matrix
from bmrm.matrix.adapted import MatrixView

Found = TypeVar("Found")


class Stopped(BaseException):
    """Ends a waiting solve. Not an `Exception`, so that no handler of errors or Ctrl-C can catch it."""


class _Product(NamedTuple):
    """A request: ``out = X v``, or ``X' v``."""

    transposed: bool
    vector: Vector
    out: Vector


class _Sweep(NamedTuple):
    """A request: a step of an ascent, its weights, and the gap at which it may end."""

    ascent: Ascent
    w: Vector
    gap: float

    def take(self) -> None:
        self.ascent.step(self.w, self.gap)


class _WorkerAscent:
    """An ascent whose steps run when all workers wait."""

    def __init__(self, worker: Worker, ascent: Ascent) -> None:
        self._worker, self._ascent = worker, ascent

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ascent, name)

    def step(self, w: Vector, wanted: float) -> None:
        """Sweep over the rows until the gap is as wanted."""
        self._worker.wait(_Sweep(self._ascent, w, wanted))


class Worker(MatrixView):
    """The resident matrix of one of the solves: its products are requests to the scheduler.

    Parameters
    ----------
    matrix : Matrix
    """

    def __init__(self, matrix: Matrix) -> None:
        super().__init__(matrix)
        self.start()
        self.done = True

    def start(self) -> None:
        """Prepare for a new task."""
        self._go, self._yielded = threading.Semaphore(0), threading.Semaphore(0)
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

    def ascent(self, *arguments: Any, **keywords: Any) -> _WorkerAscent:
        """Begin an ascent in the dual; see `bmrm.linear.backends.host._ascent.Ascent`."""
        begin = ascent_on(self.inner)
        assert begin is not None
        return _WorkerAscent(self, begin(*arguments, **keywords))

    def wait(self, wanted: _Product | _Sweep) -> None:
        """Wait until the request has been answered."""
        if self.done:  # no other solve runs
            _do(self.inner, [wanted])
            return
        if not self.stopped:
            self.wanted = wanted
            self._yielded.release()
            self._go.acquire()
        if self.stopped:
            raise Stopped

    def begin(self) -> None:
        """Wait until the scheduler starts this task."""
        self._go.acquire()
        if self.stopped:
            raise Stopped

    def end(self) -> None:
        """Report that the task has ended."""
        self.done = True
        self._yielded.release()

    def advance(self) -> None:
        """Run the solve until its next request, or its end."""
        self.wanted = None
        self._go.release()
        self._yielded.acquire()

    def stop(self) -> None:
        """End a solve that has not ended: its request raises `Stopped`."""
        self.stopped = True
        self._go.release()


def _do(matrix: Matrix, wanted: Sequence[_Product | _Sweep]) -> None:
    """Answer requests: all products of one kind at once, sweeps in parallel."""
    for transposed in (False, True):
        if products := [p for p in wanted if isinstance(p, _Product) and p.transposed == transposed]:
            _multiply(matrix, products)
    _sweep([p for p in wanted if isinstance(p, _Sweep)], matrix.threads)


def _sweep(wanted: Sequence[_Sweep], threads: int) -> None:
    """Take steps of ascents, each on one thread."""
    _threads.run(lambda number, _: wanted[number].take(), len(wanted), threads)


def _multiply(matrix: Matrix, wanted: Sequence[_Product]) -> None:
    """Compute all products of one kind at once."""
    transposed, vector, out = wanted[0]
    if len(wanted) > 1:
        product = matrix.rmatvecs if transposed else matrix.matvecs
        product([p.vector for p in wanted], [p.out for p in wanted])
    elif transposed:
        matrix.rmatvec(vector, out)
    else:
        matrix.matvec(vector, out)


class Lockstep(Generic[Found]):
    """Runs tasks in lockstep, each on its own worker.

    Parameters
    ----------
    matrix : Matrix
    workers : int
    """

    def __init__(self, matrix: Matrix, workers: int) -> None:
        self._matrix = matrix
        self.workers = [Worker(matrix) for _ in range(workers)]

    def run(self, tasks: Mapping[int, Callable[[], Found]]) -> dict[int, Found]:
        """Run tasks and return their results. Each task gets its products from the worker with its number.

        Raises
        ------
        KeyboardInterrupt
            The tasks were stopped before they ended.
        Exception
            The first one that a task raised.
        """
        workers = [self.workers[number] for number in tasks]
        for worker in workers:
            worker.start()

        found: dict[int, Found] = {}
        faults: dict[int, BaseException] = {}

        def run_task(worker: Worker, number: int) -> None:
            try:
                worker.begin()
                found[number] = tasks[number]()
            except BaseException as fault:
                faults[number] = fault
            finally:
                worker.end()

        # Daemons: the end of the process must not wait for a thread that is stuck.
        threads = [
            threading.Thread(target=run_task, args=pair, name="bmrm-fold", daemon=True)
            for pair in zip(workers, tasks, strict=True)
        ]
        # A signal between threads that wait for each other could leave one of them waiting for ever.
        with interrupts.hold_signals():
            try:
                for thread in threads:
                    thread.start()
                while self._round(workers) and not faults:
                    interrupts.check_signals()
            finally:
                # After a fault or an interrupt, solves that wait are ended.
                for worker in workers:
                    worker.stop()
                for thread in threads:
                    if thread.ident is not None:
                        thread.join()
        for fault in sorted(faults.values(), key=lambda e: isinstance(e, Stopped)):
            raise fault
        return {number: found[number] for number in tasks}

    def _round(self, workers: Sequence[Worker]) -> bool:
        """Run each solve to its next request and answer all requests; return False if all have ended."""
        for worker in workers:
            if not worker.done:
                worker.advance()
        waiting = [worker.wanted for worker in workers if not worker.done and worker.wanted is not None]
        _do(self._matrix, waiting)
        return bool(waiting)
