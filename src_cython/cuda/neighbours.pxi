"""Neighbours of rows on the device: binding of ``src_cuda/api/neighbours.h``."""

_METRICS = {
    "euclidean": BB_EUCLIDEAN,
    "sqeuclidean": BB_SQEUCLIDEAN,
    "cosine": BB_COSINE,
    "manhattan": BB_MANHATTAN,
    "chebyshev": BB_CHEBYSHEV,
}

NEIGHBOUR_METRICS = tuple(_METRICS)
"""Names of the distances that `NeighbourSearch` knows."""

cdef int64_t SEARCHED_ROWS = 4096  # of a task


@cython.no_gc_clear
cdef class NeighbourSearch:
    """Finds neighbours of rows on a device; see `bmrm.pairs._pairs.NeighbourSearch`.

    Parameters
    ----------
    rows, points : DenseRows
        On one device.
    box : ndarray, shape (d,)
    metric : str
        One of `NEIGHBOUR_METRICS`.
    first, last : int
        Whose neighbours are sought: rows first to last - 1.
    one_set : bool
        Whether the rows are the points, none of which is its own neighbour.
    device : int, default 0

    Raises
    ------
    DeviceMemoryError
        If there is not enough memory; so do its methods.
    """

    cdef bb_neighbours* handle
    cdef object _owners
    cdef int64_t _rows, _others

    def __cinit__(self, DenseRows rows not None, DenseRows points not None, box, str metric, int64_t first,
                  int64_t last, *, bint one_set, device=0):
        cdef int32_t number = _device(device)
        cdef bb_device info
        cdef bb_neighbour_sides sides
        if not 0 <= first <= last <= len(rows):
            raise ParameterError(f"rows: found {first} to {last}, expected some of {len(rows)}")
        box = _input(box, (points.shape[1],), "box")
        sides.rows, sides.points, sides.one_set = rows.handle, points.handle, one_set
        sides.first, sides.count = first, last - first
        sides.metric = _choice(metric, _METRICS, "metric")
        sides.box = <const double*>_address(box)
        self._owners = rows, points
        self._rows, self._others = last - first, len(points) - one_set
        with nogil:
            check(bb_device_info(number, &info))
            check(bb_neighbours_create(&info, &sides, &self.handle))

    def __dealloc__(self):
        cdef bb_neighbours* handle = self.handle
        self.handle = NULL
        if handle != NULL:
            with nogil:
                bb_neighbours_destroy(handle)

    @property
    def tasks(self):
        """Number of tasks, which together have each row once."""
        return (self._rows + SEARCHED_ROWS - 1) // SEARCHED_ROWS

    cdef (int64_t, int64_t) _rows_of(self, int64_t first, int64_t last) except *:
        if not 0 <= first <= last <= self.tasks:
            raise ParameterError(f"tasks: found {first} to {last}, expected some of {self.tasks}")
        return first * SEARCHED_ROWS, min(self._rows, last * SEARCHED_ROWS)

    def nearest(self, int64_t first, int64_t last, distances, indices, threads=None):
        """Find the nearest of the rows of some tasks, as many as the arrays have columns."""
        cdef int64_t k = distances.shape[1], begin, end
        begin, end = self._rows_of(first, last)
        if distances.shape[0] != self._rows or not 1 <= k <= self._others:
            raise ParameterError(f"distances: found shape {distances.shape}")
        _output(distances, (self._rows, k))
        cdef double* to = <double*>_address(distances)
        cdef int64_t* numbers = <int64_t*>_whole(indices, "indices", np.int64, (self._rows, k))
        with nogil:
            check(bb_neighbours_nearest(self.handle, k, begin, end, to, numbers))

    def count(self, int64_t first, int64_t last, double radius, counts, threads=None):
        """Count the neighbours within a radius of the rows of some tasks."""
        cdef int64_t begin, end
        begin, end = self._rows_of(first, last)
        cdef int64_t* to = <int64_t*>_whole(counts, "counts", np.int64, (self._rows,))
        with nogil:
            check(bb_neighbours_count(self.handle, radius, begin, end, to))

    def fill(self, int64_t first, int64_t last, double radius, starts, indices, distances, threads=None):
        """Write the neighbours that `count` has counted, in the order of their indices."""
        cdef int64_t n = len(distances), begin, end
        begin, end = self._rows_of(first, last)
        cdef const int64_t* where = _row_starts(starts, self._rows, n)
        _output(distances, (n,))
        cdef double* to = <double*>_address(distances)
        cdef int32_t narrow = indices.dtype == np.int32
        cdef void* numbers = _whole(indices, "indices", np.int32 if narrow else np.int64, (n,))
        with nogil:
            check(bb_neighbours_fill(self.handle, radius, begin, end, where, to, numbers, narrow))
