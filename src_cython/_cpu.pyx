"""The matrix resident in main memory and its products, with OpenMP (C++ in ``cpu/``)."""

from libc.stdint cimport int64_t
from libc.string cimport memcpy
from libcpp cimport bool as cbool
from libcpp.memory cimport unique_ptr

from board cimport Board as CBoard

import numpy as np

from bmrm.errors import DataError, ParameterError


cdef extern from "omp.h" nogil:
    int omp_get_max_threads()


cdef extern from "cpu/build.h" namespace "bmrm" nogil:
    cdef enum class TransposePolicy:
        never
        automatic
        always

    cdef cppclass CMatrix "bmrm::Matrix":
        void matvec(const double*, double*) except +
        void rmatvec_blocks(const double*, const int64_t*, int64_t, double*) except +
        void matmat(const double*, int64_t, double*) except +
        void rmatmat(const double*, int64_t, double*) except +
        void rmatmat_blocks(const double*, int64_t, const int64_t*, int64_t, double*) except +
        void weighted_gram(const double*, double*) except +
        double weighted_gram_work()
        void build_transpose() except +
        int64_t bytes()
        cbool has_transpose()
        int index_bytes()
        cbool ones()

    unique_ptr[CMatrix] make_sparse(const int64_t*, const void*, int, const void*, int,
                                    int64_t, int64_t, int64_t, int, TransposePolicy) except +
    unique_ptr[CMatrix] make_dense(const void*, int, int64_t, int64_t, int) except +
    int64_t predict_sparse_bytes(int64_t, int64_t, int64_t, int64_t, TransposePolicy)
    const char* isa_name()


cdef extern from "cpu/bundle_products.h" namespace "bmrm" nogil:
    void c_gram "bmrm::gram"(
        const double*, int64_t, const double*, int64_t, int64_t, int, double*) except +
    void c_combine "bmrm::combine"(
        const double*, int64_t, int64_t, const double*, int, double*) except +


def instruction_set():
    """Instruction set that the kernels run with.

    The environment variable ``BMRM_CPU_ISA`` may name a lower one than the processor offers; it
    is read once, at the first use.

    Returns
    -------
    str
        ``"avx512"``, ``"avx2"`` or ``"baseline"``.

    Examples
    --------
    >>> instruction_set() in ("avx512", "avx2", "baseline")
    True
    """
    return isa_name().decode()


cdef int _threads(threads) except -1:
    """Number of threads asked for, OpenMP's default for None."""
    if threads is None:
        return omp_get_max_threads()
    if isinstance(threads, bool) or not isinstance(threads, (int, np.integer)) or not 1 <= threads <= 4096:
        raise ParameterError(f"threads: found {threads!r}, expected an integer from 1 to 4096 or None")
    return threads


cdef TransposePolicy _policy(transpose) noexcept:
    """The C++ name of an argument `transpose`."""
    if transpose is None:
        return TransposePolicy.automatic
    return TransposePolicy.always if transpose else TransposePolicy.never


include "vectors.pxi"
include "board.pxi"


cdef _integers(value, str name, bint narrow):
    """`value` as a one-dimensional int64 array, or int32 when it is that and `narrow` allows it."""
    array = np.asarray(value)
    if array.ndim != 1:
        raise DataError(f"{name}: found {array.ndim} dimensions, expected 1")
    if array.dtype.kind not in "iu" and array.size:
        raise DataError(f"{name}: found dtype {array.dtype}, expected integers")
    if array.dtype == np.uint64 and array.size and array.max() > np.iinfo(np.int64).max:
        raise DataError(f"{name}: found {array.max()}, more than int64 holds")
    dtype = np.int32 if narrow and array.dtype == np.int32 else np.int64
    return np.require(array, dtype=dtype, requirements=("C", "A"))


cdef _values(value, str name):
    """`value` as float32 when it is that, else as float64; complex and text are refused."""
    array = np.asarray(value)
    if array.dtype.kind not in "fiub":
        raise DataError(f"{name}: found dtype {array.dtype}, expected real numbers")
    dtype = np.float32 if array.dtype == np.float32 else np.float64
    return np.require(array, dtype=dtype, requirements=("C", "A"))


cdef tuple _shape(shape):
    """`shape` as two ints, m >= 0 and 0 <= d <= 2**32."""
    try:
        m, d = (int(n) for n in shape)
    except (TypeError, ValueError):
        raise ParameterError(f"shape: found {shape!r}, expected two integers") from None
    if not (0 <= m < 2**62 and 0 <= d <= 2**32):
        raise ParameterError(f"shape: found {(m, d)}, expected m >= 0 and d from 0 to 2**32")
    return m, d


cdef _starts(value, int64_t rows):
    """`value` as the bounds of consecutive blocks of so many rows."""
    starts = _integers(value, "starts", False)
    if not len(starts) or starts[0] < 0 or starts[len(starts) - 1] > rows or (np.diff(starts) < 0).any():
        raise ParameterError(f"starts: expected ascending row numbers within 0 and {rows}")
    return starts


cdef class Matrix:
    """A sparse or dense matrix X (m, d) kept in main memory for products with X and X^T.

    Column indices are copied into the smallest unsigned type that holds ``d - 1``; row pointers and
    values are shared with the caller's arrays where these are contiguous and aligned (int64; float32 or
    float64), and must then not change. Values that are all 1 are dropped. Sums are accumulated in
    float64 in an order that depends on the matrix and the call alone: results are the same bit
    for bit from run to run and for any number of threads.

    Parameters
    ----------
    indptr : array_like of int64, shape (m + 1,)
        Row i has the entries ``indptr[i]`` to ``indptr[i + 1] - 1``.
    indices : array_like of int32 or int64, shape (nnz,)
        Column of each entry.
    data : array_like, shape (nnz,), or None
        Value of each entry: float32 or float64 (other real dtypes are converted to float64); None for ones.
    shape : tuple of int
        (m, d); d at most 2**32.
    threads : int, optional
        Threads that a product may use; small products use fewer. Default: OpenMP's, that is the cores
        that this process may run on, or ``OMP_NUM_THREADS``.
    transpose : bool or None, default None
        How X^T r is computed: True from a copy of X^T, which is built when first needed; False
        by adding up rows of X, which needs no further memory; None by whichever of the two suits the shape.
        In every case a vector r of which most entries are zero is taken by the rows of X.

    Raises
    ------
    DataError
        If the arrays do not describe a matrix of this shape.
    ParameterError
        If `shape` or `threads` is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> X = Matrix([0, 2, 3], [0, 2, 1], [1.0, 2.0, 3.0], (2, 3))
    >>> X.matvec(np.array([1.0, 1.0, 10.0]))
    array([21.,  3.])
    >>> X.rmatvec(np.array([1.0, 2.0]))
    array([1., 6., 2.])
    """

    cdef unique_ptr[CMatrix] impl
    cdef object _owners, _dtype
    cdef int64_t _m, _d, _nnz
    cdef int _n_threads

    def __init__(self, indptr, indices, data, shape, *, threads=None, transpose=None):
        cdef int n_threads = _threads(threads)
        m, d = _shape(shape)
        ptr = _integers(indptr, "indptr", False)
        idx = _integers(indices, "indices", True)
        if ptr.shape[0] != m + 1:
            raise DataError(f"indptr: found {ptr.shape[0]} entries, expected {m + 1} for {m} rows")
        val = None if data is None else _values(data, "data")
        if val is not None and val.shape != idx.shape:
            raise DataError(f"data: found shape {val.shape}, expected {idx.shape} as indices")
        cdef TransposePolicy policy = _policy(transpose)
        cdef const int64_t* p = <const int64_t*>_address(ptr)
        cdef const void* i = _address(idx)
        cdef const void* v = NULL if val is None else _address(val)
        cdef int idx_bytes = idx.itemsize, value_bytes = 0 if val is None else val.itemsize
        cdef int64_t rows = m, columns = d, nnz = idx.shape[0]
        try:
            with nogil:
                self.impl = make_sparse(
                    p, i, idx_bytes, v, value_bytes, rows, columns, nnz, n_threads, policy)
        except RuntimeError as error:
            raise DataError(str(error)) from None
        ones = self.impl.get().ones()
        self._owners = (ptr, None if ones else val)
        self._dtype = None if ones else val.dtype
        self._m, self._d, self._nnz, self._n_threads = m, d, idx.shape[0], n_threads

    @staticmethod
    def from_dense(array, *, threads=None):
        """Dense matrix, shared with the caller where it is C-contiguous float32 or float64.

        Parameters
        ----------
        array : array_like, shape (m, d)
            Values by rows; other dtypes and layouts are copied.
        threads : int, optional
            As for `Matrix`.

        Returns
        -------
        Matrix

        Raises
        ------
        DataError
            If `array` is not two-dimensional or not real.
        ParameterError
            If `threads` is out of range.

        Examples
        --------
        >>> Matrix.from_dense([[1.0, 2.0], [3.0, 4.0]]).rmatvec([1.0, 1.0])
        array([4., 6.])
        """
        values = _values(array, "array")
        if values.ndim != 2:
            raise DataError(f"array: found {values.ndim} dimensions, expected 2")
        cdef Matrix self = Matrix.__new__(Matrix)
        self._n_threads = _threads(threads)
        self._m, self._d, self._nnz = values.shape[0], values.shape[1], values.size
        self._owners, self._dtype = values, values.dtype
        self.impl = make_dense(_address(values), values.itemsize, self._m, self._d, self._n_threads)
        return self

    @staticmethod
    def predict_bytes(m, d, nnz, value_bytes, *, transpose=None):
        """Bytes that a sparse matrix takes at most, the shared arrays of the caller included.

        Parameters
        ----------
        m, d, nnz : int
            Rows, columns, stored entries.
        value_bytes : {0, 4, 8}
            Bytes of a value, 0 for implicit ones.
        transpose : bool or None, default None
            As for `Matrix`: count X^T, do not, or do where the shape gets one by itself.

        Returns
        -------
        int

        Raises
        ------
        ParameterError
            If an argument is out of range.

        Examples
        --------
        >>> Matrix.predict_bytes(1000, 200, 10_000, 4, transpose=False)
        58328
        >>> Matrix.predict_bytes(1000, 200, 10_000, 4, transpose=True)
        120576
        """
        m, d = _shape((m, d))
        if value_bytes not in (0, 4, 8) or not 0 <= nnz < 2**58:
            raise ParameterError(
                f"nnz {nnz!r}, value_bytes {value_bytes!r}: expected nnz >= 0 and 0, 4 or 8 bytes")
        return predict_sparse_bytes(m, d, nnz, value_bytes, _policy(transpose))

    cdef CMatrix* _get(self) except NULL:
        if self.impl.get() == NULL:
            raise ParameterError("Matrix: not initialised")
        return self.impl.get()

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
        cdef CMatrix* X = self._get()
        w = _input(w, (self._d,), "w")
        out = _output(out, (self._m,))
        cdef const double* source = <const double*>_address(w)
        cdef double* target = <double*>_address(out)
        with nogil:
            X.matvec(source, target)
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
        self.rmatvec_blocks(r, np.array([0, self._m]), out.reshape(1, self._d))
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
        cdef CMatrix* X = self._get()
        r = _input(r, (self._m,), "r")
        starts = _starts(starts, self._m)
        cdef int64_t blocks = starts.shape[0] - 1
        out = _output(out, (blocks, self._d))
        if blocks == 0:
            return out
        cdef const double* source = <const double*>_address(r)
        cdef const int64_t* cuts = <const int64_t*>_address(starts)
        cdef double* target = <double*>_address(out)
        with nogil:
            X.rmatvec_blocks(source, cuts, blocks, target)
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
        >>> Matrix([0, 1], [1], None, (1, 2)).matmat([[3.0, 4.0], [5.0, 6.0]])
        array([[5., 6.]])
        """
        cdef CMatrix* X = self._get()
        W = _columns(W, self._d, "W")
        cdef int64_t K = W.shape[1]
        out = _output(out, (self._m, K))
        cdef const double* source = <const double*>_address(W)
        cdef double* target = <double*>_address(out)
        with nogil:
            X.matmat(source, K, target)
        return out

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
        cdef CMatrix* X = self._get()
        R = _columns(R, self._m, "R")
        cdef int64_t K = R.shape[1]
        out = _output(out, (self._d, K))
        cdef const double* source = <const double*>_address(R)
        cdef double* target = <double*>_address(out)
        with nogil:
            X.rmatmat(source, K, target)
        return out

    def rmatmat_blocks(self, R, starts, out=None):
        """Products of X^T and the columns of R over consecutive blocks of rows.

        Parameters
        ----------
        R : ndarray of float64, shape (m, K)
            Other dtypes and layouts are copied.
        starts : array_like of int64, shape (P + 1,)
            Block p is the rows ``starts[p]`` to ``starts[p + 1] - 1``; ascending within 0 and m.
        out : ndarray of float64, shape (P, d, K), optional
            Where to write, C-contiguous; a new array by default.

        Returns
        -------
        ndarray of float64, shape (P, d, K)
            ``out[p]`` is ``X[starts[p]:starts[p+1]].T @ R[starts[p]:starts[p+1]]``.

        Raises
        ------
        ParameterError
            If a shape differs, `starts` does not ascend or `out` cannot be written in place.

        Examples
        --------
        >>> Matrix.from_dense([[1.0], [2.0]]).rmatmat_blocks([[1.0, 3.0], [1.0, 4.0]], [0, 1, 2]).tolist()
        [[[1.0, 3.0]], [[2.0, 8.0]]]
        """
        cdef CMatrix* X = self._get()
        R = _columns(R, self._m, "R")
        starts = _starts(starts, self._m)
        cdef int64_t K = R.shape[1], blocks = starts.shape[0] - 1
        out = _output(out, (blocks, self._d, K))
        if blocks == 0:
            return out
        cdef const double* source = <const double*>_address(R)
        cdef const int64_t* cuts = <const int64_t*>_address(starts)
        cdef double* target = <double*>_address(out)
        with nogil:
            X.rmatmat_blocks(source, K, cuts, blocks, target)
        return out

    def weighted_gram(self, s, out=None):
        """Product ``X^T diag(s) X``, the Hessian of a risk whose rows have the second derivatives s.

        Parameters
        ----------
        s : ndarray of float64, shape (m,)
            Other dtypes and layouts are copied. Rows with 0 are left out.
        out : ndarray of float64, shape (d, d), optional
            Where to write, C-contiguous; a new array by default.

        Returns
        -------
        ndarray of float64, shape (d, d)
            Symmetric bit for bit.

        Raises
        ------
        ParameterError
            If a shape differs or `out` cannot be written in place.

        Examples
        --------
        >>> Matrix([0, 2, 3], [0, 1, 1], [1.0, 2.0, 3.0], (2, 2)).weighted_gram([1.0, 10.0])
        array([[ 1.,  2.],
               [ 2., 94.]])
        """
        cdef CMatrix* X = self._get()
        s = _input(s, (self._m,), "s")
        out = _output(out, (self._d, self._d))
        cdef const double* source = <const double*>_address(s)
        cdef double* target = <double*>_address(out)
        with nogil:
            X.weighted_gram(source, target)
        return out

    @property
    def weighted_gram_work(self):
        """What `weighted_gram` costs, in scalar multiply-adds."""
        return self._get().weighted_gram_work()

    def build_transpose(self):
        """Build X^T now rather than at the first product that reads it; no effect when dense.

        Examples
        --------
        >>> X = Matrix([0, 1], [1], None, (1, 2))
        >>> X.build_transpose()
        >>> X.has_transpose
        True
        """
        cdef CMatrix* X = self._get()
        with nogil:
            X.build_transpose()

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
        return self._dtype

    @property
    def threads(self):
        """Threads that a product may use."""
        return self._n_threads

    @property
    def nbytes(self):
        """Bytes held now, with the caller's arrays that are shared, and X^T where it has been built."""
        return self._get().bytes()

    @property
    def index_bytes(self):
        """Bytes of a column index: 1, 2 or 4; 0 when dense."""
        return self._get().index_bytes()

    @property
    def has_transpose(self):
        """Whether X^T has been built."""
        return self._get().has_transpose()


def gram(A_old, A_new, out=None, *, threads=None):
    """Products of all pairs of rows, ``A_old @ A_new.T``, summed in a fixed order.

    Parameters
    ----------
    A_old : ndarray of float64, shape (n, d)
        Other dtypes and layouts are copied.
    A_new : ndarray of float64, shape (P, d)
        Likewise.
    out : ndarray of float64, shape (n, P), optional
        Where to write, C-contiguous; a new array by default.
    threads : int, optional
        Threads to use at most; the result does not depend on it.

    Returns
    -------
    ndarray of float64, shape (n, P)

    Raises
    ------
    ParameterError
        If the shapes disagree or `out` cannot be written in place.

    Examples
    --------
    >>> gram([[1.0, 2.0], [0.0, 1.0]], [[3.0, 4.0]])
    array([[11.],
           [ 4.]])
    """
    cdef int n_threads = _threads(threads)
    A_old = np.require(A_old, dtype=np.float64, requirements=("C", "A"))
    A_new = np.require(A_new, dtype=np.float64, requirements=("C", "A"))
    if A_old.ndim != 2 or A_new.ndim != 2 or A_old.shape[1] != A_new.shape[1]:
        raise ParameterError(
            f"gram: found shapes {A_old.shape} and {A_new.shape}, expected (n, d) and (P, d)")
    cdef int64_t n = A_old.shape[0], d = A_old.shape[1], P = A_new.shape[0]
    out = _output(out, (n, P))
    cdef const double* a = <const double*>_address(A_old)
    cdef const double* b = <const double*>_address(A_new)
    cdef double* target = <double*>_address(out)
    with nogil:
        c_gram(a, n, b, P, d, n_threads, target)
    return out


def combine(A, coef, out=None, *, threads=None):
    """Combination of rows, ``coef @ A``, leaving out the rows with coefficient 0.

    Parameters
    ----------
    A : ndarray of float64, shape (n, d)
        Other dtypes and layouts are copied.
    coef : ndarray of float64, shape (n,)
        Likewise.
    out : ndarray of float64, shape (d,), optional
        Where to write, C-contiguous; a new array by default.
    threads : int, optional
        Threads to use at most; the result does not depend on it.

    Returns
    -------
    ndarray of float64, shape (d,)

    Raises
    ------
    ParameterError
        If the shapes disagree or `out` cannot be written in place.

    Examples
    --------
    >>> combine([[1.0, 2.0], [0.0, 1.0]], [2.0, 0.0])
    array([2., 4.])
    """
    cdef int n_threads = _threads(threads)
    A = np.require(A, dtype=np.float64, requirements=("C", "A"))
    if A.ndim != 2:
        raise ParameterError(f"A: found {A.ndim} dimensions, expected 2")
    cdef int64_t n = A.shape[0], d = A.shape[1]
    coef = _input(coef, (A.shape[0],), "coef")
    out = _output(out, (A.shape[1],))
    cdef const double* a = <const double*>_address(A)
    cdef const double* c = <const double*>_address(coef)
    cdef double* target = <double*>_address(out)
    with nogil:
        c_combine(a, n, d, c, n_threads, target)
    return out
