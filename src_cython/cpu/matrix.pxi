"""The matrix in main memory: construction, products, properties."""

cdef class Matrix(_Products):
    """A sparse or dense matrix X (m, d) kept in main memory for products with X and X^T.

    Column indices are copied into the smallest unsigned type that holds ``d - 1``; row pointers and
    values are shared with the caller's arrays if these are contiguous and aligned (int64; float32 or
    float64), and must then not change. Values that are all 1 are dropped. Sums are accumulated in
    float64 in an order that depends only on the matrix and the call: results are the same bit
    for bit from run to run and for any number of threads.

    Parameters
    ----------
    indptr : array_like of int64, shape (m + 1,)
        Row i consists of the entries ``indptr[i]`` to ``indptr[i + 1] - 1``.
    indices : array_like of int32 or int64, shape (nnz,)
        Column of each entry.
    data : array_like, shape (nnz,), or None
        Value of each entry: float32 or float64 (other real dtypes are converted to float64); None for ones.
    shape : tuple of int
        (m, d); d at most 2**32.
    threads : int, optional
        Maximum number of threads of a product; small products use fewer. Default: ``OMP_NUM_THREADS``, or
        the number of cores that this process may use.
    transpose : bool or None, default None
        How X^T r is computed. True: from a copy of X^T, which is built when first needed. False: by adding
        up rows of X, which needs no more memory. None: in whichever of the two ways suits the shape. If most
        entries of r are zero, rows of X are added up in every case.
    by_popularity : bool or None, default None
        Whether to keep the columns ordered by frequency, with a copy of the values, so that products gather
        from fewer cache lines. None: if the matrix is large and this moves many entries to a nearer
        cache. The caller's vectors keep their order in every case.

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

    def __init__(self, indptr, indices, data, shape, *, threads=None, transpose=None, by_popularity=None):
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
        cdef ColumnOrder order = _column_order(by_popularity)
        cdef const int64_t* p = <const int64_t*>_address(ptr)
        cdef const void* i = _address(idx)
        cdef const void* v = NULL if val is None else _address(val)
        cdef int idx_bytes = idx.itemsize, value_bytes = 0 if val is None else val.itemsize
        cdef int64_t rows = m, columns = d, nnz = idx.shape[0]
        try:
            with nogil:
                self.impl = make_sparse(
                    p, i, idx_bytes, v, value_bytes, rows, columns, nnz, n_threads, policy, order)
        except RuntimeError as error:
            raise DataError(str(error)) from None
        ones = self.impl.get().ones()
        self._owners = (ptr, None if ones or self.impl.get().owns_values() else val)
        self._dtype = None if ones else val.dtype
        self._m, self._d, self._nnz, self._n_threads = m, d, idx.shape[0], n_threads

    @staticmethod
    def from_dense(array, *, threads=None):
        """Return a dense matrix, shared with the caller if it is C-contiguous float32 or float64.

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

    def reordered(self, order):
        """Return a new matrix with the same rows in another order.

        Parameters
        ----------
        order : ndarray of int64, shape (m,)
            A permutation of the row numbers.

        Returns
        -------
        Matrix

        Raises
        ------
        ParameterError
            If `order` is no permutation.

        Examples
        --------
        >>> X = Matrix([0, 2, 3], [0, 2, 1], [1.0, 2.0, 3.0], (2, 3))
        >>> X.reordered(np.array([1, 0])).matvec([1.0, 1.0, 1.0])
        array([3., 3.])
        """
        cdef CMatrix* X = self._get()
        order = _integers(order, "order", False)
        if order.shape[0] != self._m or (order < 0).any() or (order >= self._m).any() \
                or (np.bincount(order, minlength=self._m) != 1).any():
            raise ParameterError(f"order: expected each of the {self._m} rows once")
        ptr, val = np.empty(self._m + 1, np.int64), None
        if self._dtype is not None:
            val = np.empty(self._nnz, self._dtype)
        cdef const int64_t* rows = <const int64_t*>_address(order)
        cdef int64_t* p = <int64_t*>_address(ptr)
        cdef void* v = NULL if val is None else _address(val)
        cdef Matrix found = Matrix.__new__(Matrix)
        with nogil:
            found.impl = X.reordered(rows, p, v)
        found._owners, found._dtype = (ptr, val), self._dtype
        found._m, found._d, found._nnz = self._m, self._d, self._nnz
        found._n_threads = self._n_threads
        return found

    @staticmethod
    def predict_bytes(m, d, nnz, value_bytes, *, transpose=None):
        """Return the maximum number of bytes of a sparse matrix, including the arrays shared with the caller.

        Parameters
        ----------
        m, d, nnz : int
            Numbers of rows, columns and stored entries.
        value_bytes : {0, 4, 8}
            Size of a value in bytes, 0 for implicit ones.
        transpose : bool or None, default None
            As for `Matrix`: count X^T, do not count it, or count it if the shape suits it.

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
        _check_stored(nnz, value_bytes)
        return predict_sparse_bytes(m, d, nnz, value_bytes, _policy(transpose))

    cdef CMatrix* _get(self) except NULL:
        if self.impl.get() == NULL:
            raise ParameterError("Matrix: not initialised")
        return self.impl.get()

    cdef int _of_vector(self, bint transposed, x, out) except -1:
        cdef CMatrix* X = self._get()
        cdef const double* source = <const double*>_address(x)
        cdef double* target = <double*>_address(out)
        cdef int64_t[2] all_rows = [0, self._m]
        with nogil:
            if transposed:
                X.rmatvec_blocks(source, all_rows, 1, target)
            else:
                X.matvec(source, target)
        return 0

    cdef int _of_columns(self, bint transposed, x, out) except -1:
        self._of_several(transposed, _column_addresses(x), _column_addresses(out), x.shape[1])
        return 0

    cdef int _of_several(
        self, bint transposed, vector[double*] source, vector[double*] target, int64_t step
    ) except -1:
        """Compute products with several vectors, whose consecutive entries are `step` numbers apart."""
        cdef CMatrix* X = self._get()
        cdef int64_t K = source.size()
        with nogil:
            if transposed:
                X.rmatmat(Sources(source.data(), step), K, Targets(target.data(), step))
            else:
                X.matmat(Sources(source.data(), step), K, Targets(target.data(), step))
        return 0

    cdef int _of_blocks(self, r, starts, out) except -1:
        cdef CMatrix* X = self._get()
        cdef int64_t blocks = starts.shape[0] - 1
        cdef const double* source = <const double*>_address(r)
        cdef const int64_t* cuts = <const int64_t*>_address(starts)
        cdef double* target = <double*>_address(out)
        with nogil:
            X.rmatvec_blocks(source, cuts, blocks, target)
        return 0

    cdef int _column_squares(self, out) except -1:
        cdef CMatrix* X = self._get()
        cdef double* target = <double*>_address(out)
        with nogil:
            X.column_squares(target)
        return 0

    def matvecs(self, vectors, outs):
        """Compute the products of X and several vectors, reading X once for up to 32 of them.

        Parameters
        ----------
        vectors : sequence of ndarray of float64, shape (d,)
            Other dtypes and layouts are copied.
        outs : sequence of ndarray of float64, shape (m,)
            Where to write the products, C-contiguous.

        Raises
        ------
        ParameterError
            If a shape or number differs, or one of `outs` cannot be written in place.

        Examples
        --------
        >>> a, b = np.empty(1), np.empty(1)
        >>> Matrix([0, 1], [1], None, (1, 2)).matvecs([[3.0, 4.0], [5.0, 6.0]], [a, b])
        >>> a, b
        (array([4.]), array([6.]))
        """
        self._of_vectors(False, vectors, outs, self._d, self._m)

    def rmatvecs(self, vectors, outs):
        """Compute the products of X^T and several vectors, reading X once for up to 32 of them.

        Parameters
        ----------
        vectors : sequence of ndarray of float64, shape (m,)
            Other dtypes and layouts are copied.
        outs : sequence of ndarray of float64, shape (d,)
            Where to write the products, C-contiguous.

        Raises
        ------
        ParameterError
            If a shape or number differs, or one of `outs` cannot be written in place.

        Examples
        --------
        >>> a, b = np.empty(2), np.empty(2)
        >>> Matrix([0, 1], [1], None, (1, 2)).rmatvecs([[3.0], [4.0]], [a, b])
        >>> a, b
        (array([0., 3.]), array([0., 4.]))
        """
        self._of_vectors(True, vectors, outs, self._m, self._d)

    cdef int _of_vectors(self, bint transposed, vectors, outs, int64_t entries, int64_t sums) except -1:
        if len(vectors) != len(outs):
            raise ParameterError(f"outs: found {len(outs)}, expected {len(vectors)}")
        kept = [_input(v, (entries,), "vectors") for v in vectors]
        cdef vector[double*] source, target
        for v, out in zip(kept, outs):
            if out is None:
                raise ParameterError("outs: found None, expected an array for each of the vectors")
            source.push_back(<double*>_address(v))
            target.push_back(<double*>_address(_output(out, (sums,))))
        self._of_several(transposed, source, target, 1)
        return 0

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
        cdef const int64_t* cuts = <const int64_t*>_address(starts)
        cdef vector[double*] source = _column_addresses(R), target = _column_addresses(out)
        with nogil:
            X.rmatmat_blocks(Sources(source.data(), K), K, cuts, blocks, Targets(target.data(), K))
        return out

    def gram_product(self, V, *, weights=None, mean=None):
        """Product ``A.T @ A @ V`` with ``A = diag(sqrt(weights)) (X - mean)``, from one read of X if that pays.

        Parameters
        ----------
        V : ndarray of float64, shape (d, K)
            Other dtypes and layouts are copied.
        weights : ndarray of float64, shape (m,), optional
            Of the rows, at least 0; default 1.
        mean : ndarray of float64, shape (d,), optional
            What is subtracted from each row; default 0.

        Returns
        -------
        ndarray of float64, shape (d, K)

        Raises
        ------
        ParameterError
            If a shape differs.

        Examples
        --------
        >>> X = Matrix([0, 2, 3], [0, 1, 1], [1.0, 2.0, 3.0], (2, 2))
        >>> X.gram_product([[1.0], [1.0]], weights=[1.0, 2.0]).tolist()
        [[3.0], [24.0]]
        """
        cdef CMatrix* X = self._get()
        V = _columns(V, self._d, "V")
        cdef int64_t K = V.shape[1], m = self._m, d = self._d
        out = np.empty((d, K))
        cdef Centring A
        A.weights = A.mean = NULL
        if weights is not None:
            weights = _input(weights, (m,), "weights")
            A.weights = <const double*>_address(weights)
        if mean is not None:
            mean = _input(mean, (d,), "mean")
            A.mean = <const double*>_address(mean)
        cdef const double* source = <const double*>_address(V)
        cdef double* target = <double*>_address(out)
        with nogil:
            X.gram_product(source, K, m, d, A, target)
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

    def centred_gram(self, s, shift):
        """Sums of s (x - shift) (x - shift)' and of s (x - shift) over the rows x of a dense matrix.

        Parameters
        ----------
        s : ndarray of float64, shape (m,)
            Rows with 0 are left out.
        shift : ndarray of float64, shape (d,)

        Returns
        -------
        ndarray of float64, shape (d, d)
            Symmetric bit for bit.
        ndarray of float64, shape (d,)

        Raises
        ------
        ParameterError
            If a shape differs.
        ValueError
            If the matrix is sparse.

        Examples
        --------
        >>> gram, sums = Matrix.from_dense([[1.0], [4.0]]).centred_gram([1.0, 1.0], [2.0])
        >>> gram.tolist(), sums.tolist()
        ([[5.0]], [1.0])
        """
        cdef CMatrix* X = self._get()
        s, shift = _input(s, (self._m,), "s"), _input(shift, (self._d,), "shift")
        out, sums = np.empty((self._d, self._d)), np.empty(self._d)
        cdef const double* source = <const double*>_address(s)
        cdef const double* origin = <const double*>_address(shift)
        cdef double* target = <double*>_address(out)
        cdef double* totals = <double*>_address(sums)
        with nogil:
            X.centred_gram(source, origin, target, totals)
        return out, sums

    def entries(self, first_row=0, columns=None):
        """Return a checksum of the entries.

        It is the same however the matrix is kept: dense or sparse, as float32 or float64 (if the values
        are equal), on any number of threads. If a matrix is split by rows or by columns, the checksums of
        the parts add up to that of the whole, modulo 2^64. Zeros do not count.

        Parameters
        ----------
        first_row : int, default 0
            Number of the first row in the whole matrix.
        columns : array_like of int64, shape (d,), optional
            Number of each column in the whole matrix; default 0 to d - 1.

        Returns
        -------
        int
            From 0 to 2^64 - 1.

        Raises
        ------
        ParameterError
            If `columns` has another length.

        Examples
        --------
        >>> X = Matrix([0, 2, 3], [0, 2, 1], [1.0, 2.0, 3.0], (2, 3))
        >>> X.entries() == Matrix.from_dense([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]]).entries()
        True
        """
        cdef CMatrix* X = self._get()
        cdef uint64_t first = first_row, found = 0
        numbers = np.arange(self._d, dtype=np.int64) if columns is None \
            else _integers(columns, "columns", False)
        if numbers.shape[0] != self._d:
            raise ParameterError(f"columns: found {numbers.shape[0]} numbers, expected {self._d}")
        keys = np.empty(self._d, np.uint64)
        cdef const int64_t* source = <const int64_t*>_address(numbers)
        cdef uint64_t* target = <uint64_t*>_address(keys)
        cdef int64_t d = self._d
        with nogil:
            keys_of_columns(source, d, target)
            found = X.sum_of_entries(first, target)
        return found

    @property
    def weighted_gram_work(self):
        """Cost of `weighted_gram`, in scalar multiply-adds."""
        return self._get().weighted_gram_work()

    def rows(self):
        """Return the rows: a view of a dense matrix, a copy of a sparse one.

        Returns
        -------
        ndarray of shape (m, d), or tuple
            For a sparse matrix row pointers, columns and values; the columns of a row may have any order, and
            values are None if all are 1.

        Examples
        --------
        >>> Matrix([0, 2, 3], [0, 2, 1], [1.0, 2.0, 3.0], (2, 3)).rows()
        (array([0, 2, 3]), array([0, 2, 1]), array([1., 2., 3.]))
        """
        if not isinstance(self._owners, tuple):
            return self._owners.view()
        cdef CMatrix* X = self._get()
        columns = np.empty(self._nnz, np.int64)
        values = None if X.ones() else np.empty(self._nnz, self._dtype)
        cdef int64_t entries = self._nnz
        cdef int64_t* at = <int64_t*>_address(columns)
        cdef void* to = NULL if values is None else _address(values)
        with nogil:
            X.copy_entries(entries, at, to)
        return self._owners[0].copy(), columns, values

    def build_transpose(self):
        """Build X^T now instead of at the first product that reads it; has no effect on a dense matrix.

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
    def location(self):
        """Where the matrix is kept, "host" or "gpu": here "host"."""
        return "host"

    @property
    def dtype(self):
        """Data type of the values; None for implicit ones."""
        return self._dtype

    @property
    def threads(self):
        """Maximum number of threads of a product."""
        return self._n_threads

    @property
    def nbytes(self):
        """Bytes held now, including the arrays shared with the caller, and X^T if it has been built.

        The scratch memory of products with several columns, at most 64 MiB, is not counted.
        """
        return self._get().bytes()

    @property
    def index_bytes(self):
        """Size of a column index in bytes: 1, 2 or 4; 0 for a dense matrix."""
        return self._get().index_bytes()

    @property
    def by_popularity(self):
        """Whether the columns are kept ordered by frequency."""
        return self._get().places() != NULL

    @property
    def has_transpose(self):
        """Whether X^T has been built."""
        return self._get().has_transpose()
