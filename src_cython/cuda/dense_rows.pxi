"""Dense rows on the device, their Gram matrix and mixtures: binding of ``src_cuda/api/{dense_rows,gram,mixture}.h``."""


def count_gram_additions(int64_t n, int64_t d):
    """Return the maximum number of additions that a product goes through in `DenseRows.gram`."""
    return bb_gram_additions(n, d)


def predict_gram_bytes(int64_t n, int64_t d):
    """Return the bytes that `DenseRows.gram` takes besides the rows."""
    return bb_gram_bytes(n, d)


def predict_mixture_bytes(int64_t n, int64_t d, int32_t k, bint full):
    """Return the bytes that `DenseRows.mixture_step` takes besides the rows."""
    return bb_mixture_bytes(n, d, k, full)


def count_mixture_columns(device=0):
    """Return the maximum number of columns of a mixture on a device, which its shared memory limits."""
    cdef int32_t number = _device(device)
    cdef bb_device info
    with nogil:
        check(bb_device_info(number, &info))
    return bb_mixture_columns(&info)


@cython.no_gc_clear
cdef class DenseRows:
    """Dense rows on a device, with weights.

    Sums are in float64, in an order that depends on the sizes only: they have the same bits in each call and
    for any ``grid``, the number of blocks of threads (0: as many as there are parts).

    Parameters
    ----------
    X : ndarray or array on the device, of float32 or float64, shape (n, d), C-contiguous
        Used in place if it is on the device.
    weights : ndarray of float64, shape (n,), or None
    device : int, default 0
    spare : int, default 0
        Bytes of device memory that must be left for passes.
    threads : int, optional
        Maximum number of threads for the upload.

    Raises
    ------
    DeviceMemoryError
        If the rows do not fit, or too little memory is left.
    """

    cdef bb_dense_rows* handle
    cdef object _owner
    cdef readonly tuple shape
    cdef readonly object dtype

    def __cinit__(self, X, weights=None, *, device=0, int64_t spare=0, threads=None):
        array = _array(X, "X")
        if array.ndim != 2 or array.dtype not in (np.dtype(np.float32), np.dtype(np.float64)):
            raise ParameterError(f"X: found {array.ndim} dimensions of {array.dtype}, expected 2 of floats")
        if isinstance(array, np.ndarray):
            array = np.require(array, requirements=("C", "A"))
        self._owner, self.shape, self.dtype = (X, array), tuple(array.shape), array.dtype
        cdef int64_t n = self.shape[0], d = self.shape[1]
        cdef const double* w = NULL
        if weights is not None:
            weights = _input(weights, (n,), "weights")
            w = <const double*>_address(weights)
        cdef int32_t number = _device(device), team = _threads(threads)
        cdef bb_type kind = _type_of(array.dtype)
        cdef const void* values = <const void*><size_t>(
            array.address if isinstance(array, _DeviceArray) else array.ctypes.data)
        cdef bb_device info
        with nogil:
            check(bb_device_info(number, &info))
            check(bb_dense_rows_create(&info, kind, n, d, values, w, spare, team, &self.handle))
        if isinstance(array, np.ndarray):
            self._owner = None  # it was copied

    def __dealloc__(self):
        cdef bb_dense_rows* handle = self.handle
        self.handle = NULL
        if handle != NULL:
            with nogil:
                bb_dense_rows_destroy(handle)

    def load(self, X, weights=None):
        """Replace rows that were uploaded by others, no more than at first.

        Parameters
        ----------
        X : ndarray of the same type, shape (n, d)
        weights : ndarray of float64, shape (n,), or None as at first
        """
        if X.ndim != 2 or X.shape[1] != self.shape[1] or X.dtype != self.dtype:
            raise ParameterError(f"X: found {X.shape} of {X.dtype}, expected {self.shape[1]} columns of {self.dtype}")
        X = np.require(X, requirements=("C", "A"))
        cdef int64_t n = len(X)
        cdef const double* w = NULL
        if weights is not None:
            weights = _input(weights, (n,), "weights")
            w = <const double*>_address(weights)
        cdef const void* values = _address(X)
        with nogil:
            check(bb_dense_rows_load(self.handle, n, values, w))
        self.shape = (n, self.shape[1])

    @property
    def __cuda_array_interface__(self):
        cdef const void* values
        check(bb_dense_rows_address(self.handle, &values))
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (<size_t>values, True),
            "strides": None,
            "version": 3,
        }

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, slice part):
        """Copy some rows to the host, in float64."""
        return self.take(np.arange(*part.indices(self.shape[0])))

    def take(self, numbers):
        """Return some rows, in float64 on the host."""
        numbers = np.require(numbers, np.int64, ("C", "A"))
        out = np.empty((len(numbers), self.shape[1]))
        cdef const int64_t* chosen = <const int64_t*>_address(numbers)
        cdef int64_t count = len(numbers)
        cdef double* to = <double*>_address(out)
        if count:
            with nogil:
                check(bb_dense_rows_take(self.handle, chosen, count, to))
        return out

    def extremes(self):
        """Return the maximum of ``abs(X)``, or infinity, and the row of the first value that is not finite, or None."""
        cdef double largest
        cdef int64_t row
        with nogil:
            check(bb_dense_rows_extremes(self.handle, &largest, &row))
        return largest, None if row < 0 else row

    def gram(self, shift, *, int32_t grid=0):
        """Return the sums of w (x - shift)(x - shift)', shape (d, d), and of w (x - shift), shape (d,)."""
        d = self.shape[1]
        shift = _input(shift, (d,), "shift")
        matrix, totals = np.empty((d, d)), np.empty(d)
        cdef const double* origin = <const double*>_address(shift)
        cdef double* to = <double*>_address(matrix)
        cdef double* sums = <double*>_address(totals)
        with nogil:
            check(bb_gram(self.handle, origin, grid, to, sums))
        return matrix, totals

    def mixture_step(self, means, roots, constants, *, int32_t grid=0):
        """Run an E step and sum what the M step needs; as `bmrm.unsupervised.mixtures._mixtures.mixture_step`."""
        means, roots, constants = self._mixture(means, roots, constants)
        return self._moments(means, roots, constants, roots.ndim == 3, None, grid)

    def label_moments(self, labels, means, bint full, *, int32_t grid=0):
        """Return the weights and moments of the rows of each component.

        Parameters
        ----------
        labels : ndarray of int, shape (n,)
            Components; negative for rows that belong to none.
        means : ndarray, shape (k, d)
            What the moments are about.
        full : bool
            Whether second moments are matrices, else diagonals.

        Returns
        -------
        weights, first, second
            As those of `mixture_step`, with 1 as the share of its component in a row.
        """
        means = _input(means, (len(means), self.shape[1]), "means")
        labels = np.require(labels, np.int32, ("C", "A"))
        if labels.shape != (self.shape[0],):
            raise ParameterError(f"labels: found shape {labels.shape}, expected {(self.shape[0],)}")
        return self._moments(means, None, None, full, labels, grid)[1:]

    def mixture_shares(self, means, roots, constants):
        """Return the log densities of rows, shape (n,), and the shares of the components, shape (n, k)."""
        means, roots, constants = self._mixture(means, roots, constants)
        densities, shares = np.empty(self.shape[0]), np.empty((self.shape[0], len(means)))
        cdef bb_mixture_model model = _model(means, roots, constants, roots.ndim == 3)
        cdef double* logs = <double*>_address(densities)
        cdef double* parts = <double*>_address(shares)
        with nogil:
            check(bb_mixture_shares(self.handle, &model, logs, parts))
        return densities, shares

    cdef tuple _mixture(self, means, roots, constants):
        k, d = len(means), self.shape[1]
        return (
            _input(means, (k, d), "means"),
            _input(roots, (k, d, d) if np.ndim(roots) == 3 else (k, d), "roots"),
            _input(constants, (k,), "constants"),
        )

    cdef tuple _moments(self, means, roots, constants, bint full, labels, int32_t grid):
        k, d = means.shape
        weights, first, second = np.empty(k), np.empty((k, d)), np.empty((k, d, d) if full else (k, d))
        cdef bb_mixture_model model = _model(means, roots, constants, full)
        cdef bb_mixture_moments moments
        moments.weights, moments.first = <double*>_address(weights), <double*>_address(first)
        moments.second = <double*>_address(second)
        cdef const int32_t* given = NULL
        if labels is not None:
            given = <const int32_t*>_address(labels)
        with nogil:
            check(bb_mixture_step(self.handle, &model, given, grid, &moments))
        return moments.likelihood, weights, first, second


cdef bb_mixture_model _model(means, roots, constants, bint full) except *:
    """Return the addresses of a mixture's arrays, which must be kept."""
    cdef bb_mixture_model model
    memset(&model, 0, sizeof(model))
    model.k, model.full = <int32_t>len(means), full
    model.means = <const double*>_address(means)
    if roots is not None:
        model.roots = <const double*>_address(roots)
        model.constants = <const double*>_address(constants)
    return model
