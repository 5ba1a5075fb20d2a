"""Passes of multidimensional scaling on the device: binding of ``src_cuda/api/scaling.h``."""


def predict_scaling_bytes(int64_t n, int32_t adds):
    """Return the bytes of the sums that a pass adds up, for ``n`` points and ``adds`` numbers of each."""
    return bb_scaling_sum_bytes(n, adds)


def scaling_strip_rows(int64_t n):
    """Return the number of rows of which ranks have multiples."""
    return bb_scaling_strip_rows(n)


@cython.no_gc_clear
cdef class PointVector:
    """Numbers of the points of a `ResidentPairs` on its device; they go back with the last reference."""

    cdef ResidentPairs pairs
    cdef double* address
    cdef readonly int32_t columns
    cdef int64_t size

    def __dealloc__(self):
        if self.address != NULL and self.pairs.handle != NULL:
            bb_scaling_give(self.pairs.handle, self.size, self.address)


@cython.no_gc_clear
cdef class ResidentPairs:
    """Dissimilarities of all pairs of n points on a device, with weights, as the passes of scaling read them.

    Arrays on the device are used in place and shared with the caller; others are copied. Ranks may share the
    rows of a pass: all call it together, and get the sums of all.

    Parameters
    ----------
    n : int
    delta : array of float32 or float64, shape (n, n) or (n (n - 1) / 2,), or None
        Dissimilarities; of a square matrix the upper triangle counts.
    weights : array, as ``delta``, optional
    missing : bool, default False
        Whether some dissimilarities are NaN, which means unknown.
    features : array of float32 or float64, shape (n, m), optional
        In place of ``delta``: rows whose distances are the dissimilarities.
    stored : bool, default False
        Whether distances of features are computed once; else they are computed in each pass.
    device : int, default 0
    threads : int, optional
        Maximum number of threads of an upload.
    rows : (int, int), optional
        First row that is here, with the pairs with later rows, and the end; multiples of
        `scaling_strip_rows`, or n. Default: all.
    ranks : bmrm.distributed.ranks.AllRanks, optional
        Those that have the others.

    Raises
    ------
    DeviceMemoryError
        If there is not enough memory.
    """

    cdef bb_scaling* handle
    cdef readonly int64_t n
    cdef object _owners, _ranks
    cdef double* degrees

    def __cinit__(
        self,
        n,
        *,
        delta=None,
        weights=None,
        bint missing=False,
        features=None,
        bint stored=False,
        device=0,
        threads=None,
        rows=None,
        ranks=None,
    ):
        cdef int32_t number = _device(device)
        cdef bb_pairs pairs
        memset(&pairs, 0, sizeof(pairs))
        self.n = _integer(n, "n", 1, 2**31 - 1)
        given, w, X = (None if each is None else _array(each, "pairs") for each in (delta, weights, features))
        self._owners = [each for each in (given, w) if isinstance(each, _DeviceArray)]
        for each in (given, w):
            if each is not None and each.shape not in ((self.n, self.n), (self.n * (self.n - 1) // 2,)):
                raise ParameterError(f"pairs: found shape {each.shape}, expected numbers of {self.n} points")
        pairs.n, pairs.missing, pairs.stored, pairs.threads = self.n, missing, stored, _threads(threads)
        pairs.delta, pairs.weights = _values_of_pairs(given), _values_of_pairs(w)
        pairs.first, pairs.last = (0, self.n) if rows is None else rows
        self._ranks = None if rows is None else ranks
        if X is not None:
            if X.dtype not in (np.float32, np.float64) or X.ndim != 2 or X.shape[0] != self.n:
                raise ParameterError(f"features: found shape {X.shape} of {X.dtype}, expected {self.n} rows")
            pairs.features, pairs.features_type, pairs.m = _part(X, 0), _type_of(X.dtype), X.shape[1]
        with nogil:
            check(bb_scaling_create(number, &pairs, &self.handle))

    def close(self):
        """Free the device memory; vectors are lost."""
        self.degrees = NULL
        cdef bb_scaling* handle = self.handle
        self.handle = NULL
        if handle != NULL:
            with nogil:
                bb_scaling_destroy(handle)

    def __dealloc__(self):
        self.close()

    cdef bb_scaling* _get(self) except NULL:
        if self.handle == NULL:
            raise ParameterError("pairs: they were closed")
        return self.handle

    cdef PointVector _lend(self, int32_t columns):
        cdef PointVector out = PointVector.__new__(PointVector)
        cdef bb_scaling* handle = self._get()
        out.pairs, out.columns, out.size = self, columns, self.n * columns
        check(bb_scaling_lend(handle, out.size, &out.address))
        return out

    cdef double* _of(self, PointVector vector, int32_t columns) except NULL:
        self._get()
        if vector.pairs is not self or vector.columns != columns:
            raise ParameterError("vector: it belongs to other pairs or has other columns")
        return vector.address

    cdef _finish(self, PointVector out, double* totals):
        """Set the results of a pass over the rows of all ranks; ``totals`` may be null."""
        if self._ranks is None:
            return
        cdef PointVector rows = self._lend(out.columns)
        cdef int64_t size
        check(bb_scaling_own_rows(self.handle, out.columns, rows.address))
        begin = self._ranks.total_array(self.get(rows))

        def add(before):
            cdef PointVector vector = self.put(begin if before is None else before.reshape(begin.shape))
            check(bb_scaling_add_strips(self.handle, vector.columns, vector.address))
            return self.get(vector).ravel()

        found = self._ranks.in_turn(begin.size, add)
        check(bb_scaling_put(self.handle, out.size, <const double*>_address(found), out.address))
        if totals == NULL:
            return
        check(bb_scaling_count_totals(self.handle, &size))
        values = np.empty(size)
        check(bb_scaling_own_totals(self.handle, size, <double*>_address(values)))
        values = np.concatenate(self._ranks.everyones(values))
        check(bb_scaling_sum_totals(self.handle, values.size, <const double*>_address(values), totals))

    @property
    def device_bytes(self):
        """Device memory in use."""
        cdef bb_scaling* handle = self._get()
        cdef int64_t found
        check(bb_scaling_used(handle, &found))
        return found

    def put(self, values):
        """Copy numbers of points to the device, shape (n, T)."""
        values = _input(values, (self.n, values.shape[1]), "values")
        cdef PointVector out = self._lend(values.shape[1])
        cdef const double* source = <const double*>_address(values)
        with nogil:
            check(bb_scaling_put(self.handle, out.size, source, out.address))
        return out

    def get(self, PointVector vector):
        """Copy a vector to the host, shape (n, T)."""
        cdef double* source = self._of(vector, vector.columns)
        values = np.empty((self.n, vector.columns))
        cdef double* out = <double*>_address(values)
        with nogil:
            check(bb_scaling_get(self.handle, vector.size, source, out))
        return values

    def combine(self, vectors, factors):
        """Return the sum of factors times vectors."""
        cdef int32_t count = <int32_t>_integer(len(vectors), "vectors", 1, BB_PAIR_VECTORS), k
        cdef const double* from_[BB_PAIR_VECTORS]
        cdef double shares[BB_PAIR_VECTORS]
        cdef int32_t columns = (<PointVector?>vectors[0]).columns
        for k in range(count):
            from_[k], shares[k] = self._of(vectors[k], columns), factors[k]
        cdef PointVector out = self._lend(columns)
        with nogil:
            check(bb_scaling_combine(self.handle, out.size, from_, shares, count, out.address))
        return out

    def products(self, pairs):
        """Return the inner products of pairs of vectors, a list of floats."""
        cdef int32_t count = <int32_t>_integer(len(pairs), "pairs", 1, BB_PAIR_PRODUCTS), k
        cdef const double* vectors[BB_PAIR_PRODUCTS]
        cdef const double* others[BB_PAIR_PRODUCTS]
        cdef double found[BB_PAIR_PRODUCTS]
        cdef int32_t columns = (<PointVector?>pairs[0][0]).columns
        cdef int64_t size = self.n * columns
        for k in range(count):
            vectors[k], others[k] = self._of(pairs[k][0], columns), self._of(pairs[k][1], columns)
        with nogil:
            check(bb_scaling_products(self.handle, size, vectors, others, count, found))
        return [found[k] for k in range(count)]

    def over_degrees(self, PointVector vector):
        """Return each point's numbers divided by the sum of its weights; after `summary`."""
        if self.degrees == NULL:
            raise ParameterError("degrees: expected the summary first")
        cdef double* source = self._of(vector, vector.columns)
        cdef PointVector out = self._lend(vector.columns)
        with nogil:
            check(bb_scaling_over_degrees(self.handle, out.columns, self.degrees, source, out.address))
        return out

    def centre(self, PointVector vector):
        """Return a vector less the mean of all points."""
        cdef double* source = self._of(vector, vector.columns)
        cdef PointVector out = self._lend(vector.columns)
        with nogil:
            check(bb_scaling_centre(self.handle, out.columns, source, out.address))
        return out

    def summary(self):
        """Return sums over the pairs, as `bmrm.unsupervised.manifold._manifold.Pairs.summary`."""
        cdef bb_scaling* handle = self._get()
        cdef PointVector out = self._lend(1)
        cdef double totals[3]
        with nogil:
            check(bb_scaling_summary(handle, out.address, totals))
        self._finish(out, totals)
        degrees = self.get(out)[:, 0].copy()
        if self.degrees == NULL:
            check(bb_scaling_lend(handle, self.n, &self.degrees))
        check(bb_scaling_put(handle, self.n, <const double*>_address(degrees), self.degrees))
        return degrees, totals[0], totals[1], int(totals[2])

    def descent(self, PointVector X, *, bint single=False):
        """Return half the negative gradient of the stress, the sums of w (delta - d)^2 and of w d^2, and the
        number of pairs at one place although w delta > 0; ``single``: with terms in float32."""
        cdef double* places = self._of(X, X.columns)
        cdef PointVector out = self._lend(X.columns)
        cdef double totals[3]
        cdef int32_t terms = BB_FLOAT32 if single else BB_FLOAT64
        with nogil:
            check(bb_scaling_descent(self.handle, out.columns, places, terms, out.address, totals))
        self._finish(out, totals)
        return out, totals[0], totals[1], int(totals[2])

    def laplacian(self, PointVector Y):
        """Return V Y for the Laplacian V of the weights."""
        cdef double* source = self._of(Y, Y.columns)
        cdef PointVector out = self._lend(Y.columns)
        with nogil:
            check(bb_scaling_laplacian(self.handle, out.columns, source, out.address))
        self._finish(out, NULL)
        return out

    def squared(self, PointVector Y, double unknown=0.0):
        """Return the matrix of squared dissimilarities times Y, NaN replaced by ``unknown``."""
        cdef double* source = self._of(Y, Y.columns)
        cdef PointVector out = self._lend(Y.columns)
        with nogil:
            check(bb_scaling_squared(self.handle, out.columns, source, unknown, out.address))
        self._finish(out, NULL)
        return out

    def pulls(self, PointVector X):
        """Return the sums of w delta / d of each point, a vector of one column."""
        cdef double* places = self._of(X, X.columns)
        cdef PointVector out = self._lend(1)
        with nogil:
            check(bb_scaling_pulls(self.handle, X.columns, places, out.address))
        self._finish(out, NULL)
        return out

    def curvature(self, PointVector X, PointVector direction):
        """Return half the Hessian of the stress at X times a direction."""
        cdef double* places = self._of(X, X.columns)
        cdef double* source = self._of(direction, X.columns)
        cdef PointVector out = self._lend(X.columns)
        with nogil:
            check(bb_scaling_curvature(self.handle, X.columns, places, source, out.address))
        self._finish(out, NULL)
        return out

    def row(self, int64_t i):
        """Return the dissimilarities of a point to all, NaN for unknown ones, if all rows are here."""
        cdef bb_scaling* handle = self._get()
        values = np.empty(self.n)
        cdef double* out = <double*>_address(values)
        with nogil:
            check(bb_scaling_row(handle, i, out))
        return values
