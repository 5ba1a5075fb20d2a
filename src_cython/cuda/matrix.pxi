"""The matrix on a GPU: its construction, the upload, and the blocks of rows."""

cdef dict TUNINGS = {
    "predict": BB_TUNE_PREDICT, "best": BB_TUNE_BEST, "all": BB_TUNE_ALL, "cold": BB_TUNE_COLD,
}
cdef int64_t CHUNK = 1 << 24  # number of nonzeros uploaded at a time; they are converted chunk by chunk


@cython.no_gc_clear
cdef class Matrix(_Described):
    """A sparse or dense matrix X (m, d) kept on a GPU for products with X and X^T.

    X and X^T are each stored in a suitable format, chosen by statistics, prediction and trial. Vectors on the
    host are float64; vectors and sums on the device have the type of the values. Products are the same bit
    for bit from run to run on one device. A matrix may be used from several threads.

    Parameters
    ----------
    indptr : array_like of int64, shape (m + 1,)
        Row i consists of the entries ``indptr[i]`` to ``indptr[i + 1] - 1``.
    indices : array_like of int32 or int64, shape (nnz,)
        Column of each entry.
    data : array_like, shape (nnz,), or None
        Value of each entry: float32 or float64 (other real dtypes are converted to float64); None for ones.
    shape : tuple of int
        (m, d), each from 1 to 2**31 - 1.
    threads : int, optional
        CPU threads for the upload, and for the caller's work on the host; products need none. Default: the
        number of cores that this process may run on.
    transpose : bool or None, default None
        False keeps only X: `rmatvec` and the like then raise.
    dtype : {float32, float64}, optional
        Type of values, vectors and sums on the device; default that of `data`, float32 for ones.
    device : int, default 0
    plan : Plan, str or pair of them, optional
        Kernels to use for X and for X^T, instead of choosing them.
    tune : {"best", "predict", "all", "cold"}, default "best"
        Time the candidates with the best predictions, none, or all of them; or the best with cold caches, for
        products between which other work fills these.
    coding : bool, default True
        Detect values that are all 1, and at most 256 distinct values, which are then kept as one byte each;
        no result depends on it.
    memory_limit : int, optional
        Maximum number of bytes of device memory, including what is kept besides the matrix; default: free
        memory.
    spare : int, default 0
        Bytes of these to leave for what is kept besides the matrix: vectors and cuts.
    finite : bool, default False
        Refuse values that are not finite; the device checks them.

    Notes
    -----
    A matrix that can be prepared only in parts is kept in blocks of rows. Blocks for which there is no room stay
    in pinned host memory, and each product copies what it reads of them to the device, a block ahead of the
    kernels. X^T r is added up over the blocks in order, in float64. So the bits of a product depend on where
    blocks begin: on the limit, or without one on whether X is one block, and on whether half of the device's
    memory is free, or a quarter and so on. They do not depend on where the blocks are. `report` describes them.

    `indptr`, `indices`, `data` and the array of `from_dense` may also be arrays on the device with
    ``__cuda_array_interface__``; the work that fills them must be complete. Arrays on the host are uploaded in
    parts, so that an array mapped from a file is never in memory as a whole.

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
            lambda rows, nnz: bb_prepare_bytes(rows, self._d, nnz, value_bytes, self._transpose),
            self._steady(limit, room))
        if starts.shape[0] > 2 and options.tuning in (BB_TUNE_BEST, BB_TUNE_COLD):
            # Every product copies the format, so it should be short, however fast the kernel is.
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
        """Return a dense matrix, stored by rows on the device; both products read the same copy.

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
        starts = dense_blocks(self._m, self._d * self._dtype.itemsize, room, self._steady(limit, room))
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
        """Return the number of bytes of device memory that X may take."""
        cdef int64_t besides = _integer(spare, "spare", 0, 2**62), room = 0
        with nogil:
            check(bb_room(self._device, limit, besides, &room))
        return room

    cdef int64_t _steady(self, int64_t limit, int64_t room) except -1:
        """Return the number of bytes by which several blocks begin."""
        return room if limit else steady_room(room, device_info(self._device)["total_bytes"])

    cdef int _create(self, const bb_options& options, int64_t limit, int64_t room) except -1:
        cdef bb_type kind = _type_of(self._dtype)
        cdef bb_options copy = options
        cdef int32_t threads = self._n_threads
        with nogil:
            check_data(bb_create(self._device, self._m, self._d, kind, &copy, limit, room, threads, &self.handle))
        return 0

    cdef int _open(self, int64_t rows, int64_t nnz, int32_t ones) except -1:
        """Begin a block of rows, which completes the one before."""
        with nogil:
            check_data(bb_open(self.handle, rows, nnz, ones))
        return 0

    cdef int _open_dense(self, int64_t rows, values, int64_t start) except -1:
        cdef const void* source = _part(values, start)
        with nogil:
            check_data(bb_open_dense(self.handle, rows, source))
        return 0

    cdef int _append_all(self, ptr, idx, idx_type, val, int64_t start, int64_t last) except -1:
        """Upload the rows of a block, at most `CHUNK` nonzeros at a time unless a single row has more."""
        cdef const int64_t* offsets = <const int64_t*>_address(ptr)
        cdef const void* i
        cdef const void* v = NULL
        cdef int64_t stop, rows
        cdef int32_t index_bytes = np.dtype(idx_type).itemsize
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
                check_data(bb_append(self.handle, rows, offsets + start, i, index_bytes, v))
            start = stop
        return 0

    cdef int _finish(self) except -1:
        with nogil:
            check_data(bb_finish(self.handle))
        return 0

    def keep_on_host(self, count, X=None):
        """Let the CPU compute the products of some rows at the same time; they stay in main memory.

        Parameters
        ----------
        count : int
            Blocks of rows, of those that stream the last ones, which must be consecutive.
        X : Csr, optional
            The sparse rows, on the host, which are copied; none for a dense matrix.

        Raises
        ------
        ParameterError
            If there are not so many such blocks.
        """
        cdef vector[bb_block] found = self._blocks()
        cdef bb_host_rows rows
        cdef _CpuMatrix each
        cdef bb_block last
        blocks = [block for block in range(found.size()) if found[block].streams]
        cdef int32_t some = _integer(count, "count", 1, len(blocks))
        blocks = blocks[len(blocks) - some:]
        if X is None:
            self._host_matrices = [self._dense_on_host(&found[block]) for block in blocks]
        else:
            last = found[blocks[some - 1]]
            self._host_matrices = [self._sparse_on_host(X, found[blocks[0]].first, last.first + last.rows)]
        self._host_rows.reset(new _ConsecutiveRows(self._d))
        for each in self._host_matrices:
            if self._transpose:
                each._get().build_transpose()
            self._host_rows.get().add(each._get(), each._m)
        rows.matrices, rows.product = self._host_rows.get(), _multiply_rows
        with nogil:
            check(bb_keep_on_host(self.handle, some, &rows))

    cdef _CpuMatrix _dense_on_host(self, const bb_block* block):
        shape = block.rows, self._d
        size = math.prod(shape) * self._dtype.itemsize
        values = np.frombuffer(PyMemoryView_FromMemory(<char*>block.dense, size, PyBUF_READ), self._dtype)
        return _cpu.Matrix.from_dense(values.reshape(shape), threads=self._n_threads)

    cdef _CpuMatrix _sparse_on_host(self, X, int64_t first, int64_t last):
        ptr, columns, values, _ = X
        begin, end = ptr[first], ptr[last]
        if values is not None:
            values = np.array(values[begin:end], self._dtype)
        ptr = np.asarray(ptr[first : last + 1], np.int64) - begin
        return _cpu.Matrix(ptr, columns[begin:end], values, (last - first, self._d), threads=self._n_threads)

    @staticmethod
    def predict_format(m, d, nnz, value_bytes, *, transpose=None):
        """Return the size of the formats of a sparse matrix and its transpose with two-byte indices.

        A matrix too large for the device is kept in these, there and in pinned host memory.

        Parameters
        ----------
        m, d, nnz, value_bytes : int
        transpose : bool or None, default None
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
        return bb_format_bytes(m, d, nnz, value_bytes, transpose is None or bool(transpose))

    def device_rows(self):
        """Return the `ResidentRows` of a dense matrix; None if it is sparse, or in several blocks."""
        cdef const void* values = NULL
        check(bb_get_dense(self._get(), &values))
        return None if values == NULL else self._resident(<size_t>values, self.shape, self._dtype)

    def compressed_rows(self):
        """Return row pointers, columns and values of a sparse matrix on the device, each as `ResidentRows`.

        The first call rebuilds them from the format; they stay there as long as the matrix. Values are None if
        all are 1. `DeviceMemoryError` says what is needed if there is no room.
        """
        cdef const int64_t* starts = NULL
        cdef const uint32_t* columns = NULL
        cdef const void* values = NULL
        self._get()
        with nogil:
            check(bb_get_rows(self.handle, &starts, &columns, &values))
        stored = (self.nnz,)
        return (
            self._resident(<size_t>starts, (self._m + 1,), np.dtype(np.int64)),
            self._resident(<size_t>columns, stored, np.dtype(np.int32)),
            None if values == NULL else self._resident(<size_t>values, stored, self._dtype),
        )

    cdef ResidentRows _resident(self, size_t address, shape, dtype):
        cdef ResidentRows out = ResidentRows.__new__(ResidentRows)
        out.matrix, out.address, out.shape, out.dtype = self, address, shape, dtype
        return out

    @staticmethod
    def predict_bytes(m, d, nnz, value_bytes, *, transpose=None):
        """Return the maximum number of bytes of device memory of a sparse matrix, including its preparation.

        Parameters
        ----------
        m, d, nnz : int
            Numbers of rows, columns and stored entries.
        value_bytes : {0, 4, 8}
            Size of a value in bytes, 0 for implicit ones.
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
        _check_stored(nnz, value_bytes)
        return bb_predict_bytes(m, d, nnz, value_bytes, transpose is None or bool(transpose))


cdef class ResidentRows:
    """An array of a matrix where it is on the device, for other passes over its rows.

    Attributes
    ----------
    shape : tuple of int
    dtype : dtype
    """

    cdef Matrix matrix
    cdef size_t address
    cdef readonly object shape, dtype

    def __len__(self):
        return self.shape[0]

    @property
    def __cuda_array_interface__(self):
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.address, True),
            "strides": None,
            "version": 3,
        }

    def __dlpack_device__(self):
        return _dlpack.CUDA, self.matrix._device

    def __getitem__(self, slice part):
        """Copy a part, one row after the other, to the host."""
        start, stop, step = part.indices(self.shape[0])
        if step != 1:
            raise ParameterError(f"step: found {step}, expected 1")
        out = np.empty((max(0, stop - start), *self.shape[1:]), self.dtype)
        cdef void* to = _address(out)
        cdef size_t each = out.itemsize * (self.shape[1] if len(self.shape) > 1 else 1)
        cdef const void* source = <const void*><size_t>(self.address + start * each)
        cdef int64_t count = out.nbytes
        cdef int32_t device = self.matrix._device
        with nogil:
            check(bb_copy(device, to, source, count))
        return out

    def __array__(self, dtype=None, copy=None):
        if copy is False:
            raise ValueError("copy: found False, but rows on a device have to be copied to the host")
        out = self[:]
        return out if dtype is None else out.astype(dtype, copy=False)
