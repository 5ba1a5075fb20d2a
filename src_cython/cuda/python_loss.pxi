"""Losses that the caller evaluates on the device: binding of ``src_cuda/api/python_loss.h``."""

from bmrm.base import _dlpack

OWN_LOSS = BB_PYTHON_LOSS

cdef size_t LEGACY_STREAM = 1  # number of the legacy default stream, also written as 0


cdef class LentArray:
    """One number per row on the device of a `Problem`, lent without a copy.

    Other libraries access it by ``__dlpack__`` or ``__cuda_array_interface__`` (version 3). It stays valid for
    as long as somebody holds it.

    Attributes
    ----------
    shape : tuple of int
        (m,)
    dtype : dtype
        float32 or float64.
    """

    cdef OwnLoss loss
    cdef object owner
    cdef size_t address
    cdef readonly object dtype

    @property
    def shape(self):
        return (self.loss.problem.matrix._m,)

    @property
    def __cuda_array_interface__(self):
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.address, False),
            "strides": None,
            "version": 3,
            "stream": self.loss.stream,
        }

    def __dlpack_device__(self):
        return _dlpack.CUDA, self.loss.problem.matrix._device

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        """Return the capsule of the array; work on ``stream`` waits for its numbers (Python protocol of DLPack)."""
        if copy:
            raise BufferError("copy: found True, expected to lend the array itself")
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError(f"dl_device: found {dl_device}, expected {self.__dlpack_device__()}")
        cdef size_t later = LEGACY_STREAM if not stream else <size_t>max(stream, 0)
        if stream is None or stream >= 0:  # -1: nobody needs to wait
            check(bb_own_lend(self.loss.problem.handle, <void*>later))
        return _dlpack.lend(
            self, self.address, self.loss.problem.matrix._m, self.dtype, self.__dlpack_device__())


cdef class OwnLoss:
    """The passes over the rows of a `Problem` whose loss the caller evaluates.

    Parameters
    ----------
    problem : Problem
        Made with the loss `OWN_LOSS`.
    """

    cdef readonly Problem problem
    cdef object __weakref__

    def __init__(self, Problem problem):
        self.problem = problem

    @property
    def stream(self):
        """Stream on which results are read, numbered as in DLPack and ``__cuda_array_interface__``."""
        return self.problem.matrix.stream or LEGACY_STREAM

    cdef LentArray _lend(self, owner, const void* address, dtype):
        cdef LentArray out = LentArray.__new__(LentArray)
        out.loss, out.owner, out.address, out.dtype = self, owner, <size_t>address, np.dtype(dtype)
        return out

    def labels(self):
        """Lend the labels, in the type of the margins if it represents them exactly, else float64."""
        cdef bb_rows found
        check(bb_own_labels(self.problem.handle, &found))
        return self._lend(self.problem, found.data, np.float32 if found.bytes == 4 else np.float64)

    def margins(self, Vector z, dz, double t, double b, bint keep):
        """Lend the margins ``z + t dz + b``, which may be overwritten; with ``keep`` return ``z + t dz`` as well."""
        cdef Problem problem = self.problem
        cdef Vector out = problem._take(BB_MARGINS)
        cdef Vector moved = problem._take(BB_MARGINS) if keep else None
        cdef void* target = moved.address if keep else NULL
        cdef void* start = problem._of(z, BB_MARGINS)
        cdef void* along = NULL if dz is None else problem._of(dz, BB_MARGINS)
        with nogil:
            check(bb_own_margins(problem.handle, start, along, t, b, target, out.address))
        return self._lend(out, out.address, problem.matrix._dtype), moved

    def borrow(self, size_t stream):
        """Let all later work wait for the work queued on a stream."""
        check(bb_own_borrow(self.problem.handle, <void*>stream))

    def slope(self, slopes, Vector dz):
        """Return the derivatives of the risk along dz and in the intercept, from those of the rows."""
        cdef bb_rows given = _rows(slopes)
        cdef void* along = self.problem._of(dz, BB_MARGINS)
        cdef double sums[2]
        with nogil:
            check(bb_own_slope(self.problem.handle, &given, along, sums))
        return sums[0], sums[1]

    def risk(self, values, slopes, int32_t which, const int64_t[::1] starts, double least):
        """Return sums of the rows' values and derivatives, and keep the latter as the first or second of two sets.

        Parameters
        ----------
        values, slopes : Rows
            ``slopes`` may be None.
        which : {0, 1}
        starts : ndarray of int64, shape (P + 1,)
            Bounds of the blocks of rows.
        least : float

        Returns
        -------
        ndarray of shape (P, 3)
            Per block: risk, sum of weighted derivatives, and number of values below ``least``.
        """
        cdef bb_rows given = _rows(values), derivatives
        cdef const bb_rows* wanted = NULL
        if slopes is not None:
            derivatives = _rows(slopes)
            wanted = &derivatives
        cdef int32_t blocks = starts.shape[0] - 1
        sums = np.empty((blocks, 3))
        cdef double* target = <double*>_address(sums)
        cdef const int64_t* at = &starts[0]
        with nogil:
            check(bb_own_risk(self.problem.handle, &given, wanted, which, at, blocks, least, target))
        return sums

    def get(self, rows):
        """Copy one number per row to the host."""
        cdef bb_rows given = _rows(rows)
        out = np.empty(self.problem.matrix._m)
        cdef double* target = <double*>_address(out)
        with nogil:
            check(bb_own_get(self.problem.handle, &given, target))
        return out


cdef bb_rows _rows(rows) except *:
    """Convert a `bmrm.base.foreign_arrays.DeviceRows`."""
    cdef bb_rows out
    out.data, out.stride, out.bytes = <const void*><size_t>rows.address, rows.stride, rows.itemsize
    return out
