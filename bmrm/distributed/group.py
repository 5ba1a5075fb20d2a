"""The ranks of a solve: sums that are identical on all ranks, and failures that end all ranks.

MPI does not fix the order of a reduction, though it advises implementations to. Here the parts are exchanged
unchanged and every sum is made in the order of the ranks, so for a given number of ranks a result is
bit-identical from run to run, and the same on all ranks. A short sum costs one all-gather. A long sum costs
as much as an all-reduce: each rank sums one piece, then the pieces are gathered. On one host long vectors go
through shared memory (``shared_memory.py``).

If a rank fails where the others may fail too (for example while it reads its part of a file), it informs
them, and all raise the same error: `Group.together`. A rank that fails alone, in the middle of a solve,
cannot inform ranks that wait for it elsewhere: `Group.guarded` finds out within seconds whether the others
fail too, and aborts the whole job if they do not.
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
from bmrm.base.threads import usable_cores
from bmrm.base.vectors import Indices, Vector
from bmrm.base.version import __version__
from bmrm.distributed.shared_memory import MAX_SHARED_DOUBLES, Area
from bmrm.errors import BmrmError, ParameterError
from bmrm.matrix._cpu import instruction_set

ABORT_DELAY_SECONDS = 0.3
"""Delay before an abort, so that the launcher can forward what the rank has printed."""

MAX_GATHERED_DOUBLES = 1 << 14
"""Maximum number of doubles of all ranks in one all-gather: for short sums the number of messages counts."""

SPIN_SECONDS = 5e-3
"""Time for which a waiting rank checks without a break before it naps.

With more ranks than cores it offers the core to the others between these checks: MPI itself never releases
it, so a rank would wait for whole time slices of the scheduler, and training would take a hundred times as
long."""

NAP_SECONDS = 2e-5
"""Time between two checks of a napping rank whether the others are done; long messages progress only in these
checks."""

FAILURE_WAIT_SECONDS = 2.0
"""Time that a failed rank waits for other ranks to fail too."""


class Group:
    """Ranks that work on one problem.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm or PETSc.Comm

    Attributes
    ----------
    rank, size : int
    number, neighbours : int
        Number of this rank among the ranks of its machine, and the number of these.
    cores : int
        Number of cores that it may use without sharing them, at least 1.
    crowded : bool
        Whether there are more ranks than cores.
    area : Area or None
        Shared memory for vectors; None for one rank, or ranks on several hosts.

    Raises
    ------
    ParameterError
        If `comm` is not a communicator.
    BmrmError
        If the ranks run different versions, or processors that round differently.

    Examples
    --------
    >>> import numpy as np
    >>> from mpi4py import MPI
    >>> group = Group(MPI.COMM_SELF)
    >>> group.rank, group.size, group.total(np.array([1.0, 2.0]))
    (0, 1, array([1., 2.]))
    >>> numbers = np.array([1.0, 2.0])
    >>> group.add_up(numbers)  # in place
    >>> group.split(2), group.parts(numbers), group.gathered(numbers, group.split(2))
    (array([0, 2]), array([[1., 2.]]), array([1., 2.]))
    >>> group.gathered_on_first(numbers, group.split(2)), group.exchanged(numbers, [2])
    (array([1., 2.]), array([1., 2.]))
    >>> out = np.empty((1, 2))
    >>> group.total_by_columns(numbers[None], [(0, 1)], group.split(2), out)
    >>> out, group.in_turn(2, lambda before: numbers)
    (array([[1., 2.]]), array([1., 2.]))
    """

    def __init__(self, comm: Any) -> None:
        if hasattr(comm, "tompi4py"):
            comm = comm.tompi4py()
        if not isinstance(comm, MPI.Intracomm):
            raise ParameterError(f"comm: found {comm!r}, expected a communicator of mpi4py or petsc4py")
        self.comm: MPI.Intracomm = comm
        self.rank, self.size = comm.Get_rank(), comm.Get_size()
        self.report: Callable[[BaseException], int] = _print_traceback
        """Reports why the job ends and returns the exit code; a program may set its own function."""
        self._failures = _failure_comm(comm)
        self._check_likeness()
        self.number, self.neighbours, self.cores, self.crowded = self._place()
        self.area = Area.of(comm)

    def _check_likeness(self) -> None:
        """Raise unless all ranks run the same versions and instruction set, which identical bits require."""
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
        """Sum arrays of the same shape over the ranks, in rank order.

        Parameters
        ----------
        part : ndarray of float64

        Returns
        -------
        ndarray of float64
            Of the same shape, with the same bits on all ranks.
        """
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
        """Return the vectors of all ranks.

        Parameters
        ----------
        part : ndarray of float64, shape (n,)

        Returns
        -------
        ndarray of float64, shape (size, n)
        """
        found = np.empty((self.size, part.size))
        self._wait(self.comm.Iallgather(part, found))
        return found

    def in_turn(self, length: int, step: Callable[[Vector | None], Vector]) -> Vector:
        """Let each rank in turn make a vector of that of the rank before; return the last one on all.

        Parameters
        ----------
        length : int
            Of the vectors.
        step : callable
            Gets the vector of the rank before, and None on the first rank. It must not fail, since the ranks
            after this one wait for it.

        Returns
        -------
        ndarray of float64, shape (length,)
        """
        before: Vector | None = None
        if self.rank > 0:
            before = np.empty(length)
            self._wait(self.comm.Irecv(before, self.rank - 1))
        found = np.ascontiguousarray(step(before), np.float64)
        if self.rank < self.size - 1:
            self._wait(self.comm.Isend(found, self.rank + 1))
            found = np.empty(length)
        self._wait(self.comm.Ibcast(found, self.size - 1))
        return found

    def add_up(self, numbers: NDArray[Any]) -> None:
        """Replace a vector by its sum over the ranks.

        Parameters
        ----------
        numbers : ndarray, shape (n,)
            Of floats, which are added in float64, or of int64.
        """
        if self.size == 1:
            return
        bounds = self.split(numbers.size)
        widths = np.diff(bounds).tolist()
        parts = np.empty((self.size, widths[self.rank]), numbers.dtype)
        self._wait(self.comm.Ialltoallv((numbers, widths), (parts, [parts.shape[1]] * self.size)))
        piece = np.zeros(parts.shape[1], np.int64 if numbers.dtype == np.int64 else np.float64)
        for part in parts:
            piece += part
        self._wait(self.comm.Iallgatherv(piece.astype(numbers.dtype), (numbers, widths)))

    def total_by_columns(
        self, rows: Vector, reach: list[tuple[int, int]], bounds: Indices, out: Vector
    ) -> None:
        """Sum rows over the ranks; each rank gets its own columns of the sum.

        Parameters
        ----------
        rows : ndarray of shape (last - first, d)
            What this rank adds to the rows first to last of the sum, ``first, last = reach[rank]``.
        reach : list of (int, int)
            The rows to which each rank adds.
        bounds : ndarray of shape (size + 1,)
            Rank r gets the columns ``bounds[r]`` to ``bounds[r + 1]``.
        out : ndarray of shape (rows of the sum, columns of this rank)
            The sums.
        """
        if (
            self.area is not None
            and max(last - first for first, last in reach) * int(bounds[-1]) <= MAX_SHARED_DOUBLES
        ):
            self._total_in_area(rows, reach, bounds, out)
            return
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
        """Do the same as `total_by_columns` through shared memory."""
        assert self.area is not None
        columns = int(bounds[-1])
        parts = self.area.places(max(last - first for first, last in reach) * columns)
        parts[self.rank][: rows.size].reshape(rows.shape)[:] = rows
        self.meet()
        own = slice(bounds[self.rank], bounds[self.rank + 1])
        out[:] = 0.0
        for part, (first, last) in zip(parts, reach, strict=True):
            out[first:last] += part[: (last - first) * columns].reshape(last - first, columns)[:, own]

    def exchanged(
        self, numbers: NDArray[Any], counts: list[int], incoming: list[int] | None = None
    ) -> NDArray[Any]:
        """Send some numbers to each rank; return what all ranks send.

        Parameters
        ----------
        numbers : ndarray, shape (sum(counts),)
            Those for rank 0 first.
        counts : list of int
            How many numbers each rank gets.
        incoming : list of int, optional
            How many numbers each rank sends to this one; the ranks tell each other by default.

        Returns
        -------
        ndarray, shape (sum(incoming),)
            In rank order, of the type of the numbers.
        """
        if incoming is None:
            incoming = [theirs[self.rank] for theirs in self.everyones(counts)]
        found = np.empty(sum(incoming), numbers.dtype)
        self._wait(self.comm.Ialltoallv((np.ascontiguousarray(numbers), counts), (found, incoming)))
        return found

    def gathered(self, piece: NDArray[Any], bounds: Indices, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Join the pieces of a vector on every rank.

        Parameters
        ----------
        piece : ndarray
            The part of this rank.
        bounds : ndarray of int64, shape (size + 1,)
            Rank r has the elements ``bounds[r]`` to ``bounds[r + 1]``.
        out : ndarray, shape (bounds[-1],), optional
            Where to put them.

        Returns
        -------
        ndarray, shape (bounds[-1],)
        """
        widths = np.diff(bounds).tolist()
        whole = np.empty(int(bounds[-1]), piece.dtype) if out is None else out
        doubles = -(-max(widths) * piece.itemsize // 8)
        if self.area is not None and doubles <= MAX_SHARED_DOUBLES:
            parts = [part.view(piece.dtype) for part in self.area.places(doubles)]
            parts[self.rank][: piece.size] = piece
            self.meet()
            return np.concatenate(
                [part[:width] for part, width in zip(parts, widths, strict=True)], out=whole
            )
        self._wait(self.comm.Iallgatherv(np.ascontiguousarray(piece), (whole, widths)))
        return whole

    def gathered_on_first(self, piece: Vector, bounds: Indices) -> Vector:
        """Join the pieces of a vector on rank 0.

        Parameters
        ----------
        piece : ndarray of float64
            The part of this rank.
        bounds : ndarray of int64, shape (size + 1,)
            Rank r has the elements ``bounds[r]`` to ``bounds[r + 1]``.

        Returns
        -------
        ndarray of float64
            The whole on rank 0; other ranks get their own piece back.
        """
        if self.rank != 0:
            self._wait(self.comm.Igatherv(np.ascontiguousarray(piece), None))
            return piece
        whole = np.empty(int(bounds[-1]))
        self._wait(self.comm.Igatherv(np.ascontiguousarray(piece), (whole, np.diff(bounds).tolist())))
        return whole

    def meet(self) -> None:
        """Wait until all ranks have called this; then what they wrote to shared memory is visible."""
        self._wait(self.comm.Ibarrier())

    def _wait(self, request: MPI.Request) -> None:
        """Wait for other ranks: spin for a moment, then nap between checks."""
        until = time.monotonic() + SPIN_SECONDS
        while not request.Test():
            if time.monotonic() >= until:
                time.sleep(NAP_SECONDS)
            elif self.crowded:
                os.sched_yield()

    def split(self, count: int) -> Indices:
        """Return the bounds of one piece per rank; sizes differ by at most one.

        Parameters
        ----------
        count : int
            Number of elements.

        Returns
        -------
        ndarray of int64, shape (size + 1,)
        """
        return np.linspace(0, count, self.size + 1).astype(np.int64)

    def everyones(self, value: Any) -> list[Any]:
        """Return the values of all ranks.

        Parameters
        ----------
        value : object
            It is pickled.

        Returns
        -------
        list
            In rank order.
        """
        return list(self.comm.allgather(value))

    # --- failures

    @contextmanager
    def together(self) -> Iterator[None]:
        """Raise on every rank what the block raises on any rank: the error of the lowest rank with one.

        The block must not communicate with other ranks.

        Yields
        ------
        None
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
        """Return whether the other ranks call this too within `FAILURE_WAIT_SECONDS`; for a failed rank."""
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
        """Abort the job if the block fails on this rank but not on all; the others would wait for it.

        Yields
        ------
        None
        """
        try:
            yield
        except BaseException as error:
            if not self._all_failed():
                code = self.report(error)
                sys.stderr.flush()
                time.sleep(ABORT_DELAY_SECONDS)
                self.comm.Abort(code)
                os._exit(code)  # the abort may take effect only a little later
            raise

    def _place(self) -> tuple[int, int, int, bool]:
        here = self.comm.Split_type(MPI.COMM_TYPE_SHARED)
        mine = os.sched_getaffinity(0)
        rivals = sum(not mine.isdisjoint(theirs) for theirs in here.allgather(mine))
        number, neighbours = here.Get_rank(), here.Get_size()
        here.Free()
        cores = usable_cores()
        return number, neighbours, max(1, cores // rivals), rivals > cores


_FAILURE_COMM_KEY = MPI.Comm.Create_keyval()


def _failure_comm(comm: MPI.Intracomm) -> MPI.Intracomm:
    """Return the duplicate of a communicator that is used for failures, shared by all groups."""
    duplicate = comm.Get_attr(_FAILURE_COMM_KEY)
    if duplicate is None:
        duplicate = comm.Dup()
        comm.Set_attr(_FAILURE_COMM_KEY, duplicate)
    return duplicate


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


def group_of(comm: Any) -> Group:
    """Return the group of a communicator of mpi4py or petsc4py; a group is returned as it is."""
    return comm if isinstance(comm, Group) else Group(comm)
