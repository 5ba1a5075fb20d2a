"""Counts of pairs of points on the device: binding of ``src_cuda/api/pairs.h``."""

PAIR_KERNELS = ("float64", "brute", "cells")
"""Names of the kernels that count."""


@cython.no_gc_clear
cdef class PlacedPoints:
    """Points on a device, sorted along a curve; see `bmrm.pairs._pairs.PlacedPoints`.

    Parameters
    ----------
    coordinates : ndarray or array on the device, of float32 or float64, C-contiguous, shape (d, n)
        By axes; finite. On the device they are read in place.
    box : ndarray, shape (d,)
        Lengths of the axes; 0 for an open one.
    by_points : bool, default False
        Whether the shape of the coordinates is (n, d).
    device : int, default 0
    threads : int, optional
        Maximum number of threads of an upload.

    Raises
    ------
    DeviceMemoryError
        If there is not enough memory.
    """

    cdef bb_points* handle
    cdef readonly int64_t n
    cdef readonly int32_t axes

    def __cinit__(self, coordinates, box, *, bint by_points=False, device=0, threads=None):
        cdef int32_t number = _device(device)
        cdef bb_device info
        cdef bb_point_data data
        memset(&data, 0, sizeof(data))
        given = _array(coordinates, "coordinates")
        if given.ndim != 2 or given.dtype not in (np.float32, np.float64) or not given.shape[by_points]:
            raise ParameterError(f"coordinates: found shape {given.shape} of {given.dtype}, expected axes of floats")
        if isinstance(given, np.ndarray):
            given = np.require(given, requirements=("C", "A"))
        self.axes, self.n = reversed(given.shape) if by_points else given.shape
        box = _input(box, (self.axes,), "box")
        data.n, data.axes, data.type, data.at = self.n, self.axes, _type_of(given.dtype), _part(given, 0)
        data.point = self.axes if by_points else 1
        data.axis = 1 if by_points else self.n
        data.threads = _threads(threads)
        data.box = <const double*>_address(box)
        with nogil:
            check(bb_device_info(number, &info))
            check(bb_points_create(&info, &data, &self.handle))

    def __dealloc__(self):
        cdef bb_points* handle = self.handle
        self.handle = NULL
        if handle != NULL:
            with nogil:
                bb_points_destroy(handle)

    @property
    def bytes(self):
        """Device memory in use."""
        cdef int64_t found
        check(bb_points_used(self.handle, &found))
        return found

    @property
    def extents(self):
        """The least and the largest coordinate on each axis, 0 of no points."""
        low, high = np.empty(self.axes), np.empty(self.axes)
        check(bb_points_extents(self.handle, <double*>_address(low), <double*>_address(high)))
        return low, high


@cython.no_gc_clear
cdef class PairCounter:
    """Counts pairs by their squared distances; see `bmrm.pairs._pairs.PairCounter`.

    Parameters
    ----------
    a, b : PlacedPoints
        On one device, in the same box; b is None for the pairs of a.
    bounds : ndarray, shape (bins + 1,)
    kernel : str
        One of `PAIR_KERNELS`.
    images : {"nearest", "all"}
        Only "float64" counts all.

    Raises
    ------
    DeviceMemoryError
        If there is not enough memory.
    """

    cdef bb_pair_counter* handle
    cdef object _owners
    cdef int64_t _bins

    def __cinit__(self, PlacedPoints a not None, PlacedPoints b, bounds, str kernel, str images="nearest"):
        bounds = _input(bounds, (len(bounds),), "bounds")
        self._owners, self._bins = (a, b), len(bounds) - 1
        if self._bins < 1:
            raise ParameterError("bounds: expected at least 2")
        cdef int32_t how = PAIR_KERNELS.index(kernel), all_images = images == "all"
        cdef bb_points* other = NULL
        if b is not None:
            other = b.handle
        cdef const double* values = <const double*>_address(bounds)
        with nogil:
            check(bb_pair_counter_create(a.handle, other, values, self._bins, how, all_images, &self.handle))

    def __dealloc__(self):
        cdef bb_pair_counter* handle = self.handle
        self.handle = NULL
        if handle != NULL:
            with nogil:
                bb_pair_counter_destroy(handle)

    cdef bb_pair_work _work(self) except *:
        cdef bb_pair_work work
        with nogil:
            check(bb_pair_counter_work(self.handle, &work))
        return work

    @property
    def tasks(self):
        """Number of tasks, which depends on the points and bounds alone."""
        return self._work().tasks

    @property
    def candidates(self):
        """Number of pairs whose distance all tasks compute."""
        return self._work().candidates

    @property
    def bytes(self):
        """Device memory besides that of the points."""
        return self._work().bytes

    def count(self, int64_t first, int64_t last, threads=None):
        """Count the pairs of some tasks: counts, candidates, and those that were decided in float64."""
        counts = np.zeros(self._bins, np.int64)
        cdef int64_t* target = <int64_t*>_address(counts)
        cdef double candidates, rechecked
        with nogil:
            check(bb_pair_counter_count(self.handle, first, last, target, &candidates, &rechecked))
        return counts, candidates, rechecked
