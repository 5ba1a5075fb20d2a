"""Nearest neighbours of points, and all neighbours within a radius: exact.

Neighbours are ordered by their distance in float64 and then by their index. So results are the same for any
number of rows, of neighbours and of threads, and those of the first k are the first of more. The cosine
distance is half the squared distance of rows divided by their lengths: it keeps its digits where 1 minus a
product loses them. A row of zeros is at right angles to all others, and equal to other rows of zeros.

There are two ways, with the same results (``src_cython/pairs``): leaves, in float64, of a tree if there are
few axes; and products in float32, with a proven bound of their errors, whose candidates are decided in
float64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from bmrm.base import arguments
from bmrm.base.host_memory import available_bytes, require_memory
from bmrm.base.interrupts import check_signals, hold_signals, interruptible
from bmrm.base.suggestions import check_choice
from bmrm.base.vectors import Indices, Vector, index_type
from bmrm.errors import DataError, HostMemoryError, ParameterError
from bmrm.matrix.gpu.devices import parse_device
from bmrm.matrix.gpu.memory import parse_memory_size
from bmrm.matrix.gpu.work import threads_of
from bmrm.pairs._pairs import METRICS, NeighbourSearch
from bmrm.pairs.passes import task_ranges
from bmrm.pairs.points import Points, read_box, read_points, read_threads

if TYPE_CHECKING:
    from scipy.sparse import csr_array

SQUARES = ("euclidean", "sqeuclidean", "cosine")
"""Metrics that are made of squares."""

MAX_PRODUCT_POINTS = 2.0
"""Points up to which products leave out more than boxes do, over 4 to the power of the number of axes."""

MIN_PRODUCT_ROWS = 16
"""Rows from which products pay: a panel of them takes the time of 64."""

MAX_NEAR_SHARE = 1 / 64
"""Share of the pairs that are near up to which products pay: near pairs are decided one by one."""

SAMPLE_ROWS, SAMPLE_POINTS = 64, 512
"""What that share is estimated from."""

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
    """A checked call: whose neighbours are sought, and among which points."""

    def __init__(
        self, x: Any, y: Any, metric: str, box: Any, device: str | None, threads: int | None
    ) -> None:
        check_choice("metric", metric, METRICS)
        a, b, self._box = _sides(x, y, box, device, threads)
        if not a.shape[1]:
            raise DataError("x: found 0 columns, expected at least 1")
        if metric in ("cosine", "jaccard") and self._box.any():
            raise ParameterError(f"box: found with the metric {metric}, which has no periodic axes")
        if threads is None and isinstance(x, Points):
            threads = x.threads
        self.metric, self.threads = metric, threads_of(None if threads is None else read_threads(threads))
        self.is_one_set, self.shape = b is None, (len(a), len(a if b is None else b))
        self._rows, other = _measured(a, b, metric)
        self._points = self._rows if other is None else other
        self._box = np.resize(self._box, self._points.shape[1])

    @property
    def others(self) -> int:
        """Number of points that may be neighbours of a row."""
        return self.shape[1] - self.is_one_set

    def run(
        self,
        task: Callable[[NeighbourSearch, int, int], object],
        first: int,
        last: int,
        radius: float = 0.0,
    ) -> None:
        """Call ``task`` for ranges of all tasks of the search for the neighbours of some rows."""
        rows = self._rows if (first, last) == (0, self.shape[0]) else self._rows[first:last]
        search = NeighbourSearch(
            rows,
            self._points,
            self._box,
            self.metric,
            products=self._products_pay(len(rows), radius),
            own=first if self.is_one_set else -1,
        )
        with hold_signals():
            for begin, end in task_ranges([(0, search.tasks)], self.threads):
                task(search, begin, end)
        check_signals()

    def _products_pay(self, rows: int, radius: float) -> bool:
        points, axes = self._points.shape
        return (
            self.metric in SQUARES
            and not self._box.any()
            and rows >= MIN_PRODUCT_ROWS
            and points <= MAX_PRODUCT_POINTS * 4.0 ** min(axes, 500)
            and self._near_share(radius) <= MAX_NEAR_SHARE
        )

    def _near_share(self, radius: float) -> float:
        """Estimate the share of the pairs within a radius, from some of them."""
        if radius == 0.0:
            return 0.0
        some = self._rows[:: 1 + len(self._rows) // SAMPLE_ROWS]
        others = self._points[:: 1 + len(self._points) // SAMPLE_POINTS]
        reach = {"euclidean": radius * radius, "cosine": 2.0 * radius}.get(self.metric, radius)
        with np.errstate(over="ignore"):
            near = [(np.square(others - row).sum(axis=1) <= reach).mean() for row in some]
        return float(np.mean(near))


def _sides(
    x: Any, y: Any, box: Any, device: str | None, threads: int | None
) -> tuple[Vector, Vector | None, Vector]:
    """Return the coordinates of x and of y by rows, and the box."""
    if any(isinstance(each, Points) or arguments.is_on_device(each) for each in (x, y)):
        if box is not None:
            if isinstance(x, Points):
                raise ParameterError("box: found with Points, expected it as an argument of Points alone")
            x = Points(x, box=box)
        a, b = read_points(x, y, device, threads, None)
        if a.group is not None:
            raise ParameterError("comm: found points of several ranks, expected those of one process")
        _check_device(device or a.device)
        rows = [each.rows(np.float64, False).given for each in (a, b) if each is not None]
        return rows[0], None if b is None else rows[1], a.box
    _check_device("auto" if device is None else device)
    found = read_rows("x", x)
    if y is None:
        return found, None, read_box(box, found.shape[1])
    others = read_rows("y", y)
    if others.shape[1] != found.shape[1]:
        raise DataError(f"y: found {others.shape[1]} columns, expected {found.shape[1]} as in x")
    return found, others, read_box(box, found.shape[1])


def _check_device(device: str) -> None:
    parse_device(device)
    if device.startswith("cuda"):
        raise ParameterError(f"device: found {device}, expected auto or cpu: neighbours are found on the CPU")


def read_rows(what: str, given: Any) -> Vector:
    """Return finite rows in float64, in place if they are."""
    found = np.ascontiguousarray(arguments.matrix(what, given), np.float64)
    arguments.check_finite(what, found)
    return found


def _measured(x: Vector, y: Vector | None, metric: str) -> tuple[Vector, Vector | None]:
    """Return the rows that compiled code measures."""
    if metric == "jaccard":
        return (x != 0.0).astype(np.float64), None if y is None else (y != 0.0).astype(np.float64)
    if metric != "cosine":
        return x, y
    units = [_units(each) for each in (x, y) if each is not None]
    zeros = [~unit.any(axis=1) for unit in units]
    if any(zero.any() for zero in zeros):  # on an axis of their own
        units = [np.column_stack([unit, zero]) for unit, zero in zip(units, zeros, strict=True)]
    return units[0], None if y is None else units[1]


def _units(rows: Vector) -> Vector:
    """Return rows divided by their lengths."""
    _, powers = np.frexp(np.abs(rows).max(axis=1, initial=0.0))
    found: Vector = np.ldexp(rows, -powers[:, None])  # so that no square overflows
    squares = np.zeros(len(rows))
    for axis in found.T:
        squares += axis * axis
    found /= np.sqrt(np.where(squares > 0.0, squares, 1.0))[:, None]
    return found


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
    device : {"auto", "cpu"}, optional
        Neighbours are found on the CPU.
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
    HostMemoryError
        If the result does not fit into the memory that is free.
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
        whose = "the other points of x" if search.is_one_set else "the points of y"
        raise ParameterError(f"k: found {k}, expected at most {search.others}, {whose}")
    n = search.shape[0]
    require_memory(NEIGHBOUR_BYTES * n * k, f"{k} neighbours of {n} points")
    distances, indices = np.empty((n, k)), np.empty((n, k), np.int64)
    search.run(lambda native, *tasks: native.nearest(*tasks, distances, indices, search.threads), 0, n)
    return distances, indices


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
        search = _Search(x, y, metric, box, device, threads)
        counts = _counts(_read_radius(radius), search)
        ends = np.cumsum(counts * NEIGHBOUR_BYTES + 8)
        return (
            (slice(first, last), _filled(float(radius), search, counts, first, last))
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
    counts = _counts(_read_radius(radius), search, must_fit=True)
    return _filled(float(radius), search, counts, 0, search.shape[0])


def _read_radius(radius: Any) -> float:
    found = arguments.number("radius", radius)
    if not found >= 0.0:
        raise ParameterError(f"radius: found {found:g}, expected a number of at least 0")
    return found


@interruptible
def _counts(radius: float, search: _Search, *, must_fit: bool = False) -> Indices:
    """Count the neighbours of each row; if they must fit, only until they do not."""
    counts = np.zeros(search.shape[0], np.int64)
    free = available_bytes() if must_fit else None

    def count(native: NeighbourSearch, first: int, last: int) -> None:
        native.count(first, last, radius, counts, search.threads)
        needed = int(counts.sum()) * _bytes_each(search)
        if free is not None and needed > free:
            raise HostMemoryError(
                f"out of memory: needs at least {needed / 1e9:.4g} GB for {counts.sum()} or more neighbours, "
                f"{free / 1e9:.4g} GB are free; {BLOCKS}"
            )

    search.run(count, 0, search.shape[0], radius)
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
def _filled(radius: float, search: _Search, counts: Indices, first: int, last: int) -> csr_array:
    """Return the neighbours of some rows, which were counted."""
    from scipy.sparse import csr_array

    starts = np.concatenate([[0], np.cumsum(counts[first:last])])
    total = int(starts[-1])
    require_memory(total * _bytes_each(search), f"{total} neighbours", BLOCKS)
    kind = index_type(max(total, *search.shape))
    distances, indices = np.empty(total), np.empty(total, kind)
    search.run(
        lambda native, *tasks: native.fill(*tasks, radius, starts, indices, distances, search.threads),
        first,
        last,
        radius,
    )
    found = csr_array((distances, indices, starts.astype(kind)), shape=(last - first, search.shape[1]))
    found.has_canonical_format = True
    return found
