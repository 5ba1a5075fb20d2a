"""The interface of a resident matrix: products with vectors on the host, documented and checked once."""

cdef tuple _two_numbers(shape):
    """Return `shape` as two ints."""
    try:
        m, d = (int(n) for n in shape)
    except (TypeError, ValueError):
        raise ParameterError(f"shape: found {shape!r}, expected two integers") from None
    return m, d


cdef _columns(value, int64_t rows, str name):
    """Return `value` as an aligned C-contiguous float64 array with `rows` rows and any number of columns."""
    array = np.require(value, dtype=np.float64, requirements=("C", "A"))
    if array.ndim != 2 or array.shape[0] != rows:
        raise ParameterError(f"{name}: found shape {array.shape}, expected ({rows}, K)")
    return array


cdef _integers(value, str name, bint narrow):
    """Return `value` as a one-dimensional int64 array, or int32 if it is that and `narrow` allows it."""
    array = np.asarray(value)
    if array.ndim != 1:
        raise DataError(f"{name}: found {array.ndim} dimensions, expected 1")
    if array.dtype.kind not in "iu" and array.size:
        raise DataError(f"{name}: found dtype {array.dtype}, expected integers")
    if array.dtype == np.uint64 and array.size and array.max() > np.iinfo(np.int64).max:
        raise DataError(f"{name}: found {array.max()}, more than int64 holds")
    dtype = np.int32 if narrow and array.dtype == np.int32 else np.int64
    return np.require(array, dtype=dtype, requirements=("C", "A"))


cdef int _check_stored(nnz, value_bytes) except -1:
    """Raise if a number of entries or a size of values is out of range."""
    if value_bytes not in (0, 4, 8) or not 0 <= nnz < 2**58:
        raise ParameterError(
            f"nnz {nnz!r}, value_bytes {value_bytes!r}: expected nnz >= 0 and 0, 4 or 8 bytes")
    return 0


cdef _starts(value, int64_t rows):
    """Return `value` as the bounds of consecutive blocks of rows."""
    starts = _integers(value, "starts", False)
    if not len(starts) or starts[0] < 0 or starts[len(starts) - 1] > rows or (np.diff(starts) < 0).any():
        raise ParameterError(f"starts: expected ascending row numbers within 0 and {rows}")
    return starts


cdef class _Products:
    """Products of X (m, d) and X^T with vectors on the host.

    A backend derives its `Matrix` from it and does the work. The arrays it receives are contiguous and fit.
    """

    def __reduce_ex__(self, protocol):
        raise BmrmError("Matrix: is resident in this process, so it can be neither pickled nor copied")

    cdef int _of_vector(self, bint transposed, x, out) except -1:
        """Compute ``out = X x``, or ``X^T x``."""
        raise NotImplementedError

    cdef int _of_columns(self, bint transposed, x, out) except -1:
        """Do the same for several columns."""
        raise NotImplementedError

    cdef int _of_blocks(self, r, starts, out) except -1:
        """Compute ``out[p] = X_p^T r_p`` for at least one block of rows."""
        raise NotImplementedError

    cdef int _column_squares(self, out) except -1:
        """Compute ``out[j]``, the sum of squares of the stored values of column j."""
        raise NotImplementedError

    @property
    def mean_squares(self):
        """Mean square of each column, shape (d,), read-only; computed at the first use.

        Raises
        ------
        ParameterError
            For a sparse matrix on a GPU that was built without its transpose.

        Examples
        --------
        >>> Matrix([0, 2, 3], [0, 1, 1], [1.0, 2.0, 3.0], (2, 2)).mean_squares
        array([0.5, 6.5])
        """
        if self._squares is None:
            squares = np.empty(self._d)
            self._column_squares(squares)
            squares /= max(self._m, 1)
            squares.flags.writeable = False
            self._squares = squares
        return self._squares

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
        w, out = _input(w, (self._d,), "w"), _output(out, (self._m,))
        self._of_vector(False, w, out)
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
        r, out = _input(r, (self._m,), "r"), _output(out, (self._d,))
        self._of_vector(True, r, out)
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
        r, starts = _input(r, (self._m,), "r"), _starts(starts, self._m)
        out = _output(out, (len(starts) - 1, self._d))
        if len(out):
            self._of_blocks(r, starts, out)
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
        W = _columns(W, self._d, "W")
        out = _output(out, (self._m, W.shape[1]))
        self._of_columns(False, W, out)
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
        R = _columns(R, self._m, "R")
        out = _output(out, (self._d, R.shape[1]))
        self._of_columns(True, R, out)
        return out

    @property
    def shape(self):
        """Rows and columns, (m, d)."""
        return self._m, self._d

    @property
    def nnz(self):
        """Stored entries; m * d when dense."""
        return self._nnz
