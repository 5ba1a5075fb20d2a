"""The ranks of a solve: sums that come out the same on each of them, and failures that end all of them.

MPI leaves the order of a reduction open, though implementations are advised to keep it. Here parts travel as
they are and every sum is made in the order of the ranks, so that a result is bit-identical from run to run
for a fixed number of ranks, and the same on all ranks. A short sum costs one all-gather, which on one host
is a look at memory that all share (``src_cython/ranks/shared_sums.h``); a long one costs what an all-reduce
does: each rank adds up one piece, then the pieces go round.

A rank that fails where the others may fail as well (reading its part of a file, say) tells them, and all
raise the same error: `Group.together`. A rank that fails alone, in the middle of a solve, cannot tell ranks
that wait for it elsewhere: `Group.guarded` finds out within seconds whether the others fail too, and where
they do not, the whole job is aborted.
"""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from bmrm import errors
from bmrm._version import __version__
from bmrm.base.vectors import Indices, Vector
from bmrm.distributed.shared_sums import MAX_SHARED_DOUBLES, shared_memory
from bmrm.errors import BmrmError, ParameterError
from bmrm.matrix._cpu import Board, instruction_set

ABORT_DELAY_SECONDS = 0.3
"""Seconds that a launcher needs to pass on what a rank has printed: an abort would cut it off."""

MAX_GATHERED_DOUBLES = 1 << 14
"""Doubles, over all ranks, up to which a sum is one all-gather: below it the number of messages counts."""

SPIN_SECONDS = 5e-3
NAP_SECONDS = 2e-5
"""Seconds for which a rank that waits keeps its core, and between its looks whether the others are done
later; a long message moves with these looks alone. Where there are more ranks than cores it naps at once: MPI
itself never gives the core back, a rank then waits for whole slices of the scheduler, and training takes a
hundred times as long."""

SIGNAL_CHECK_SECONDS = 0.1
"""Seconds between a waiting rank's looks whether a signal has come."""

FAILURE_WAIT_SECONDS = 2.0
"""Seconds in which other ranks may turn out to fail as well."""


class Group:
    """Ranks that work on one problem.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm or PETSc.Comm

    Attributes
    ----------
    rank, size : int
    number : int
        Of this rank among those of its machine.
    cores : int
        That it may use without sharing them, at least 1.
    crowded : bool
        There are more ranks than cores.
    board : bmrm.matrix._cpu.Board or None
        Where short sums are made; None where the ranks are on several hosts.
    area : Area or None
        Where longer vectors are left for the others, likewise.

    Raises
    ------
    ParameterError
        If `comm` is neither.
    BmrmError
        If the ranks run different versions or on processors that round differently.

    Examples
    --------
    >>> import numpy as np
    >>> from mpi4py import MPI
    >>> group = Group(MPI.COMM_SELF)
    >>> group.rank, group.size, group.total(np.array([1.0, 2.0]))
    (0, 1, array([1., 2.]))
    """

    def __init__(self, comm: Any) -> None:
        if hasattr(comm, "tompi4py"):
            comm = comm.tompi4py()
        if not isinstance(comm, MPI.Intracomm):
            raise ParameterError(f"comm: found {comm!r}, expected a communicator of mpi4py or petsc4py")
        self.comm: MPI.Intracomm = comm
        self.rank, self.size = comm.Get_rank(), comm.Get_size()
        self.report: Callable[[BaseException], int] = _print_traceback
        """Says why the job ends, and returns the exit code; a program may put its own function here."""
        self._failures = _failure_comm(comm)
        self._check_likeness()
        self.number, self.cores, self.crowded = self._place()
        self.board, self.area = shared_memory(comm, self.crowded)

    def _check_likeness(self) -> None:
        """Equal bits on all ranks need equal programs on equal processors."""
        mine = f"bmrm {__version__}, numpy {np.__version__}, {instruction_set()}"
        found = self.comm.allgather(mine)
        other = next((rank for rank, theirs in enumerate(found) if theirs != found[0]), None)
        if other is not None:
            raise BmrmError(
                f"rank 0 runs {found[0]}, rank {other} {found[other]}: expected the same "
                "(BMRM_CPU_ISA can name a lower instruction set)"
            )

    # --- sums

    def total(self, part: Vector) -> Vector:
        """Add up arrays of one shape over the ranks, in their order."""
        if self.size == 1:
            return part
        flat = np.ascontiguousarray(part, np.float64).reshape(-1)
        if flat.size * self.size <= MAX_GATHERED_DOUBLES:
            return np.asarray(self.parts(flat).sum(axis=0).reshape(part.shape))
        bounds = self.split(flat.size)
        piece = np.empty((1, int(bounds[self.rank + 1] - bounds[self.rank])))
        self.total_by_columns(flat[None, :], [(0, 1)] * self.size, bounds, piece)
        return self.gathered(piece[0], bounds).reshape(part.shape)

    def parts(self, part: Vector) -> Vector:
        """Return the vectors of all ranks, shape (size, length)."""
        found = np.empty((self.size, part.size))
        if self.board is None or part.size > Board.ROOM:
            self._wait(self.comm.Iallgather(part, found))
            return found
        self.board.post(part)
        while not self.board.collect(found, SIGNAL_CHECK_SECONDS):
            pass
        return found

    def add_up(self, numbers: NDArray[Any]) -> None:
        """Replace a vector of float32 or float64 by the sum over the ranks, added up in float64."""
        if self.size == 1:
            return
        bounds = self.split(numbers.size)
        widths = np.diff(bounds).tolist()
        parts = np.empty((self.size, widths[self.rank]), numbers.dtype)
        self._wait(self.comm.Ialltoallv((numbers, widths), (parts, [parts.shape[1]] * self.size)))
        piece = np.zeros(parts.shape[1])
        for part in parts:
            piece += part
        self._wait(self.comm.Iallgatherv(piece.astype(numbers.dtype), (numbers, widths)))

    def total_by_columns(
        self, rows: Vector, reach: list[tuple[int, int]], bounds: Indices, out: Vector
    ) -> None:
        """Add up rows over the ranks, each rank its columns.

        Parameters
        ----------
        rows : ndarray of shape (last - first, d)
            What this rank adds to the rows first to last of the sum, ``first, last = reach[rank]``.
        reach : list of (int, int)
            The rows that each rank adds to.
        bounds : ndarray of shape (size + 1,)
            Columns of rank r: ``bounds[r]`` to ``bounds[r + 1]``.
        out : ndarray of shape (rows of the sum, columns of this rank)
            Written.
        """
        if (
            self.area is not None
            and max(last - first for first, last in reach) * int(bounds[-1]) <= MAX_SHARED_DOUBLES
        ):
            return self._total_in_area(rows, reach, bounds, out)
        widths = np.diff(bounds)
        width = int(widths[self.rank])
        sent = np.concatenate([rows[:, a:b].ravel() for a, b in pairwise(bounds)])
        heights = [last - first for first, last in reach]
        received = np.empty(sum(heights) * width)
        self._wait(
            self.comm.Ialltoallv(
                (sent, (widths * len(rows)).tolist()), (received, [height * width for height in heights])
            )
        )
        out[:] = 0.0
        at = 0
        for (first, last), height in zip(reach, heights, strict=True):
            out[first:last] += received[at : at + height * width].reshape(height, width)
            at += height * width

    def _total_in_area(
        self, rows: Vector, reach: list[tuple[int, int]], bounds: Indices, out: Vector
    ) -> None:
        """Do as `total_by_columns`, in memory that all ranks see."""
        assert self.area is not None
        columns = int(bounds[-1])
        parts = self.area.places(max(last - first for first, last in reach) * columns)
        parts[self.rank][: rows.size].reshape(rows.shape)[:] = rows
        self.meet()
        own = slice(bounds[self.rank], bounds[self.rank + 1])
        out[:] = 0.0
        for part, (first, last) in zip(parts, reach, strict=True):
            out[first:last] += part[: (last - first) * columns].reshape(last - first, columns)[:, own]

    def exchanged(self, numbers: Vector, counts: list[int], incoming: list[int]) -> Vector:
        """Send so many numbers to each rank; return what comes from each, by rank."""
        found = np.empty(sum(incoming))
        self._wait(self.comm.Ialltoallv((np.ascontiguousarray(numbers), counts), (found, incoming)))
        return found

    def gathered(self, piece: Vector, bounds: Indices) -> Vector:
        """Put the pieces of a vector together, on every rank."""
        widths = np.diff(bounds).tolist()
        if self.area is not None and max(widths) <= MAX_SHARED_DOUBLES:
            parts = self.area.places(max(widths))
            parts[self.rank][: piece.size] = piece
            self.meet()
            return np.concatenate([part[:width] for part, width in zip(parts, widths, strict=True)])
        whole = np.empty(int(bounds[-1]))
        self._wait(self.comm.Iallgatherv(np.ascontiguousarray(piece), (whole, widths)))
        return whole

    def gathered_on_first(self, piece: Vector, bounds: Indices) -> Vector:
        """Put the pieces of a vector together on rank 0; return what they are elsewhere."""
        if self.rank != 0:
            self._wait(self.comm.Igatherv(np.ascontiguousarray(piece), None))
            return piece
        whole = np.empty(int(bounds[-1]))
        self._wait(self.comm.Igatherv(np.ascontiguousarray(piece), (whole, np.diff(bounds).tolist())))
        return whole

    def meet(self) -> None:
        """Wait until all ranks have come here; what they wrote before is there."""
        self.parts(np.empty(0))

    def _wait(self, request: MPI.Request) -> None:
        """Wait for other ranks: awake for a moment, then leaving the core to those who may need it."""
        until = time.monotonic() + (0.0 if self.crowded else SPIN_SECONDS)
        while not request.Test():
            if time.monotonic() >= until:
                time.sleep(NAP_SECONDS)

    def split(self, count: int) -> Indices:
        """Bounds of as many pieces as ranks, equal to one."""
        return np.linspace(0, count, self.size + 1).astype(np.int64)

    def everyones(self, value: Any) -> list[Any]:
        """Return the values of all ranks, by rank."""
        return list(self.comm.allgather(value))

    # --- failures

    @contextmanager
    def together(self) -> Iterator[None]:
        """Raise on every rank what the block raises on any: the error of the lowest rank that has one.

        The block may not talk to other ranks.
        """
        mine: Exception | None = None
        try:
            yield
        except Exception as error:
            mine = error
        found = self.everyones(None if mine is None else _to_portable(mine))
        failed = next((rank for rank, error in enumerate(found) if error is not None), None)
        if failed is not None:
            raise mine if mine is not None and failed == self.rank else _from_portable(found[failed])

    def _all_failed(self) -> bool:
        """Whether the other ranks come here too within `PATIENCE`; called by a rank that has failed."""
        if self.size == 1:
            return True
        request, until = self._failures.Ibarrier(), time.monotonic() + FAILURE_WAIT_SECONDS
        while time.monotonic() < until:
            if request.Test():
                return True
            time.sleep(0.01)
        return False

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Abort the job where the block fails on this rank and not on all: the others would wait for it."""
        try:
            yield
        except BaseException as error:
            if not self._all_failed():
                code = self.report(error)
                sys.stderr.flush()
                time.sleep(ABORT_DELAY_SECONDS)
                self.comm.Abort(code)
                os._exit(code)  # where the abort takes effect a little later
            raise

    def _place(self) -> tuple[int, int, bool]:
        here = self.comm.Split_type(MPI.COMM_TYPE_SHARED)
        mine = os.sched_getaffinity(0)
        rivals = sum(not mine.isdisjoint(theirs) for theirs in here.allgather(mine))
        number = here.Get_rank()
        here.Free()
        return number, max(1, len(mine) // rivals), rivals > len(mine)


_FAILURE_COMM_KEY = MPI.Comm.Create_keyval()


def _failure_comm(comm: MPI.Intracomm) -> MPI.Intracomm:
    """Return the duplicate of a communicator on which failures are told, one for all groups."""
    twin = comm.Get_attr(_FAILURE_COMM_KEY)
    if twin is None:
        twin = comm.Dup()
        comm.Set_attr(_FAILURE_COMM_KEY, twin)
    return twin


def _print_traceback(error: BaseException) -> int:
    traceback.print_exception(error)
    return int(getattr(error, "exit_code", 1))


_Portable = tuple[str, tuple[Any, ...]]


def _to_portable(error: Exception) -> _Portable:
    if isinstance(error, OSError):
        name = None if error.filename is None else os.fspath(error.filename)
        return "OSError", (error.errno, error.strerror or str(error), name)
    if isinstance(error, BmrmError):
        return type(error).__name__, (str(error),)
    if isinstance(error, MemoryError):
        return "MemoryError", ()
    return "BmrmError", (f"unexpected {type(error).__name__}: {error}",)


def _from_portable(error: _Portable) -> Exception:
    kind, words = error
    builtin: dict[str, type[Exception]] = {"OSError": OSError, "MemoryError": MemoryError}
    made: type[Exception] = builtin[kind] if kind in builtin else getattr(errors, kind)
    return made(*words)
