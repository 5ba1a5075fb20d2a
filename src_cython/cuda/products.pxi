"""Products of a matrix on a GPU, with vectors on the host and on the device."""

cdef dict OPERATORS = {"normal": BB_NORMAL, "transposed": BB_TRANSPOSED}
cdef int MAX_COLUMNS = 32  # of one product with several columns
cdef object DOUBLES = np.dtype(np.float64)


@cython.no_gc_clear
cdef class _OnDevice(_Products):
    """A matrix on a device; `Matrix` uploads it."""

    cdef bint _dense
    cdef bb_matrix* handle
    cdef object _dtype, __weakref__
    cdef unique_ptr[_ConsecutiveRows] _host_rows
    cdef list _host_matrices  # that compute the products of these rows

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

    # --- products of vectors on the host

    cdef int _apply(self, bb_operator op, x, out, int32_t columns) except -1:
        cdef bb_matrix* X = self._get()
        cdef const double* source = <const double*>_address(x)
        cdef double* target = <double*>_address(out)
        with nogil:
            check(bb_apply_host(X, op, source, target, columns))
        return 0

    cdef int _of_vector(self, bint transposed, x, out) except -1:
        return self._apply(BB_TRANSPOSED if transposed else BB_NORMAL, x, out, 1)

    cdef int _of_columns(self, bint transposed, x, out) except -1:
        cdef bb_operator op = BB_TRANSPOSED if transposed else BB_NORMAL
        count = x.shape[1]
        if 0 < count <= MAX_COLUMNS:
            return self._apply(op, x, out, count)
        for start in range(0, count, MAX_COLUMNS):
            part = np.ascontiguousarray(x[:, start : start + MAX_COLUMNS])
            product = np.empty((out.shape[0], part.shape[1]))
            self._apply(op, part, product, part.shape[1])
            out[:, start : start + MAX_COLUMNS] = product
        return 0

    cdef int _of_blocks(self, r, starts, out) except -1:
        cdef bb_matrix* X = self._get()
        cdef int32_t blocks = starts.shape[0] - 1
        cdef const double* source = <const double*>_address(r)
        cdef const int64_t* cuts = <const int64_t*>_address(starts)
        cdef double* target = <double*>_address(out)
        with nogil:
            check(bb_apply_blocks_host(X, source, cuts, blocks, target))
        return 0

    @property
    def weighted_gram_work(self):
        """Infinite: `weighted_gram` does not run on the host, and most matrices do not have it."""
        return float("inf")

    @property
    def weighted_gram_bytes(self):
        """Bytes of device memory that `weighted_gram` takes temporarily, besides those of cuBLAS."""
        return 8 * (self._d * self._d + self._m) + max(64 << 20, 8 * self._d)

    def weighted_gram(self, s, out=None):
        """Return ``X^T diag(s) X`` for a dense X, in float64, by cuBLAS; see `load_blas`.

        Parameters
        ----------
        s : ndarray of float64, shape (m,)
            Nonnegative. Other dtypes and layouts are copied.
        out : ndarray of float64, shape (d, d), optional
            Where to write, C-contiguous; a new array by default.

        Returns
        -------
        ndarray of float64, shape (d, d)
            Symmetric bit for bit.

        Raises
        ------
        ParameterError
            If X is sparse, a shape differs or `out` cannot be written in place.
        DeviceMemoryError
            If there is not enough memory.
        """
        if not self._dense:
            raise ParameterError("matrix: weighted_gram on a GPU needs a dense matrix")
        cdef bb_matrix* X = self._get()
        s = _input(s, (self._m,), "s")
        out = _output(out, (self._d, self._d))
        cdef const double* source = <const double*>_address(s)
        cdef double* target = <double*>_address(out)
        with nogil:
            check(bb_weighted_gram(X, source, target))
        return out

    def build_transpose(self):
        """Do nothing: X^T is built with the matrix."""

    @property
    def last_times(self):
        """Milliseconds of the parts of the last product of vectors on the host.

        The parts are ``convert_in``, ``upload``, ``product``, ``download`` and ``convert_out``.
        """
        cdef bb_times times
        check(bb_last_times(self._get(), &times))
        return {
            "convert_in": times.convert_in,
            "upload": times.upload,
            "product": times.product,
            "download": times.download,
            "convert_out": times.convert_out,
        }

    # --- products of vectors on the device

    def apply(self, op, x, y, columns=1):
        """Queue a product of vectors on the device on the stream of the matrix.

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
        cdef int32_t K = <int32_t>_integer(columns, "columns", 1, MAX_COLUMNS)
        sizes = (self._d, self._m) if which == BB_NORMAL else (self._m, self._d)
        cdef const void* source = _device_memory(x, "x", self._dtype, sizes[0] * K, False)
        cdef void* target = _device_memory(y, "y", self._dtype, sizes[1] * K, True)
        with nogil:
            check(bb_apply(X, which, source, target, K))

    def apply_wide(self, op, x, y):
        """Queue a product of float64 vectors on the device on the stream of the matrix.

        A float32 matrix converts them on the device; nothing crosses the bus.

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
        cdef const double* source = <const double*>_device_memory(x, "x", DOUBLES, sizes[0], False)
        cdef double* target = <double*>_device_memory(y, "y", DOUBLES, sizes[1], True)
        with nogil:
            check(bb_apply_wide(X, which, source, target))

    def synchronize(self):
        """Wait until all work queued on the stream of the matrix is done."""
        cdef bb_matrix* X = self._get()
        with nogil:
            check(bb_synchronize(X))

    @property
    def stream(self):
        """The stream of the matrix, as the number of its ``cudaStream_t``."""
        cdef bb_matrix* X = self._get()
        cdef void* found = NULL
        check(bb_get_stream(X, &found))
        return <size_t>found

    def use_stream(self, stream):
        """Use a stream of the caller from now on, to share it or to capture it in a graph.

        Parameters
        ----------
        stream : int
            A ``cudaStream_t``, which must outlive the matrix or its next `use_stream`.
        """
        cdef bb_matrix* X = self._get()
        cdef void* given = <void*><size_t>stream
        with nogil:
            check(bb_set_stream(X, given))

    def time(self, op, columns=1, repeats=20):
        """Return the seconds of a product of vectors on the device, without the overhead of a call.

        Parameters
        ----------
        op : {"normal", "transposed"}
        columns : int, default 1
        repeats : int, default 20
            Number of products between the two events; they are replayed as one graph.

        Returns
        -------
        float
        """
        cdef bb_matrix* X = self._get()
        cdef bb_operator which = <bb_operator>_choice(op, OPERATORS, "op")
        cdef int32_t K = <int32_t>_integer(columns, "columns", 1, MAX_COLUMNS)
        cdef int32_t count = <int32_t>_integer(repeats, "repeats", 1, 1_000_000)
        cdef double seconds = 0.0
        with nogil:
            check(bb_time(X, which, K, count, &seconds))
        return seconds
