"""Nearest neighbours of points, and all neighbours within a radius: exact.

Neighbours are ordered by their distance in float64 and then by their index. So results are the same for any
number of rows, of neighbours and of threads, and those of the first k are the first of more. The cosine
distance is half the squared distance of rows divided by their lengths: it keeps its digits where 1 minus a
product loses them. A row of zeros is at right angles to all others, and equal to other rows of zeros.

Rows and points are on the CPU (``src_cython/pairs``) or on a GPU (``src_cuda/pairs/neighbours.cu``), with the
same results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from bmrm.base import arguments
from bmrm.base.host_memory import available_bytes, require_memory
from bmrm.base.interrupts import check_signals, hold_signals, interruptible
from bmrm.base.vectors import Indices, Vector, index_type
from bmrm.errors import HostMemoryError, ParameterError
from bmrm.matrix.gpu.memory import parse_memory_size
from bmrm.matrix.gpu.placement import Placement, place, with_fall_back
from bmrm.matrix.gpu.work import threads_of
from bmrm.pairs.passes import Neighbours, NeighbourTasks, task_ranges
from bmrm.pairs.points import Points, read_threads
from bmrm.pairs.sides import SQUARES, read_sides
from bmrm.pairs.work import neighbour_work

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Found = TypeVar("Found")

NEIGHBOUR_BYTES = 16
"""Memory of a neighbour: its distance, and its index in 64 bits."""

MAX_LISTED_AXES = 3
"""Axes up to which pairs within a reach may be listed for functions of two points."""

MIN_LISTED_PAIRS = 1 << 22
"""Number of all pairs from which a list may pay: to look at them takes some milliseconds."""

MAX_LISTED_SHARE = 0.02
"""Share of all pairs that are near, if points are spread evenly, up to which a list pays: to list a pair
takes 75 ns, and to look at its distance 1 ns (200,000 points on three axes, 2026-11-28)."""

TINY = np.finfo(float).tiny

BLOCKS = "within.blocks returns some rows at a time"


class _Search:
    """A checked call: whose neighbours are sought, among which points, and where."""

    def __init__(
        self, x: Any, y: Any, metric: str, box: Any, device: str | None, threads: int | None
    ) -> None:
        self.sides = read_sides(x, y, metric, box, device, threads)
        if threads is None and isinstance(x, Points):
            threads = x.threads
        self.threads = threads_of(None if threads is None else read_threads(threads))
        self.shape, self.others = self.sides.shape, self.sides.others

    def on_device(self, task: Callable[[Neighbours], Found], k: int = 1) -> Found:
        """Call ``task`` with the rows and points where they are placed."""
        placement = self._place(k)

        def on_host() -> Found:
            from bmrm.pairs.neighbours_cpu import HostNeighbours

            return task(HostNeighbours(self.sides, self.threads))

        def on_gpu(number: int) -> tuple[Found, str]:
            from bmrm.pairs.neighbours_gpu import DeviceNeighbours

            return task(DeviceNeighbours(self.sides, number, k)), ""

        found, placement = with_fall_back(placement, on_host, on_gpu)
        placement.log()
        return found

    def _place(self, k: int) -> Placement:
        sides = self.sides
        if sides.metric == "jaccard":
            if sides.device.startswith("cuda"):
                raise ParameterError(
                    f"device: found {sides.device}, expected auto or cpu for the metric jaccard"
                )
            return Placement(None, "the metric jaccard is computed on the CPU")
        if not all(self.shape):
            return Placement(None, "there are no pairs")
        squares, periodic = sides.metric in SQUARES, bool(sides.box.any())
        work = neighbour_work(*self.shape, sides.axes, k, self.threads, squares=squares, periodic=periodic)
        return place(sides.device, sides.gpu, work)

    def run(
        self,
        where: Neighbours,
        task: Callable[[NeighbourTasks, int, int], object],
        first: int,
        last: int,
        radius: float = 0.0,
    ) -> None:
        """Call ``task`` for ranges of all tasks of the search for the neighbours of some rows."""
        native = where.search(first, last, radius)
        with hold_signals():
            for begin, end in task_ranges([(0, native.tasks)], self.threads):
                task(native, begin, end)
        check_signals()


@interruptible
def nearest(
    k: int,
    x: Any,
    y: Any = None,
    *,
    metric: str = "euclidean",
    box: Any = None,
    device: str | None = None,
    threads: int | None = None,
) -> tuple[Vector, Indices]:
    """Find the k nearest neighbours of each point.

    Parameters
    ----------
    k : int
        At most the number of points that may be neighbours.
    x : array, shape (n, d), or Points
        Alone: neighbours of each point among the others; a point with the same coordinates is another one.
    y : array, shape (m, d), or Points, optional
        Neighbours of each point of x among those of y.
    metric : {"euclidean", "sqeuclidean", "cosine", "manhattan", "chebyshev", "jaccard"}
        By default "euclidean". "jaccard" compares which numbers are not 0.
    box : float or array, shape (d,), optional
        Lengths of a periodic box, as for `Points`.
    device : {"auto", "cpu", "cuda", "cuda:N"}, optional
        Where they are found; "auto", the default: on the GPU that has the points, or where that is predicted
        to be faster. "jaccard" is for the CPU alone.
    threads : int, optional
        Maximum number of threads.

    Returns
    -------
    distances : ndarray of float64, shape (n, k)
    indices : ndarray of int64, shape (n, k)
        By distance, points at the same distance by index.

    Raises
    ------
    DataError
        If points are not finite numbers, or x and y have other numbers of columns.
    ParameterError
        If there are fewer than k other points.
    HostMemoryError, DeviceMemoryError
        If the result, or what a GPU needs, does not fit into the memory that is free.
    Interrupted
        For Ctrl-C, without a result.

    Examples
    --------
    >>> from bmrm import pairs
    >>> distances, indices = pairs.nearest(2, [[0.0], [1.0], [3.0]])
    >>> distances.tolist(), indices.tolist()
    ([[1.0, 3.0], [1.0, 2.0], [2.0, 3.0]], [[1, 2], [0, 2], [1, 0]])
    """
    k = arguments.positive_integer("k", k)
    search = _Search(x, y, metric, box, device, threads)
    if k > search.others:
        whose = "the other points of x" if search.sides.points is None else "the points of y"
        raise ParameterError(f"k: found {k}, expected at most {search.others}, {whose}")
    n = search.shape[0]
    require_memory(NEIGHBOUR_BYTES * n * k, f"{k} neighbours of {n} points")

    def find(where: Neighbours) -> tuple[Vector, Indices]:
        distances, indices = np.empty((n, k)), np.empty((n, k), np.int64)
        search.run(
            where, lambda native, *tasks: native.nearest(*tasks, distances, indices, search.threads), 0, n
        )
        return distances, indices

    return search.on_device(find, k)


def nearest_graph(distances: Vector, indices: Indices, columns: int) -> csr_array:
    """Return the neighbours that `nearest` has found as a sparse matrix, each row by distance."""
    from scipy.sparse import csr_array

    count, k = indices.shape
    starts = np.arange(0, count * k + 1, k, dtype=indices.dtype)
    return csr_array((distances.reshape(-1), indices.reshape(-1), starts), shape=(count, columns))


class Within:
    """Finds all neighbours within a radius: `bmrm.pairs.within` is the only one."""

    def __call__(
        self,
        radius: float,
        x: Any,
        y: Any = None,
        *,
        metric: str = "euclidean",
        box: Any = None,
        device: str | None = None,
        threads: int | None = None,
    ) -> csr_array:
        """Find all neighbours within a radius of each point.

        They are counted first. Counting stops as soon as the result cannot fit into memory.

        Parameters
        ----------
        radius : float
            Neighbours are those at a distance of at most this, in float64.
        x, y, metric, box, device, threads
            As for `bmrm.pairs.nearest`.

        Returns
        -------
        csr_array, shape (n, m)
            Distances, by index; those that are 0 are stored.

        Raises
        ------
        DataError, ParameterError, Interrupted
            As `bmrm.pairs.nearest`.
        HostMemoryError
            If the result does not fit: see `blocks`.

        Examples
        --------
        >>> from bmrm import pairs
        >>> pairs.within(1.0, [[0.0], [1.0], [3.0]]).toarray()
        array([[0., 1., 0.],
               [1., 0., 0.],
               [0., 0., 0.]])
        """
        return _within(radius, _Search(x, y, metric, box, device, threads))

    def blocks(
        self,
        radius: float,
        x: Any,
        y: Any = None,
        *,
        memory: int | str = "2 GB",
        metric: str = "euclidean",
        box: Any = None,
        device: str | None = None,
        threads: int | None = None,
    ) -> Iterator[tuple[slice, csr_array]]:
        """Find all neighbours within a radius, some rows at a time.

        Parameters
        ----------
        radius, x, y, metric, box, device, threads
            As for a call.
        memory : int or str, default "2 GB"
            Maximum size of a block in bytes, if it has several rows.

        Yields
        ------
        rows : slice
        block : csr_array
            The neighbours of these rows.

        Raises
        ------
        DataError, ParameterError, HostMemoryError, Interrupted
            As a call.

        Examples
        --------
        >>> from bmrm import pairs
        >>> for rows, block in pairs.within.blocks(1.0, [[0.0], [1.0], [3.0]], memory=48):
        ...     print(rows.start, rows.stop, block.nnz)
        0 2 2
        2 3 0
        """
        size = parse_memory_size(memory, "memory")
        assert size is not None
        search, limit = _Search(x, y, metric, box, device, threads), _read_radius(radius)
        where, counts = search.on_device(lambda where: (where, _counts(limit, search, where)))
        ends = np.cumsum(counts * NEIGHBOUR_BYTES + 8)
        return (
            (slice(first, last), _filled(limit, search, where, counts, first, last))
            for first, last in _rows_of_blocks(ends, size)
        )


within = Within()


def pays_to_list(a: Points, b: Points | None, reach: float) -> bool:
    """Return whether a function of two points on a CPU should visit a list of the pairs within a reach."""
    both = a if b is None else b
    known = 0 < a.shape[1] <= MAX_LISTED_AXES and a.group is None
    if not known or len(a) * len(both) < MIN_LISTED_PAIRS:
        return False
    (low, high), (other_low, other_high) = a.extents, both.extents
    sides = np.where(a.box > 0.0, a.box, np.maximum(high, other_high) - np.minimum(low, other_low))
    share = np.minimum(1.0, 2.0 * reach / np.maximum(sides, TINY)).prod()
    return bool(share <= MAX_LISTED_SHARE)


def list_near(a: Points, b: Points | None, reach: float) -> tuple[Indices, Indices] | None:
    """Return the points within a reach of each x, by index, and where those of each begin.

    None if they do not fit into memory.
    """
    try:
        found = within(reach, a, b, device="cpu")
        require_memory(8 * found.nnz, f"a list of {found.nnz} pairs")
    except HostMemoryError:
        return None
    return found.indices.astype(np.int64), found.indptr.astype(np.int64)


def _within(radius: Any, search: _Search) -> csr_array:
    limit = _read_radius(radius)

    def find(where: Neighbours) -> csr_array:
        counts = _counts(limit, search, where, must_fit=True)
        return _filled(limit, search, where, counts, 0, search.shape[0])

    return search.on_device(find)


def _read_radius(radius: Any) -> float:
    found = arguments.number("radius", radius)
    if not found >= 0.0:
        raise ParameterError(f"radius: found {found:g}, expected a number of at least 0")
    return found


@interruptible
def _counts(radius: float, search: _Search, where: Neighbours, *, must_fit: bool = False) -> Indices:
    """Count the neighbours of each row; if they must fit, only until they do not."""
    counts = np.zeros(search.shape[0], np.int64)
    free = available_bytes() if must_fit else None

    def count(native: NeighbourTasks, first: int, last: int) -> None:
        native.count(first, last, radius, counts, search.threads)
        needed = int(counts.sum()) * _bytes_each(search)
        if free is not None and needed > free:
            raise HostMemoryError(
                f"out of memory: needs at least {needed / 1e9:.4g} GB for {counts.sum()} or more neighbours, "
                f"{free / 1e9:.4g} GB are free; {BLOCKS}"
            )

    search.run(where, count, 0, search.shape[0])
    return counts


def _bytes_each(search: _Search) -> int:
    """Return the bytes of a neighbour: its distance and its index."""
    return 8 + np.dtype(index_type(search.shape[1])).itemsize


def _rows_of_blocks(ends: Indices, size: int) -> Iterator[tuple[int, int]]:
    """Yield the first and the last row of each block, as many as fit, from the sums of their bytes."""
    first = before = 0
    while first < len(ends):
        last = max(first + 1, int(np.searchsorted(ends, before + size, "right")))
        yield first, last
        first, before = last, int(ends[last - 1])


@interruptible
def _filled(
    radius: float, search: _Search, where: Neighbours, counts: Indices, first: int, last: int
) -> csr_array:
    """Return the neighbours of some rows, which were counted."""
    from scipy.sparse import csr_array

    starts = np.concatenate([[0], np.cumsum(counts[first:last])])
    total = int(starts[-1])
    require_memory(total * _bytes_each(search), f"{total} neighbours", BLOCKS)
    kind = index_type(max(total, *search.shape))
    distances, indices = np.empty(total), np.empty(total, kind)
    search.run(
        where,
        lambda native, *tasks: native.fill(*tasks, radius, starts, indices, distances, search.threads),
        first,
        last,
        radius,
    )
    found = csr_array((distances, indices, starts.astype(kind)), shape=(last - first, search.shape[1]))
    found.has_canonical_format = True
    return found
