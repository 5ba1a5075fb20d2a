"""Sums of functions of the distance on the device: binding of ``src_cuda/api/densities.h``."""

def _shape_names():
    cdef int32_t number = 0
    while bb_shape_name(number) != NULL:
        yield bb_shape_name(number).decode()
        number += 1


DENSITY_SHAPES = tuple(_shape_names())
"""Functions of the distance that `DensitySums` sums."""


@cython.no_gc_clear
cdef class DensitySums:
    """Sums over points y of a function of their distance to points x; see `bmrm.pairs._pairs.DensitySums`.

    Nothing is left out, whatever the tolerance, and no order of the points matters.

    Parameters
    ----------
    y : ndarray, shape (d, m)
    weights : ndarray, shape (m,)
    light : bool
    device : int, default 0

    Raises
    ------
    DeviceMemoryError
        If there is not enough memory.
    """

    cdef bb_density* handle
    cdef int32_t axes

    def __cinit__(self, y, weights, *, bint light, device=0):
        cdef int32_t number = _device(device)
        cdef bb_device info
        cdef bb_density_points points
        y = _input(y, y.shape, "y")
        points.axes, points.m, points.light = y.shape[0], y.shape[1], light
        weights = _input(weights, (y.shape[1],), "weights")
        points.y, points.weights = <const double*>_address(y), <const double*>_address(weights)
        self.axes = points.axes
        with nogil:
            check(bb_device_info(number, &info))
            check(bb_density_create(&info, &points, &self.handle))

    def __dealloc__(self):
        cdef bb_density* handle = self.handle
        self.handle = NULL
        if handle != NULL:
            with nogil:
                bb_density_destroy(handle)

    fused = True
    """Sums in float32 round a product and its sum together."""

    cdef _read(self, x):
        return _input(x, (self.axes, x.shape[1]), "x")

    def nearest(self, x, threads=None):
        """Return the least squared distance of each x."""
        x = self._read(x)
        cdef int64_t n = x.shape[1]
        found = np.empty(n)
        cdef const double* values = <const double*>_address(x)
        cdef double* out = <double*>_address(found)
        with nogil:
            check(bb_density_nearest(self.handle, values, n, out))
        return found

    def sums(self, x, str shape, double scale, double end, offsets, double tolerance, threads=None):
        """Return sums in float64, the weights of terms that are not cut off, and zeros for what is left out."""
        cdef bb_smoothing smoothing
        x = self._read(x)
        cdef int64_t n = x.shape[1]
        smoothing.shape, smoothing.scale, smoothing.end = DENSITY_SHAPES.index(shape), scale, end
        smoothing.offsets = NULL
        if offsets is not None:
            offsets = _input(offsets, (n,), "offsets")
            smoothing.offsets = <const double*>_address(offsets)
        found = np.zeros((3, n))
        cdef const double* values = <const double*>_address(x)
        cdef double* out = <double*>_address(found)
        with nogil:
            check(bb_density_sums(self.handle, values, n, &smoothing, out, out + n))
        return found[0], found[1], found[2]

    def light_sums(self, x, double scale, double rate, double most, double tolerance, threads=None):
        """Return sums of "gaussian" in float32, their moments, and zeros for what is left out."""
        x = self._read(x)
        cdef int64_t n = x.shape[1]
        found = np.zeros((3, n))
        cdef const double* values = <const double*>_address(x)
        cdef double* out = <double*>_address(found)
        with nogil:
            check(bb_density_light_sums(self.handle, values, n, rate, most, out, out + n))
        return found[0], found[1], found[2]
