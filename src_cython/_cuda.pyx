"""The matrix resident on a GPU and its products: binding of the blackbox (``src_cuda/blackbox.h``).

Every call goes through `check`, and none holds the interpreter's lock while it works.  Importing the module
touches no driver; the first call that needs a device does.
"""

from typing import NamedTuple

from blackbox cimport *
from board cimport Board as CBoard
from joint cimport *
from own_loss cimport *
from ranks cimport *
from training cimport *
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset

import itertools
import math
import os

import numpy as np

from bmrm.errors import BmrmError, DataError, DeviceMemoryError, ParameterError
from bmrm.row_blocks import dense_blocks, sparse_blocks

cdef extern from "select.h" namespace "bmrm" nogil:
    cdef struct Cut:
        int64_t tile
        int32_t shared, gathered, by_count, index_bytes

    Cut cut_of(const bb_plan& plan, int64_t cols)


cdef int check(bb_status status, invalid=ParameterError) except -1:
    """Raise for a status other than BB_OK, with the text of the call that failed.

    BB_INVALID is `invalid`, unless the text says that it is a plan of the caller's that does not suit.
    """
    if status == BB_OK:
        return 0
    text = bb_last_error().decode("utf-8", "replace")
    if status == BB_INVALID:
        raise ParameterError(text) if text.startswith("plan:") else invalid(text)
    if status == BB_MEMORY:
        raise DeviceMemoryError(text)
    if status == BB_NO_DEVICE and "device='cpu'" not in text:
        text += "; use device='cpu'"
    raise BmrmError(text)


include "vectors.pxi"
include "cuda/arguments.pxi"
include "cuda/structures.pxi"
include "cuda/choice.pxi"
include "cuda/reference.pxi"

OPERATORS = {"normal": BB_NORMAL, "transposed": BB_TRANSPOSED}
TUNINGS = {"predict": BB_TUNE_PREDICT, "best": BB_TUNE_BEST, "all": BB_TUNE_ALL}
cdef int64_t CHUNK = 1 << 24  # nonzeros that go up at a time; what has to be converted is copied chunk by chunk
cdef int MOST_COLUMNS = 32  # of one product with several columns
cdef int MOST_CANDIDATES = 256


cdef class Matrix:
    """A sparse or dense matrix X (m, d) kept on a GPU for products with X and X^T.

    X and X^T are each stored in the format that suits it, found by statistics, prediction and trial. Vectors
    on the host are float64; on the device they and the sums are of the type of the values. Products are
    the same bit for bit from run to run on one device. A matrix may be used from several threads.

    Parameters
    ----------
    indptr : array_like of int64, shape (m + 1,)
        Row i has the entries ``indptr[i]`` to ``indptr[i + 1] - 1``.
    indices : array_like of int32 or int64, shape (nnz,)
        Column of each entry.
    data : array_like, shape (nnz,), or None
        Value of each entry: float32 or float64 (other real dtypes are converted to float64); None for ones.
    shape : tuple of int
        (m, d), each from 1 to 2**31 - 1.
    threads : int, optional
        CPU threads for the upload, and for what the caller does on the host; products need none. Default: the
        cores that this process may run on.
    transpose : bool or None, default None
        False keeps X alone: `rmatvec` and its kin are then errors.
    dtype : {float32, float64}, optional
        Type of values, vectors and sums on the device; default that of `data`, float32 for ones.
    device : int, default 0
    plan : Plan, str or pair of them, optional
        Kernels to use for X and for X^T, in place of the choice.
    tune : {"best", "predict", "all"}, default "best"
        Time the candidates that are predicted to be the best, none, or all of them.
    coding : bool, default True
        Look for values that are all 1 and for those with at most 256 distinct ones, which are then kept
        as one byte each; no result depends on it.
    memory_limit : int, optional
        Most bytes of device memory to take, with what is kept beside the matrix; default: what is free.
    spare : int, default 0
        Bytes of those to leave to what is kept beside the matrix: vectors and cuts.
    finite : bool, default False
        Refuse values that are not finite; the device looks.

    Notes
    -----
    A matrix that can be prepared only in parts is kept in blocks of rows. Those that find no room stay in pinned
    host memory, and each product copies what it reads of them to the device, a block ahead of the kernels. X^T r
    is added up over the blocks in their order, in float64, so that a product's bits depend on the blocks, and by
    them on the limit, but not on what lies where. `report` tells of them.

    `indptr`, `indices`, `data` and the array of `from_dense` may also be arrays on the device with
    ``__cuda_array_interface__``; the work that fills them must be complete. Arrays on the host go up in parts,
    so that one mapped from a file is never in memory as a whole.

    Raises
    ------
    DataError
        If the arrays do not describe a matrix of this shape, or a value is not `finite`.
    ParameterError
        If an argument is out of range.
    DeviceMemoryError
        If blocks of the matrix do not fit, or there is not enough pinned host memory for them.
    BmrmError
        If there is no such device, or it fails.

    Examples
    --------
    >>> import numpy as np
    >>> X = Matrix([0, 2, 3], [0, 2, 1], [1.0, 2.0, 3.0], (2, 3))
    >>> X.matvec(np.array([1.0, 1.0, 10.0]))
    array([21.,  3.])
    >>> X.rmatvec(np.array([1.0, 2.0]))
    array([1., 6., 2.])
    """

    cdef bb_matrix* handle
    cdef object _dtype, _n_threads, __weakref__
    cdef int64_t _m, _d, _nnz
    cdef int32_t _device
    cdef bint _dense, _transpose
    cdef bb_times _times

    def __init__(
        self,
        indptr,
        indices,
        data,
        shape,
        *,
        threads=None,
        transpose=None,
        dtype=None,
        device=0,
        plan=None,
        tune="best",
        coding=True,
        memory_limit=None,
        spare=0,
        finite=False,
    ):
        if self.handle != NULL:
            raise ParameterError("Matrix: initialised before")
        self._n_threads = _threads(threads)
        self._device = _device(device)
        self._m, self._d = _shape(shape)
        self._transpose = transpose is None or bool(transpose)
        cdef bb_options options = self._options(plan, tune, coding)
        options.finite = bool(finite)
        idx = _vector(indices, "indices")
        idx_type = _stored_type(idx, None, (np.int32, np.int64), "indices", "integers", "iu")
        ptr = _row_pointers(indptr, self._device, self._m, idx.shape[0])
        val = None if data is None else _vector(data, "data")
        dtype = _float_type(dtype)
        if val is None:
            self._dtype = np.dtype(np.float32) if dtype is None else dtype
        else:
            if val.shape != idx.shape:
                raise DataError(f"data: found shape {val.shape}, expected {idx.shape} as indices")
            self._dtype = _stored_type(
                val, dtype, (np.float32, np.float64), "data", "real numbers", "fiub")
        self._dtype = np.dtype(self._dtype)
        self._nnz = idx.shape[0]
        cdef int64_t limit = _memory_limit(memory_limit)
        cdef int64_t room = self._room(limit, spare)
        cdef bint ones = val is None
        cdef int32_t value_bytes = 0 if ones else self._dtype.itemsize
        starts = sparse_blocks(
            ptr, room,
            lambda rows, nnz: bb_prepare_bytes(rows, self._d, nnz, value_bytes, self._transpose))
        if starts.shape[0] > 2 and options.tuning == BB_TUNE_BEST:
            # What every product copies should be short, however fast the kernel is.
            if bb_format_bytes(self._m, self._d, self._nnz, value_bytes, self._transpose) > room:
                options.tuning = BB_TUNE_BUS
        try:
            self._create(options, limit, room)
            for first, last in itertools.pairwise(starts.tolist()):
                self._open(last - first, ptr[last] - ptr[first], ones)
                self._append_all(ptr, idx, idx_type, val, first, last)
            self._finish()
        except BaseException:
            self._destroy()
            raise

    @staticmethod
    def from_dense(array, *, threads=None, dtype=None, device=0, memory_limit=None, spare=0,
                   finite=False):
        """Dense matrix, row by row on the device; both products read the one copy.

        Parameters
        ----------
        array : array_like, shape (m, d)
            Values by rows; dtypes other than float32 and float64, and other layouts, are converted first.
        threads, dtype, device, memory_limit, spare, finite
            As for `Matrix`.

        Returns
        -------
        Matrix

        Raises
        ------
        DataError
            If `array` is not two-dimensional, not real or not finite.
        ParameterError
            If an argument is out of range.
        DeviceMemoryError
            If the matrix does not fit.
        BmrmError
            If there is no such device, or it fails.

        Examples
        --------
        >>> Matrix.from_dense([[1.0, 2.0], [3.0, 4.0]]).rmatvec([1.0, 1.0])
        array([4., 6.])
        """
        values = _array(array, "array")
        if values.ndim != 2:
            raise DataError(f"array: found {values.ndim} dimensions, expected 2")
        dtype = _stored_type(
            values, _float_type(dtype), (np.float32, np.float64), "array", "real numbers", "fiub")
        if not isinstance(values, _DeviceArray):
            values = np.require(values, dtype=dtype, requirements=("C", "A"))
        cdef Matrix self = Matrix.__new__(Matrix)
        self._n_threads = _threads(threads)
        self._device = _device(device)
        self._m, self._d = _shape(values.shape)
        self._nnz, self._dense, self._transpose = self._m * self._d, True, True
        self._dtype = np.dtype(dtype)
        cdef int64_t limit = _memory_limit(memory_limit)
        cdef int64_t room = self._room(limit, spare)
        cdef bb_options options
        memset(&options, 0, sizeof(options))
        options.transpose, options.finite = True, bool(finite)
        starts = dense_blocks(self._m, self._d * self._dtype.itemsize, room)
        self._create(options, limit, room)
        for first, last in itertools.pairwise(starts.tolist()):
            self._open_dense(last - first, values, first * self._d)
        self._finish()
        return self

    cdef bb_options _options(self, plan, tune, coding) except *:
        cdef bb_options options
        memset(&options, 0, sizeof(options))
        options.tuning = _choice(tune, TUNINGS, "tune")
        options.transpose, options.coding = self._transpose, bool(coding)
        if plan is not None:
            both = plan if isinstance(plan, (tuple, list)) and not isinstance(plan, Plan) else (plan, plan)
            if len(both) != 2:
                raise ParameterError(f"plan: found {len(both)} plans, expected one for X and one for X^T")
            options.forced = 1
            options.plan[0], options.plan[1] = _plan_from(both[0]), _plan_from(both[1])
        options.constants = _constants_from(constants(self._device))
        return options

    cdef int64_t _room(self, int64_t limit, spare) except -1:
        """Bytes of device memory that X may take."""
        cdef int64_t besides = _integer(spare, "spare", 0, 2**62), room = 0
        cdef bb_status status
        with nogil:
            status = bb_room(self._device, limit, besides, &room)
        check(status)
        return room

    cdef int _create(self, const bb_options& options, int64_t limit, int64_t room) except -1:
        cdef bb_type kind = BB_FLOAT32 if self._dtype == np.float32 else BB_FLOAT64
        cdef bb_options copy = options
        cdef int32_t threads = self._n_threads
        cdef bb_status status
        with nogil:
            status = bb_create(
                self._device, self._m, self._d, kind, &copy, limit, room, threads, &self.handle)
        return check(status, DataError)

    cdef int _open(self, int64_t rows, int64_t nnz, int32_t ones) except -1:
        """Begin a block of rows; the one before is prepared."""
        cdef bb_status status
        with nogil:
            status = bb_open(self.handle, rows, nnz, ones)
        return check(status, DataError)

    cdef int _open_dense(self, int64_t rows, values, int64_t start) except -1:
        cdef const void* source = _part(values, start)
        cdef bb_status status
        with nogil:
            status = bb_open_dense(self.handle, rows, source)
        return check(status, DataError)

    cdef int _append_all(self, ptr, idx, idx_type, val, int64_t start, int64_t last) except -1:
        """Send up the rows of a block, at most `CHUNK` nonzeros at a time unless a single row has more."""
        cdef const int64_t* offsets = <const int64_t*>_address(ptr)
        cdef const void* i
        cdef const void* v = NULL
        cdef int64_t stop, rows
        cdef int32_t index_bytes = np.dtype(idx_type).itemsize
        cdef bb_status status
        while start < last:
            stop = np.searchsorted(ptr, offsets[start] + CHUNK, side="right") - 1
            stop = min(max(stop, start + 1), last)
            idx_part, at = _slice(idx, offsets[start], offsets[stop], idx_type)
            i = _part(idx_part, at)
            if val is not None:
                val_part, at = _slice(val, offsets[start], offsets[stop], self._dtype)
                v = _part(val_part, at)
            rows = stop - start
            with nogil:
                status = bb_append(self.handle, rows, offsets + start, i, index_bytes, v)
            check(status, DataError)
            start = stop
        return 0

    cdef int _finish(self) except -1:
        cdef bb_status status
        with nogil:
            status = bb_finish(self.handle)
        return check(status, DataError)

    cdef void _destroy(self) noexcept:
        cdef bb_matrix* handle = self.handle
        self.handle = NULL
        if handle != NULL:
            with nogil:
                bb_destroy(handle)

    def __dealloc__(self):
        self._destroy()

    cdef bb_matrix* _get(self) except NULL:
        if self.handle == NULL:
            raise ParameterError("Matrix: not initialised")
        return self.handle

    @staticmethod
    def predict_format(m, d, nnz, value_bytes):
        """Bytes that the formats of a sparse matrix and its transpose come to where indices take two bytes.

        That is what a matrix too large for the device is kept in, there and in pinned host memory.

        Parameters
        ----------
        m, d, nnz, value_bytes : int
            As for `predict_bytes`.

        Returns
        -------
        int

        Examples
        --------
        >>> Matrix.predict_format(1000, 200, 10_000, 4)
        137100
        """
        m, d = _shape((m, d))
        return bb_format_bytes(m, d, nnz, value_bytes, True)

    @staticmethod
    def predict_bytes(m, d, nnz, value_bytes, *, transpose=None):
        """Bytes of device memory that a sparse matrix takes at most, with what its preparation needs.

        Parameters
        ----------
        m, d, nnz : int
            Rows, columns, stored entries.
        value_bytes : {0, 4, 8}
            Bytes of a value, 0 for implicit ones.
        transpose : bool or None, default None
            As for `Matrix`.

        Returns
        -------
        int

        Raises
        ------
        ParameterError
            If an argument is out of range.

        Examples
        --------
        >>> one, two = (Matrix.predict_bytes(1000, 200, 10_000, 4, transpose=t) for t in (False, True))
        >>> 80_000 < one < two
        True
        """
        m, d = _shape((m, d))
        if value_bytes not in (0, 4, 8) or not 0 <= nnz < 2**58:
            raise ParameterError(
                f"nnz {nnz!r}, value_bytes {value_bytes!r}: expected nnz >= 0 and 0, 4 or 8 bytes")
        return bb_predict_bytes(m, d, nnz, value_bytes, transpose is None or bool(transpose))

    # --- products of vectors on the host

    cdef int _apply(self, bb_operator op, x, out, int32_t columns) except -1:
        cdef bb_matrix* X = self._get()
        cdef const double* source = <const double*>_address(x)
        cdef double* target = <double*>_address(out)
        cdef bb_times times
        cdef bb_status status
        with nogil:
            status = bb_apply_host(X, op, source, target, columns, &times)
        check(status)
        self._times = times
        return 0

    def matvec(self, w, out=None):
        """Product X w.

        Parameters
        ----------
        w : ndarray of float64, shape (d,)
            Other dtypes and layouts are copied.
        out : ndarray of float64, shape (m,), optional
            Where to write, C-contiguous; a new array by default.

        Returns
        -------
        ndarray of float64, shape (m,)

        Raises
        ------
        ParameterError
            If a shape differs or `out` cannot be written in place.

        Examples
        --------
        >>> Matrix([0, 1], [1], None, (1, 2)).matvec([3.0, 4.0])
        array([4.])
        """
        out = _output(out, (self._m,))
        self._apply(BB_NORMAL, _input(w, (self._d,), "w"), out, 1)
        return out

    def rmatvec(self, r, out=None):
        """Product X^T r.

        Parameters
        ----------
        r : ndarray of float64, shape (m,)
            Other dtypes and layouts are copied.
        out : ndarray of float64, shape (d,), optional
            Where to write, C-contiguous; a new array by default.

        Returns
        -------
        ndarray of float64, shape (d,)

        Raises
        ------
        ParameterError
            If a shape differs or `out` cannot be written in place.

        Examples
        --------
        >>> Matrix([0, 1], [1], None, (1, 2)).rmatvec([3.0])
        array([0., 3.])
        """
        out = _output(out, (self._d,))
        self._apply(BB_TRANSPOSED, _input(r, (self._m,), "r"), out, 1)
        return out

    def rmatvec_blocks(self, r, starts, out=None):
        """Products of X^T and r over consecutive blocks of rows.

        Parameters
        ----------
        r : ndarray of float64, shape (m,)
            Other dtypes and layouts are copied.
        starts : array_like of int64, shape (P + 1,)
            Block p is the rows ``starts[p]`` to ``starts[p + 1] - 1``; ascending within 0 and m.
        out : ndarray of float64, shape (P, d), optional
            Where to write, C-contiguous; a new array by default.

        Returns
        -------
        ndarray of float64, shape (P, d)
            Row p is ``X[starts[p]:starts[p+1]].T @ r[starts[p]:starts[p+1]]``.

        Raises
        ------
        ParameterError
            If a shape differs, `starts` does not ascend or `out` cannot be written in place.

        Examples
        --------
        >>> Matrix.from_dense([[1.0], [2.0], [3.0]]).rmatvec_blocks([1.0, 1.0, 1.0], [0, 2, 3])
        array([[3.],
               [3.]])
        """
        cdef bb_matrix* X = self._get()
        r = _input(r, (self._m,), "r")
        cuts_array = np.require(starts, dtype=np.int64, requirements=("C", "A"))
        if cuts_array.ndim != 1 or not 1 <= cuts_array.shape[0] < 2**31:
            raise ParameterError(f"starts: found shape {cuts_array.shape}, expected (P + 1,)")
        cdef int32_t blocks = cuts_array.shape[0] - 1
        if cuts_array[0] < 0 or cuts_array[blocks] > self._m or (np.diff(cuts_array) < 0).any():
            raise ParameterError(f"starts: expected ascending row numbers within 0 and {self._m}")
        out = _output(out, (blocks, self._d))
        if blocks == 0:
            return out
        cdef const double* source = <const double*>_address(r)
        cdef const int64_t* cuts = <const int64_t*>_address(cuts_array)
        cdef double* target = <double*>_address(out)
        cdef bb_times times
        cdef bb_status status
        with nogil:
            status = bb_apply_blocks_host(X, source, cuts, blocks, target, &times)
        check(status)
        self._times = times
        return out

    def matmat(self, W, out=None):
        """Product X W for several columns, reading X once for up to 32 of them.

        Parameters
        ----------
        W : ndarray of float64, shape (d, K)
            Other dtypes and layouts are copied.
        out : ndarray of float64, shape (m, K), optional
            Where to write, C-contiguous; a new array by default.

        Returns
        -------
        ndarray of float64, shape (m, K)

        Raises
        ------
        ParameterError
            If a shape differs or `out` cannot be written in place.

        Examples
        --------
        >>> Matrix([0, 1], [1], None, (1, 2)).matmat([[0.0, 0.0], [3.0, 4.0]])
        array([[3., 4.]])
        """
        return self._apply_columns(BB_NORMAL, W, "W", self._d, self._m, out)

    def rmatmat(self, R, out=None):
        """Product X^T R for several columns, reading X^T once for up to 32 of them.

        Parameters
        ----------
        R : ndarray of float64, shape (m, K)
            Other dtypes and layouts are copied.
        out : ndarray of float64, shape (d, K), optional
            Where to write, C-contiguous; a new array by default.

        Returns
        -------
        ndarray of float64, shape (d, K)

        Raises
        ------
        ParameterError
            If a shape differs or `out` cannot be written in place.

        Examples
        --------
        >>> Matrix([0, 1], [1], None, (1, 2)).rmatmat([[3.0, 4.0]])
        array([[0., 0.],
               [3., 4.]])
        """
        return self._apply_columns(BB_TRANSPOSED, R, "R", self._m, self._d, out)

    cdef _apply_columns(self, bb_operator op, x, str name, int64_t rows_in, int64_t rows_out, out):
        x = _columns(x, rows_in, name)
        count = x.shape[1]
        out = _output(out, (rows_out, count))
        if 0 < count <= MOST_COLUMNS:
            self._apply(op, x, out, count)
            return out
        for start in range(0, count, MOST_COLUMNS):
            part = np.ascontiguousarray(x[:, start : start + MOST_COLUMNS])
            product = np.empty((rows_out, part.shape[1]))
            self._apply(op, part, product, part.shape[1])
            out[:, start : start + MOST_COLUMNS] = product
        return out

    @property
    def weighted_gram_work(self):
        """Infinite: no kernel makes X^T diag(s) X, so that the solver takes no Newton steps with a GPU."""
        return float("inf")

    def weighted_gram(self, s, out=None):
        """Raise; `weighted_gram_work` says never to ask."""
        raise NotImplementedError("there is no weighted_gram on a GPU")

    def build_transpose(self):
        """Do nothing: X^T is built with the matrix."""

    @property
    def last_times(self):
        """Milliseconds of the last product of vectors on the host, by part.

        Parts are ``convert_in``, ``upload``, ``product``, ``download`` and ``convert_out``.
        """
        return {
            "convert_in": self._times.convert_in,
            "upload": self._times.upload,
            "product": self._times.product,
            "download": self._times.download,
            "convert_out": self._times.convert_out,
        }

    # --- products of vectors on the device

    def apply(self, op, x, y, columns=1):
        """Product of vectors on the device, queued on the stream of the matrix.

        Parameters
        ----------
        op : {"normal", "transposed"}
            ``y = X x`` or ``y = X^T x``.
        x, y : objects with ``__cuda_array_interface__``
            C-contiguous, of the type `vector_dtype`; shape (d,) and (m,), or (d, K) and (m, K), for "normal".
        columns : int, default 1
            K, at most 32.

        Raises
        ------
        ParameterError
            If an array does not fit.
        BmrmError
            If the device fails, now or in earlier work.
        """
        cdef bb_matrix* X = self._get()
        cdef bb_operator which = <bb_operator>_choice(op, OPERATORS, "op")
        cdef int32_t K = <int32_t>_integer(columns, "columns", 1, MOST_COLUMNS)
        sizes = (self._d, self._m) if which == BB_NORMAL else (self._m, self._d)
        cdef const void* source = _device_memory(x, "x", self._dtype, sizes[0] * K, False)
        cdef void* target = _device_memory(y, "y", self._dtype, sizes[1] * K, True)
        cdef bb_status status
        with nogil:
            status = bb_apply(X, which, source, target, K)
        check(status)

    def apply_wide(self, op, x, y):
        """Product of float64 vectors on the device, queued on the stream of the matrix.

        A matrix of float32 converts them on the device; nothing crosses the bus.

        Parameters
        ----------
        op : {"normal", "transposed"}
            ``y = X x`` or ``y = X^T x``.
        x, y : objects with ``__cuda_array_interface__``
            C-contiguous, float64; shape (d,) and (m,) for "normal".

        Raises
        ------
        ParameterError
            If an array does not fit.
        BmrmError
            If the device fails, now or in earlier work.
        """
        cdef bb_matrix* X = self._get()
        cdef bb_operator which = <bb_operator>_choice(op, OPERATORS, "op")
        sizes = (self._d, self._m) if which == BB_NORMAL else (self._m, self._d)
        cdef const double* source = <const double*>_device_memory(x, "x", np.float64, sizes[0], False)
        cdef double* target = <double*>_device_memory(y, "y", np.float64, sizes[1], True)
        cdef bb_status status
        with nogil:
            status = bb_apply_wide(X, which, source, target)
        check(status)

    def fused(self, loss, w, labels, margins, gradient, risk, *, weights=None, parameter=0.0, scale=1.0):
        """Margins, risk and gradient in one read of X, queued on the stream of the matrix.

        ``margins = X w``, ``risk = scale sum_i s_i loss(margins_i, y_i)`` and its gradient in w.

        Parameters
        ----------
        loss : int
            Position in ``bmrm._losses.names()``.
        w : object with ``__cuda_array_interface__``, shape (d,)
        labels : object with ``__cuda_array_interface__``, float64, shape (m,)
        margins, gradient : objects with ``__cuda_array_interface__``, shapes (m,) and (d,)
            Where to write. These and `w` are of the type `vector_dtype`.
        risk : object with ``__cuda_array_interface__``, float64, one element
            Where to write.
        weights : object with ``__cuda_array_interface__``, float64, shape (m,), optional
        parameter : float, default 0.0
            The loss's parameter.
        scale : float, default 1.0

        Raises
        ------
        ParameterError
            If an array does not fit or the matrix cannot do it (`can_fuse`).
        BmrmError
            If the device fails, now or in earlier work.
        """
        cdef bb_matrix* X = self._get()
        cdef int32_t number = <int32_t>_integer(loss, "loss", 0, 2**31 - 1)
        cdef double of_loss = parameter, factor = scale
        cdef const void* p_w = _device_memory(w, "w", self._dtype, self._d, False)
        cdef const double* p_y = <const double*>_device_memory(labels, "labels", np.float64, self._m, False)
        cdef const double* p_s = NULL
        if weights is not None:
            p_s = <const double*>_device_memory(weights, "weights", np.float64, self._m, False)
        cdef void* p_z = _device_memory(margins, "margins", self._dtype, self._m, True)
        cdef void* p_g = _device_memory(gradient, "gradient", self._dtype, self._d, True)
        cdef double* p_risk = <double*>_device_memory(risk, "risk", np.float64, 1, True)
        cdef bb_status status
        with nogil:
            status = bb_fused(X, number, of_loss, factor, p_w, p_y, p_s, p_z, p_g, p_risk)
        check(status)

    @property
    def can_fuse(self):
        """Whether `fused` works: X is dense, or narrow enough to be kept for it."""
        cdef bb_matrix* X = self._get()
        cdef int32_t yes = 0
        cdef bb_status status
        with nogil:
            status = bb_can_fuse(X, &yes)
        check(status)
        return bool(yes)

    def synchronize(self):
        """Wait until all work that is queued on the stream of the matrix is done."""
        cdef bb_matrix* X = self._get()
        cdef bb_status status
        with nogil:
            status = bb_synchronize(X)
        check(status)

    @property
    def stream(self):
        """Stream on which the matrix works, as the number of its ``cudaStream_t``."""
        cdef bb_matrix* X = self._get()
        cdef void* found = NULL
        check(bb_get_stream(X, &found))
        return <size_t>found

    def use_stream(self, stream):
        """Work on a stream of the caller's from now on, to share it or to capture it in a graph.

        Parameters
        ----------
        stream : int
            A ``cudaStream_t``, which must outlive the matrix or its next `use_stream`.
        """
        cdef bb_matrix* X = self._get()
        cdef void* given = <void*><size_t>stream
        cdef bb_status status
        with nogil:
            status = bb_set_stream(X, given)
        check(status)

    def time(self, op, columns=1, repeats=20):
        """Seconds of a product of vectors on the device, without what a call costs.

        Parameters
        ----------
        op : {"normal", "transposed"}
        columns : int, default 1
        repeats : int, default 20
            Products between the two events; they are replayed as one graph.

        Returns
        -------
        float
        """
        cdef bb_matrix* X = self._get()
        cdef bb_operator which = <bb_operator>_choice(op, OPERATORS, "op")
        cdef int32_t K = <int32_t>_integer(columns, "columns", 1, MOST_COLUMNS)
        cdef int32_t count = <int32_t>_integer(repeats, "repeats", 1, 1_000_000)
        cdef double seconds = 0.0
        cdef bb_status status
        with nogil:
            status = bb_time(X, which, K, count, &seconds)
        check(status)
        return seconds

    def problem(self, loss, parameter, labels, weights, scale, constant, in_rows):
        """Return a `Problem` on this matrix; the arguments are its."""
        return Problem(self, loss, parameter, labels, weights, scale, constant, in_rows)

    # --- what it is

    @property
    def shape(self):
        """Rows and columns, (m, d)."""
        return self._m, self._d

    @property
    def nnz(self):
        """Stored entries; m * d when dense."""
        return self._nnz

    @property
    def dtype(self):
        """Data type of the values, None for implicit ones."""
        return None if self.coding == "ones" else self._dtype

    @property
    def vector_dtype(self):
        """Data type of vectors and sums on the device."""
        return self._dtype

    @property
    def threads(self):
        """CPU threads for what the caller does on the host."""
        return self._n_threads

    @property
    def device(self):
        """Number of the device."""
        return self._device

    cdef bb_info _info(self) except *:
        cdef bb_matrix* X = self._get()
        cdef bb_info info
        check(bb_get_info(X, &info))
        return info

    @property
    def nbytes(self):
        """Bytes of device memory held, with those of the problems on it."""
        return self._info().device_bytes

    @property
    def host_bytes(self):
        """Bytes of pinned host memory from which blocks of rows stream."""
        return self._info().host_bytes

    @property
    def bytes_left(self):
        """Bytes of device memory that problems on it may still take: of `memory_limit`, or what is free."""
        return self._info().left_bytes

    @property
    def coding(self):
        """How values are kept: "plain", "ones" or "dictionary"; "plain" where blocks of rows differ."""
        return CODINGS[self._info().coding]

    @property
    def index_bytes(self):
        """Bytes of a column index of X as it is stored: 1, 2 or 4; 0 when dense."""
        if self._dense:
            return 0
        cdef bb_candidate chosen
        self._candidates(BB_NORMAL, &chosen)
        if chosen.plan.kernel in (BB_SUBWARP, BB_SPLIT):
            return 4
        cdef Cut cut = cut_of(chosen.plan, self._d)
        return cut.index_bytes if cut.shared else 4

    @property
    def has_transpose(self):
        """Whether X^T is there; a dense matrix needs none."""
        return self._transpose and not self._dense

    cdef _candidates(self, bb_operator op, bb_candidate* chosen):
        """List of the candidates of an operator, and the position of the one that is used."""
        cdef bb_matrix* X = self._get()
        cdef bb_candidate found[256]
        cdef int32_t count = 0, position = 0
        check(bb_get_candidates(X, op, found, MOST_CANDIDATES, &count, &position))
        if chosen != NULL:
            chosen[0] = found[position]
        listed = [
            {
                "plan": _plan_to(found[k].plan)._asdict(),
                "predicted": found[k].predicted,
                "measured": found[k].measured,
                "bytes": found[k].bytes,
            }
            for k in range(min(count, MOST_CANDIDATES))
        ]
        return listed, position

    cdef dict _operator_report(self, bb_operator op):
        cdef bb_stats stats
        check(bb_get_stats(self._get(), op, &stats))
        listed, position = self._candidates(op, NULL)
        return {"statistics": _stats_to(&stats), "candidates": listed, "chosen": position}

    cdef list _blocks(self, int32_t count):
        """Dictionaries of the blocks of rows."""
        cdef vector[bb_block] found
        found.resize(count)
        check(bb_get_blocks(self._get(), found.data(), count))
        return [_block_to(&found[k], self._transpose) for k in range(count)]

    def report(self):
        """What is known of the matrix, and how its kernels were chosen.

        Returns
        -------
        dict
            ``shape``, ``nnz``, ``dtype`` (of the vectors), ``coding``, ``bytes`` (of device memory), ``peak_bytes``
            (most that were held at a time), ``host_bytes`` (pinned), ``prepare_seconds``, ``device`` (as
            `device_info` gives it), ``constants``, ``blocks``, and for ``normal`` and ``transposed`` (None where X^T is
            not kept) ``statistics``, ``candidates`` and ``chosen``, the position of the one in use. A candidate has
            its ``plan``, ``predicted`` and ``measured`` seconds (0: not timed) and ``bytes`` that a product reads of
            its format (0: not built). Of several blocks of rows these are the first's, whose plans the others follow
            where they suit; each of ``blocks`` has ``first`` (row), ``rows``, ``nnz``, ``bytes`` of its formats,
            ``copied`` (by product, what each copies of it from host memory; 0 where it stays on the device), and
            the plans ``normal`` and ``transposed``.
        """
        cdef bb_info info = self._info()
        return {
            "shape": self.shape,
            "nnz": self._nnz,
            "dtype": self._dtype.name,
            "coding": CODINGS[info.coding],
            "bytes": info.device_bytes,
            "peak_bytes": info.peak_bytes,
            "host_bytes": info.host_bytes,
            "prepare_seconds": info.prepare_seconds,
            "device": device_info(self._device),
            "constants": constants(self._device),
            "blocks": self._blocks(info.blocks),
            "normal": self._operator_report(BB_NORMAL),
            "transposed": self._operator_report(BB_TRANSPOSED) if self._transpose else None,
        }

    def explain(self):
        """Return the report as text: statistics, candidates with prediction and time, and the pick.

        Returns
        -------
        str
        """
        from bmrm.explain import explain

        return explain(self.report())


include "cuda/ranks.pxi"
include "cuda/training.pxi"
include "cuda/own_loss.pxi"
include "cuda/joint.pxi"
