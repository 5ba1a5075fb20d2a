"""Counting the pairs of placed points by tasks, wherever they are placed.

`bmrm.pairs.histograms` and its plan talk to `PairPasses` only: `bmrm.pairs.cpu` has those of the CPU,
`bmrm.pairs.gpu` those of a GPU. A counter has tasks, whose numbers depend on the points alone. Ranges of them
are counted one after the other; between two, signals are looked at and progress is shown. Ranks take ranges
in turn. All that is added are integers, so that it does not matter who counted what, and in which order.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from bmrm.base.interrupts import hold_signals, requested
from bmrm.base.vectors import Indices, Vector

if TYPE_CHECKING:
    from bmrm.distributed.group import Group
    from bmrm.distributed.ranks import AllRanks
    from bmrm.pairs.work import Rate

RANGE_SECONDS = 0.1
"""Time that a range of tasks should take: signals wait as long, and threads for each other at its end."""

GROWTH = 16
"""Factor by which a range may have more tasks than the one before."""

BLOCKS_PER_RANK = 16
"""Blocks of tasks that each rank takes in turn: tasks near to each other are alike in length."""

Counts = NDArray[np.int64]


class Placed(Protocol):
    """Points on a device, sorted."""

    @property
    def n(self) -> int:
        """Number of points."""
        ...

    @property
    def axes(self) -> int:
        """Number of axes."""
        ...

    @property
    def bytes(self) -> int:
        """Memory of the device in use."""
        ...


class Counter(Protocol):
    """What one call of `histogram` has prepared."""

    @property
    def tasks(self) -> int:
        """Number of tasks, which depends on the points and bounds alone."""
        ...

    @property
    def candidates(self) -> float:
        """Number of pairs whose distance all tasks compute."""
        ...

    @property
    def bytes(self) -> int:
        """Memory of the device in use besides that of the points."""
        ...

    def count(self, first: int, last: int, threads: int | None = None) -> tuple[Counts, float, float]:
        """Return the counts of tasks first to last - 1, their candidates, and those decided in float64."""
        ...


class DensityPasses(Protocol):
    """Sums over points y of a function of their distance to points x; see `bmrm.pairs._pairs.DensitySums`."""

    @property
    def fused(self) -> bool:
        """Whether sums in float32 round a product and its sum together."""
        ...

    def nearest(self, x: Vector, threads: int | None = None) -> Vector:
        """Return the least squared distance of each x."""
        ...

    def sums(
        self,
        x: Vector,
        shape: str,
        scale: float,
        end: float,
        offsets: Vector | None,
        tolerance: float,
        threads: int | None = None,
    ) -> tuple[Vector, Vector, Vector]:
        """Return sums in float64, weights of terms that are not cut off, and bounds of what is left out."""
        ...

    def light_sums(
        self,
        x: Vector,
        scale: float,
        rate: float,
        most: float,
        tolerance: float,
        threads: int | None = None,
    ) -> tuple[Vector, Vector, Vector]:
        """Return Gaussian sums in float32, those of terms times d2, and bounds of what is left out."""
        ...


class NeighbourTasks(Protocol):
    """A search for the neighbours of some rows; see `bmrm.pairs._pairs.NeighbourSearch`."""

    @property
    def tasks(self) -> int:
        """Number of tasks, which together have each row once."""
        ...

    def nearest(
        self, first: int, last: int, distances: Vector, indices: Indices, threads: int | None = None
    ) -> None:
        """Find the nearest of the rows of tasks first to last - 1, as many as the arrays have columns."""
        ...

    def count(
        self, first: int, last: int, radius: float, counts: Indices, threads: int | None = None
    ) -> None:
        """Count the neighbours within a radius of the rows of some tasks."""
        ...

    def fill(
        self,
        first: int,
        last: int,
        radius: float,
        starts: Indices,
        indices: Any,
        distances: Vector,
        threads: int | None = None,
    ) -> None:
        """Write the neighbours that were counted, in the order of their indices."""
        ...


class Neighbours(Protocol):
    """Rows and points on a device, where neighbours are sought."""

    def search(self, first: int, last: int, radius: float) -> NeighbourTasks:
        """Prepare a search for the neighbours of rows first to last - 1.

        - ``radius``: within which they are listed; 0 if they are counted, or the nearest are sought
        """
        ...


class PairPasses(Protocol):
    """The passes of a device."""

    device: str
    """``"cpu"`` or ``"cuda:N"``."""

    density_pairs: ClassVar[float]
    """Pairs of points whose kernels are summed between two looks at signals."""

    sample_points: ClassVar[dict[str, int]]
    """Points with which the rate of a kernel is measured."""

    def clock(self) -> float:
        """Return the time by which a rate is measured: on a CPU that of the thread, others may be busy."""
        ...

    @property
    def machine(self) -> str:
        """The kind of processor, by which measured rates are kept."""
        ...

    def place(self, coordinates: Vector, box: Vector, order: NDArray[np.int64] | None = None) -> Any:
        """Copy points to the device: coordinates of shape (d, n), lengths of axes, 0 for open ones."""
        ...

    def counter(
        self, a: Any, b: Any, bounds: Vector, kernel: str, images: str, threads: int | None
    ) -> Counter:
        """Prepare to count the pairs of a with b, or of a with itself if b is None."""
        ...

    def near_order(self, coordinates: Vector, leaf: int, threads: int | None) -> Indices:
        """Return an order in which so many neighbours are close, if sums of kernels are faster by it."""
        ...

    def density_sums(self, y: Vector, weights: Vector, light: bool) -> DensityPasses:
        """Prepare sums over points y, shape (d, m), in near order; ``light``: in float32 too."""
        ...

    def rate(self, kernel: str, axes: int, bins: int, points: int) -> Rate:
        """Return what a kernel takes on one core, or on the GPU, before anything is measured."""
        ...

    def growth(self, axes: int, points: int) -> float:
        """Return the factor of a point's time in cells for so many points."""
        ...

    def worth(self, threads: int) -> float:
        """Return how many times as fast as one thread some threads are."""
        ...

    def memory(self, kernel: str, points: int, axes: int, bins: int, threads: int | None) -> int:
        """Return the predicted bytes of a call: points, what the kernel prepares, and tables."""
        ...

    def require(self, needed: int, what: str) -> None:
        """Raise `HostMemoryError` or `DeviceMemoryError` if so many bytes are not free."""
        ...


@dataclass
class Counted:
    """What tasks have found.

    Attributes
    ----------
    counts : ndarray of int64
    candidates, rechecked : float
        Pairs whose distance was computed, and those of them that were decided in float64.
    share : float
        Share of the tasks that are done; below 1 after Ctrl-C.
    """

    counts: Counts
    candidates: float = 0.0
    rechecked: float = 0.0
    share: float = 0.0


def count_tasks(
    counter: Counter,
    bins: int,
    threads: int | None,
    group: Group | None = None,
    show: Callable[[float], object] | None = None,
) -> Counted:
    """Count all tasks, those of a rank if there are several, and add up over the ranks.

    After Ctrl-C no other range begins, and the share says how far it came. ``show`` gets the share of the
    candidates of this rank that are done.
    """
    found, done = Counted(np.zeros(bins, np.int64)), 0
    blocks = _own_blocks(counter.tasks, group)
    own = sum(end - begin for begin, end in blocks)
    whole = 1.0 if show is None else max(1.0, counter.candidates * own / max(1, counter.tasks))
    with hold_signals():
        for first, last in task_ranges(blocks):
            counts, candidates, rechecked = counter.count(first, last, threads)
            found.counts += counts
            found.candidates += candidates
            found.rechecked += rechecked
            done += last - first
            if show is not None:
                show(1.0 if done == own else min(1.0, found.candidates / whole))
    return _over_ranks(found, done, counter.tasks, group)


def task_ranges(blocks: Iterable[tuple[int, int]], least: int = 1) -> Iterator[tuple[int, int]]:
    """Yield ranges of the tasks of some blocks, of at least so many; none after a signal.

    A range is as long as the time between it and the one before says.
    """
    each = least
    for begin, end in blocks:
        first = begin
        while first < end and not requested():
            last = min(end, first + each)
            began = time.perf_counter()
            yield first, last
            each = max(least, _next_range(last - first, time.perf_counter() - began))
            first = last


def _own_blocks(tasks: int, group: Group | None) -> list[tuple[int, int]]:
    """Return the first task of each block of this rank, and the end of the block."""
    if group is None:
        return [(0, tasks)] if tasks else []
    each = max(1, -(-tasks // (group.size * BLOCKS_PER_RANK)))
    return [(first, min(tasks, first + each)) for first in range(group.rank * each, tasks, group.size * each)]


def own_rows(n: int, each: int, ranks: AllRanks) -> tuple[int, int]:
    """Return the first row of this rank and the end: blocks of ``each`` rows with about equally many pairs.

    A row has its pairs with later ones. Sums of blocks are added in order, so the blocks of a rank are
    neighbours.
    """
    rows = np.append(np.arange(0, n, each), n)
    pairs = rows * (2.0 * n - rows - 1.0)  # twice those of the rows before
    wanted = pairs[-1] * np.arange(1, ranks.ranks) / ranks.ranks
    bounds = [0, *rows[np.searchsorted(pairs, wanted)].tolist(), n]
    return bounds[ranks.rank], bounds[ranks.rank + 1]


def _next_range(tasks: int, seconds: float) -> int:
    """Return how many tasks the next range should have, by the time of the last one."""
    wanted = tasks * RANGE_SECONDS / max(seconds, 1e-6)
    return max(1, int(min(wanted, GROWTH * tasks)))


def _over_ranks(found: Counted, done: int, tasks: int, group: Group | None) -> Counted:
    if group is not None:
        group.add_up(found.counts)
        sums = np.array([done, found.candidates, found.rechecked])
        done, found.candidates, found.rechecked = group.total(sums).tolist()
    found.share = done / tasks if tasks else 1.0
    return found
