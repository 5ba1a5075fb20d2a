"""Vectors and steps of a solve on the device: binding of ``src_cuda/api/training.h``."""


@cython.no_gc_clear
cdef class Vector:
    """Weights or margins of a `Problem`, on its device; freed with the last reference.

    Attributes
    ----------
    square : float
        For weights: the sum of their squares.
    base : Vector or None
        For weights made by `Problem.combine`: the weights they were compared with. ``inner`` and ``away`` are
        the inner product of these with the difference, and the square of the difference.
    """

    cdef Problem problem
    cdef void* address
    cdef bb_vector kind
    cdef readonly double square, inner, away
    cdef readonly object base
    cdef Vector product
    def __dealloc__(self):
        if self.address != NULL and self.problem.handle != NULL:
            bb_vector_give(self.problem.handle, self.kind, self.address)

    def get(self):
        """Copy to the host, as float64."""
        cdef bint of_rows = self.kind == BB_MARGINS
        out = np.empty(self.problem.matrix._m if of_rows else self.problem.width)
        cdef double* target = <double*>_address(out)
        with nogil:
            if of_rows:
                check(bb_margins_get(self.problem.handle, self.address, target))
            else:
                check(bb_weights_get(self.problem.handle, self.address, target))
        return out


@cython.no_gc_clear
cdef class Problem:
    """The risk of a loss over the rows of a resident matrix, with the vectors and cuts of a solve.

    Parameters
    ----------
    matrix : Matrix
        Built with its transpose.
    loss : int
        Position in ``bmrm.losses._losses.names()``.
    parameter : float
        The loss's parameter.
    labels : ndarray of float64, shape (m,)
    weights : ndarray of float64, shape (m,), or None
    scale : float
        ``R = scale * sum_i weights_i loss(x_i . w, labels_i)``.
    constant : float
        Value of a constant feature; 0 for none.
    in_rows : bool
        Weights and cuts are kept in the space of rows, see `bmrm.linear.backends.host.row_space`.

    Attributes
    ----------
    width : int
        Number of weights: columns, plus the constant feature.
    length : int
        Number of stored numbers of a weight vector or a cut.

    Raises
    ------
    DeviceMemoryError
        If there is not enough memory for the vectors.
    """

    cdef bb_problem* handle
    cdef readonly Matrix matrix
    cdef readonly int64_t width, length
    cdef readonly double constant
    cdef readonly object offset
    cdef bint in_rows
    cdef Ranks ranks
    cdef object __weakref__

    def __cinit__(self, Matrix matrix, int32_t loss, double parameter, labels, weights, double scale,
                  double constant, bint in_rows):
        if not matrix._transpose:
            raise ParameterError("matrix: built without its transpose")
        self.matrix, self.constant, self.in_rows = matrix, constant, in_rows
        self.width = matrix._d + (constant != 0.0)
        self.length = 2 * ((matrix._m + 4) // 4 * 4) if in_rows else self.width
        labels = _input(labels, (matrix._m,), "labels")
        cdef const double* y = <const double*>_address(labels)
        cdef const double* s = NULL
        if weights is not None:
            weights = _input(weights, (matrix._m,), "weights")
            s = <const double*>_address(weights)
        cdef bb_matrix* X = matrix._get()
        with nogil:
            check(bb_problem_create(X, loss, parameter, scale, y, s, constant, in_rows, &self.handle))

    def __dealloc__(self):
        cdef bb_problem* handle = self.handle
        self.handle = NULL
        if handle != NULL:
            with nogil:
                bb_problem_destroy(handle)

    def set_offset(self, offset):
        """Add offsets, an ndarray of float64 of shape (m,), to all margins; call it before any others.

        `offset`, None before, is then that array.
        """
        offset = self.offset = _input(offset, (self.matrix._m,), "offset")
        cdef const double* o = <const double*>_address(offset)
        with nogil:
            check(bb_problem_set_offsets(self.handle, o))

    def share(self, Ranks ranks):
        """Treat the rows as those of one of several ranks: from now on all results are for the rows of all ranks.

        Blocks of rows, which are the same for all ranks, may then be empty here.
        """
        cdef bb_nccl* nccl = NULL
        if ranks.nccl is not None:
            nccl = ranks.nccl.handle
        check(bb_problem_share(self.handle, &ranks.calls, nccl))
        self.ranks = ranks

    cdef int _check(self, bb_status status) except -1 nogil:
        """As `check`, for calls that sum over the ranks."""
        if status == BB_OK:
            return 0
        with gil:
            return check(status) if self.ranks is None else self.ranks.settle(status)

    cdef Vector _take(self, bb_vector kind):
        cdef Vector out = Vector.__new__(Vector)
        out.problem, out.kind = self, kind
        check(bb_vector_take(self.handle, kind, &out.address))
        return out

    cdef void* _of(self, Vector vector, bb_vector kind) except NULL:
        if vector.problem is not self or vector.kind != kind:
            raise ParameterError("vector: it belongs elsewhere")
        return vector.address

    def origin(self):
        """Return weights that are 0."""
        cdef Vector out = self._take(BB_WEIGHTS)
        check(bb_weights_set(self.handle, out.address, NULL))
        out.square = 0.0
        return out

    def weights(self, array):
        """Return weights with the numbers of an array of shape (width,)."""
        array = _input(array, (self.width,), "w")
        if not array.any():
            return self.origin()
        cdef Vector out = self._take(BB_WEIGHTS)
        cdef const double* source = <const double*>_address(array)
        with nogil:
            check(bb_weights_set(self.handle, out.address, source))
        out.square = np.einsum("i,i->", array, array)
        return out

    def between(self, Vector w, Vector end, double t):
        """Return the weights ``w + t (end - w)``, for an end that `combine` compared with w."""
        if end.base is not w:
            raise ParameterError("end: it was not combined against these weights")
        cdef Vector out = self._take(BB_WEIGHTS)
        check(bb_weights_between(
            self.handle, self._of(w, BB_WEIGHTS), self._of(end, BB_WEIGHTS), t, out.address))
        out.square = w.square + 2.0 * t * end.inner + t * t * end.away
        return out

    @property
    def product_seconds(self):
        """Seconds of all products completed so far, by the clock of the device."""
        return bb_problem_product_seconds(self.handle)

    @property
    def products(self):
        """Number of products so far, with X or with X'."""
        return bb_problem_products(self.handle)

    def margins(self, Vector w):
        """Return the margins ``X w`` of weights that `combine` made, which queued their product; only once."""
        if w.product is None:
            raise ParameterError("w: its margins were given away, or never made")
        out, w.product = w.product, None
        return out

    def fresh_margins(self, Vector w):
        """Return margins ``X w`` from a new product, which also updates weights in the space of rows."""
        cdef Vector out = self._take(BB_MARGINS)
        cdef void* source = self._of(w, BB_WEIGHTS)
        cdef double square = w.square
        with nogil:
            if self.in_rows:
                check(bb_renew(self.handle, source, out.address, &square))
            else:
                check(bb_margins(self.handle, source, out.address))
        w.square = square
        return out

    def rescaled(self, Vector w, double scale):
        """Return the margins of ``scale w``, from a product that rounds differently from that of w."""
        cdef Vector out = self._take(BB_MARGINS)
        cdef void* source = self._of(w, BB_WEIGHTS)
        with nogil:
            check(bb_rescaled(self.handle, source, scale, out.address))
        return out

    def make_direction(self, Vector z, Vector end):
        """Replace the margins ``end`` by ``end - z``."""
        check(bb_direction(self.handle, self._of(z, BB_MARGINS), self._of(end, BB_MARGINS)))

    def search(self, Vector z, Vector end, Vector w, Vector w_end, double p, double q, double first,
               double longest, double accuracy, int64_t cut, double farthest, double reach):
        """Minimise ``p t + q t^2 / 2 + R(z + t (end - z))`` over 0 <= t <= longest, in one launch.

        The margins ``end`` become the direction ``end - z``.  The cut number ``cut``, if not negative, is made
        ahead of time, in case it is needed at ``step + min(farthest, reach * step)``.

        Returns
        -------
        step, risk : float
        moved : Vector
            Margins at the step.
        """
        cdef Vector moved = self._take(BB_MARGINS)
        cdef void* start = self._of(z, BB_MARGINS)
        cdef void* stop = self._of(end, BB_MARGINS)
        cdef void* base = self._of(w, BB_WEIGHTS)
        cdef void* far = self._of(w_end, BB_WEIGHTS)
        cdef bb_search_request request
        cdef bb_search_answer answer
        request.p, request.q, request.first = p, q, first
        request.longest, request.accuracy = longest, accuracy
        request.cut, request.farthest, request.reach = cut, farthest, reach
        with nogil:
            self._check(bb_search(self.handle, start, stop, moved.address, base, far, &request, &answer))
        return answer.step, answer.risk, moved

    def slope(self, Vector z, Vector dz, double t, double b):
        """Return the derivatives of ``R(z + t dz + b)`` in t and in b."""
        cdef double slopes[2]
        cdef void* start = self._of(z, BB_MARGINS)
        cdef void* along = self._of(dz, BB_MARGINS)
        with nogil:
            self._check(bb_slope(self.handle, start, along, t, b, slopes))
        return slopes[0], slopes[1]

    def risk(self, Vector z, dz, double t, double b, bint keep):
        """Return the risk of ``z + t dz + b``; with ``keep`` also the margins ``z + t dz``. Without dz, t is 0."""
        cdef Vector moved = self._take(BB_MARGINS) if keep else None
        cdef void* target = moved.address if keep else NULL
        cdef void* start = self._of(z, BB_MARGINS)
        cdef void* along = NULL if dz is None else self._of(dz, BB_MARGINS)
        cdef double risk
        with nogil:
            self._check(bb_risk_at(self.handle, start, along, t, b, target, &risk))
        return risk, moved

    def derivatives(self, Vector z, dz, double t, double b, int32_t which):
        """Keep the derivatives of the rows at ``z + t dz + b`` as the first or second of two sets.

        Returns
        -------
        risk, total : float
            The risk, and the sum of the derivatives.
        """
        cdef double sums[2]
        cdef void* start = self._of(z, BB_MARGINS)
        cdef void* along = NULL if dz is None else self._of(dz, BB_MARGINS)
        with nogil:
            self._check(bb_derivatives(self.handle, start, along, t, b, which, sums))
        return sums[0], sums[1]

    def set_derivatives(self, r, const int64_t[::1] starts):
        """Set the first derivatives, for a cut of some blocks of rows.

        Parameters
        ----------
        r : ndarray of float64, shape (m,)
        starts : ndarray of int64, shape (blocks + 1,)
            The first row of each block, and the number of rows.
        """
        r = _input(r, (self.matrix._m,), "r")
        cdef int32_t blocks = starts.shape[0] - 1, k
        if blocks < 1 or starts[0] != 0 or starts[blocks] != self.matrix._m:
            raise ParameterError("starts: expected the blocks of all rows")
        for k in range(blocks):
            if starts[k] > starts[k + 1]:
                raise ParameterError("starts: expected the blocks of all rows")
        cdef const double* source = <const double*>_address(r)
        with nogil:
            self._check(bb_set_derivatives(self.handle, source, &starts[0], blocks))

    def mix_derivatives(self, double share):
        """Replace the first derivatives by ``share`` of themselves and the rest of the second ones."""
        check(bb_mix_derivatives(self.handle, share))

    def round_kinks(self, double width):
        """Smooth the kinks over ``width`` in searches and cuts from now on; 0 for no smoothing.

        The returned risk of a point is always that of the original loss.

        Raises
        ------
        ParameterError
            If the loss has no kinks to smooth, or the width is negative.
        """
        with nogil:
            check(bb_round_kinks(self.handle, width))

    def cut(self, int64_t size, const int64_t[::1] starts, z, dz, Vector w, Vector end, double t):
        """Store the gradients of the blocks of rows as cuts number ``size`` and following.

        They are those at ``z + t dz``, the margins of ``w + t (end - w)``; if z is None, those of the first
        derivatives as they are.

        Returns
        -------
        sums : ndarray of shape (P, 2)
            Risk and sum of derivatives of each block; undefined without z.
        products : ndarray of shape (P, size + P + 1)
            Products of each new gradient with all cuts, and with the weights.
        """
        cdef int32_t blocks = starts.shape[0] - 1
        sums, products = np.empty((blocks, 2)), np.empty((blocks, size + blocks + 1))
        cdef double* to_sums = <double*>_address(sums)
        cdef double* to_products = <double*>_address(products)
        cdef void* start = NULL if z is None else self._of(z, BB_MARGINS)
        cdef void* along = NULL if dz is None else self._of(dz, BB_MARGINS)
        cdef void* base = self._of(w, BB_WEIGHTS)
        cdef void* stop = self._of(end, BB_WEIGHTS)
        cdef const int64_t* at = &starts[0]
        with nogil:
            self._check(bb_cut(self.handle, size, at, blocks, start, along, base, stop, t, to_sums, to_products))
        return sums, products

    def reserve(self, int64_t capacity):
        """Reserve memory for ``capacity`` cuts."""
        with nogil:
            check(bb_cuts_reserve(self.handle, capacity))

    def combine(self, const double[::1] alpha, double factor, Vector near):
        """Return the weights ``factor * sum_k alpha[k] cut[k]``, compared with ``near``, and queue their margins."""
        cdef Vector out = self._take(BB_WEIGHTS)
        out.product = self._take(BB_MARGINS)
        cdef void* base = self._of(near, BB_WEIGHTS)
        cdef void* margins = out.product.address
        cdef double sums[3]
        cdef int64_t count = alpha.shape[0]
        cdef const double* share = &alpha[0]
        with nogil:
            check(bb_cuts_combine(self.handle, count, share, factor, base, out.address, margins, sums))
        out.square, out.inner, out.away, out.base = sums[0], sums[1], sums[2], near
        return out

    def newton_point(self, Vector w, Vector z, double intercept, cuts, mean_squares, double lam, bint profile,
                     int32_t steps, double forcing):
        """Return the minimiser of the quadratic model of ``lam/2 |w|^2`` plus a smooth risk, by conjugate gradients.

        Parameters
        ----------
        w, z : Vector
            The point of the model, and its margins.
        intercept : float
        cuts : range
            Numbers of the cuts whose gradients add up to that of the risk at w.
        mean_squares : ndarray of shape (width,)
            Mean square of each column, for the preconditioner.
        lam : float
        profile : bool
            The risk is minimised over an intercept.
        steps : int
            Maximum number of steps, each with one product with X and one with X'.
        forcing : float
            Share of the initial slope at which the steps end.

        Returns
        -------
        Vector or None
            Weights, compared with w, whose margins are queued; None if the model has no curvature.
        """
        cdef Vector out = self._take(BB_WEIGHTS)
        out.product = self._take(BB_MARGINS)
        cdef void* base = self._of(w, BB_WEIGHTS)
        cdef void* at = self._of(z, BB_MARGINS)
        cdef void* margins = out.product.address
        cdef bb_newton_request request
        request.lam, request.intercept, request.forcing = lam, intercept, forcing
        request.cut, request.cuts = cuts.start, len(cuts)
        request.steps, request.profile = steps, profile
        mean_squares = _input(mean_squares, (self.width,), "mean_squares")
        request.mean_squares = <const double*>_address(mean_squares)
        cdef double sums[3]
        cdef int32_t taken
        with nogil:
            self._check(bb_newton_point(self.handle, base, at, &request, out.address, margins, sums, &taken))
        if not taken:
            return None
        out.square, out.inner, out.away, out.base = sums[0], sums[1], sums[2], w
        return out

    def begin_ascent(self, z):
        """Begin ascent in the dual at derivatives 0 or, given margins, at the derivatives there.

        Parameters
        ----------
        z : Vector or None

        Raises
        ------
        ParameterError
            If the loss has no simple conjugate, there is a constant feature, X has too many rows for its
            columns, or X is dense.
        """
        if z is not None:
            self.derivatives(z, None, 0.0, 0.0, 0)
        cdef bint known = z is not None
        with nogil:
            check(bb_ascent_begin(self.handle, known))

    def climb(self, double lam, int32_t steps):
        """Ascend in the dual of ``lam/2 |w|^2`` plus the risk; the first derivatives are then the dual point.

        Parameters
        ----------
        lam : float
        steps : int
            Number of steps, each with one product with X' and one with X.

        Returns
        -------
        float
            Sum over the rows of the conjugates of their losses at the derivatives.
        """
        cdef double conjugate
        with nogil:
            check(bb_ascent_climb(self.handle, lam, steps, &conjugate))
        return conjugate

    def move_cut(self, int64_t to, int64_t source):
        """Copy the gradient of a cut over another one."""
        check(bb_cuts_move(self.handle, to, source))

    def merge_cuts(self, int64_t i, int64_t j, double share):
        """Replace cut i by ``share`` of itself and the rest of cut j."""
        check(bb_cuts_merge(self.handle, i, j, share))

    def get_cuts(self, int64_t size):
        """Copy the first cuts to the host as they are stored, shape (size, length)."""
        out = np.empty((size, self.length))
        cdef double* target = <double*>_address(out)
        with nogil:
            check(bb_cuts_get(self.handle, 0, size, target))
        return out

    def set_cuts(self, rows):
        """Set the gradients of the first cuts to an array of shape (size, width)."""
        rows = _input(rows, (len(rows), self.width), "rows")
        cdef const double* source = <const double*>_address(rows)
        cdef int64_t count = len(rows)
        with nogil:
            check(bb_cuts_set(self.handle, 0, count, source))
