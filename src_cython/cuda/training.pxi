"""A solve's vectors and steps on the device: binding of ``src_cuda/api/training.h``."""


cdef class Vector:
    """Weights or margins of a `Problem`, on its device; freed with the last reference.

    Attributes
    ----------
    square : float
        Of weights: the sum of their squares.
    base : Vector or None
        Of weights that `Problem.combine` made: those they were compared with, and by ``inner`` and ``away``,
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
        """Copy on the host, float64."""
        cdef bint of_rows = self.kind == BB_MARGINS
        out = np.empty(self.problem.matrix._m if of_rows else self.problem.width)
        cdef double* target = <double*>_address(out)
        cdef bb_status status
        with nogil:
            if of_rows:
                status = bb_margins_get(self.problem.handle, self.address, target)
            else:
                status = bb_weights_get(self.problem.handle, self.address, target)
        check(status)
        return out


cdef class Problem:
    """The risk of a loss over the rows of a resident matrix, with the vectors and cuts of a solve.

    Parameters
    ----------
    matrix : Matrix
        With its transpose.
    loss : int
        Position in ``bmrm.losses._losses.names()``.
    parameter : float
        The loss's parameter.
    labels : ndarray of float64, shape (m,)
    weights : ndarray of float64, shape (m,), or None
    scale : float
        ``R = scale * sum_i weights_i loss(x_i . w, labels_i)``.
    constant : float
        Value of one more feature, the same in every row; 0 for none.
    in_rows : bool
        Weights and cuts are in the space of rows, see `bmrm.linear.backends.host.row_space`.

    Attributes
    ----------
    width : int
        Weights: columns, and the constant feature.
    length : int
        Numbers that weights or a cut are kept as.

    Raises
    ------
    DeviceMemoryError
        If there is no room for the vectors.
    """

    cdef bb_problem* handle
    cdef readonly Matrix matrix
    cdef readonly int64_t width, length
    cdef readonly double constant
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
        cdef bb_status status
        with nogil:
            status = bb_problem_create(X, loss, parameter, scale, y, s, constant, in_rows, &self.handle)
        check(status)

    def __dealloc__(self):
        cdef bb_problem* handle = self.handle
        self.handle = NULL
        if handle != NULL:
            with nogil:
                bb_problem_destroy(handle)

    def share(self, Ranks ranks):
        """Take the rows for one rank's of several: all that is told from now on is of the rows of all.

        Blocks of rows, which are the same for all ranks, may then be empty here.
        """
        cdef bb_nccl* nccl = NULL
        if ranks.nccl is not None:
            nccl = ranks.nccl.handle
        check(bb_problem_share(self.handle, &ranks.calls, nccl))
        self.ranks = ranks

    cdef int _check(self, bb_status status) except -1:
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
        """Weights that are 0."""
        cdef Vector out = self._take(BB_WEIGHTS)
        check(bb_weights_set(self.handle, out.address, NULL))
        out.square = 0.0
        return out

    def weights(self, array):
        """Weights with the numbers of an array of shape (width,)."""
        array = _input(array, (self.width,), "w")
        if not array.any():
            return self.origin()
        cdef Vector out = self._take(BB_WEIGHTS)
        cdef const double* source = <const double*>_address(array)
        cdef bb_status status
        with nogil:
            status = bb_weights_set(self.handle, out.address, source)
        check(status)
        out.square = np.einsum("i,i->", array, array)
        return out

    def between(self, Vector w, Vector end, double t):
        """Weights ``w + t (end - w)``, for an end that `combine` made against w."""
        if end.base is not w:
            raise ParameterError("end: it was not combined against these weights")
        cdef Vector out = self._take(BB_WEIGHTS)
        check(bb_weights_between(
            self.handle, self._of(w, BB_WEIGHTS), self._of(end, BB_WEIGHTS), t, out.address))
        out.square = w.square + 2.0 * t * end.inner + t * t * end.away
        return out

    @property
    def product_seconds(self):
        """Seconds of all products so far that are complete, by the device's clock."""
        return bb_problem_product_seconds(self.handle)

    @property
    def products(self):
        """Products so far, with X or with X'."""
        return bb_problem_products(self.handle)

    def margins(self, Vector w):
        """Margins ``X w`` of weights that `combine` made, once: their product was queued then."""
        if w.product is None:
            raise ParameterError("w: its margins were given away, or never made")
        out, w.product = w.product, None
        return out

    def fresh_margins(self, Vector w):
        """Margins ``X w`` from a new product, with which weights in the space of rows are brought up to date."""
        cdef Vector out = self._take(BB_MARGINS)
        cdef void* source = self._of(w, BB_WEIGHTS)
        cdef bb_status status
        cdef double square = w.square
        with nogil:
            if self.in_rows:
                status = bb_renew(self.handle, source, out.address, &square)
            else:
                status = bb_margins(self.handle, source, out.address)
        check(status)
        w.square = square
        return out

    def rescaled(self, Vector w, double scale):
        """Margins of ``scale w``, from a product that rounds elsewhere than that of w."""
        cdef Vector out = self._take(BB_MARGINS)
        cdef void* source = self._of(w, BB_WEIGHTS)
        cdef bb_status status
        with nogil:
            status = bb_rescaled(self.handle, source, scale, out.address)
        check(status)
        return out

    def make_direction(self, Vector z, Vector end):
        """Replace the margins ``end`` by ``end - z``."""
        check(bb_direction(self.handle, self._of(z, BB_MARGINS), self._of(end, BB_MARGINS)))

    def search(self, Vector z, Vector end, Vector w, Vector w_end, double p, double q, double first,
               double longest, double accuracy, int64_t cut, double farthest, double reach):
        """Minimise ``p t + q t^2 / 2 + R(z + t (end - z))`` over 0 <= t <= longest, in one launch.

        The margins ``end`` become the direction ``end - z``.  The cut number ``cut``, if not negative, is made
        ahead, in case it is asked for at ``step + min(farthest, reach * step)``.

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
        cdef bb_status status
        with nogil:
            status = bb_search(self.handle, start, stop, moved.address, base, far, &request, &answer)
        self._check(status)
        return answer.step, answer.risk, moved

    def slope(self, Vector z, Vector dz, double t, double b):
        """Derivatives of ``R(z + t dz + b)`` in t and in b."""
        cdef double slopes[2]
        cdef void* start = self._of(z, BB_MARGINS)
        cdef void* along = self._of(dz, BB_MARGINS)
        cdef bb_status status
        with nogil:
            status = bb_slope(self.handle, start, along, t, b, slopes)
        self._check(status)
        return slopes[0], slopes[1]

    def risk(self, Vector z, dz, double t, double b, bint keep):
        """Risk of ``z + t dz + b``; with ``keep`` also the margins ``z + t dz``. Without dz, t is 0."""
        cdef Vector moved = self._take(BB_MARGINS) if keep else None
        cdef void* target = moved.address if keep else NULL
        cdef void* start = self._of(z, BB_MARGINS)
        cdef void* along = NULL if dz is None else self._of(dz, BB_MARGINS)
        cdef double risk
        cdef bb_status status
        with nogil:
            status = bb_risk_at(self.handle, start, along, t, b, target, &risk)
        self._check(status)
        return risk, moved

    def derivatives(self, Vector z, dz, double t, double b, int32_t which):
        """Keep the rows' derivatives at ``z + t dz + b``, the first or the second of two sets.

        Returns
        -------
        risk, total : float
            Risk and sum of the derivatives.
        """
        cdef double sums[2]
        cdef void* start = self._of(z, BB_MARGINS)
        cdef void* along = NULL if dz is None else self._of(dz, BB_MARGINS)
        cdef bb_status status
        with nogil:
            status = bb_derivatives(self.handle, start, along, t, b, which, sums)
        self._check(status)
        return sums[0], sums[1]

    def set_derivatives(self, r, const int64_t[::1] starts):
        """Make the first derivatives these, for a cut of some blocks of rows.

        Parameters
        ----------
        r : ndarray of float64, shape (m,)
        starts : ndarray of int64, shape (blocks + 1,)
            Where the blocks begin, and the number of rows.
        """
        r = _input(r, (self.matrix._m,), "r")
        cdef int32_t blocks = starts.shape[0] - 1, k
        if blocks < 1 or starts[0] != 0 or starts[blocks] != self.matrix._m:
            raise ParameterError("starts: expected the blocks of all rows")
        for k in range(blocks):
            if starts[k] > starts[k + 1]:
                raise ParameterError("starts: expected the blocks of all rows")
        cdef const double* source = <const double*>_address(r)
        cdef bb_status status
        with nogil:
            status = bb_set_derivatives(self.handle, source, &starts[0], blocks)
        self._check(status)

    def mix_derivatives(self, double share):
        """Make the first derivatives ``share`` of themselves and the rest of the second ones."""
        check(bb_mix_derivatives(self.handle, share))

    def round_kinks(self, double width):
        """Search and cut the risk with kinks rounded over ``width`` from now on; as it is for 0.

        The risk that is told of a point is always that with kinks.

        Raises
        ------
        ParameterError
            If the loss has no kinks to round, or the width is negative.
        """
        cdef bb_status status
        with nogil:
            status = bb_round_kinks(self.handle, width)
        check(status)

    def cut(self, int64_t size, const int64_t[::1] starts, z, dz, Vector w, Vector end, double t):
        """Make gradients of the blocks of rows cuts number ``size`` and on.

        They are those at ``z + t dz``, the margins of ``w + t (end - w)``; where z is None, those of the first
        derivatives as they are.

        Returns
        -------
        sums : ndarray of shape (P, 2)
            Risk and sum of derivatives of each block; of no meaning without z.
        products : ndarray of shape (P, size + P + 1)
            Of each new gradient with all cuts, and with the weights.
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
        cdef bb_status status
        with nogil:
            status = bb_cut(
                self.handle, size, at, blocks, start, along, base, stop, t, to_sums, to_products)
        self._check(status)
        return sums, products

    def reserve(self, int64_t capacity):
        """Make room for so many cuts."""
        cdef bb_status status
        with nogil:
            status = bb_cuts_reserve(self.handle, capacity)
        check(status)

    def combine(self, const double[::1] alpha, double factor, Vector near):
        """Weights ``factor * sum_k alpha[k] cut[k]``, compared with ``near``; their margins are queued."""
        cdef Vector out = self._take(BB_WEIGHTS)
        out.product = self._take(BB_MARGINS)
        cdef void* base = self._of(near, BB_WEIGHTS)
        cdef void* margins = out.product.address
        cdef double sums[3]
        cdef int64_t count = alpha.shape[0]
        cdef const double* share = &alpha[0]
        cdef bb_status status
        with nogil:
            status = bb_cuts_combine(self.handle, count, share, factor, base, out.address, margins, sums)
        check(status)
        out.square, out.inner, out.away, out.base = sums[0], sums[1], sums[2], near
        return out

    def newton_point(self, Vector w, Vector z, double intercept, cuts, mean_squares, double lam, bint profile,
                     int32_t steps, double forcing):
        """The minimiser of the quadratic model of ``lam/2 |w|^2`` and a smooth risk, by conjugate gradients.

        Parameters
        ----------
        w, z : Vector
            The point that it is the model at, and its margins.
        intercept : float
        cuts : range
            Numbers of the cuts whose gradients add up to the risk's there.
        mean_squares : ndarray of shape (width,)
            Mean square of each column, by which the steps are scaled.
        lam : float
        profile : bool
            The risk is that minimised over an intercept.
        steps : int
            Most steps, of a product with X and one with X' each.
        forcing : float
            Share of the slope at which they end.

        Returns
        -------
        Vector or None
            Weights, compared with w, whose margins are queued; None where the model does not bend.
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
        cdef bb_status status
        with nogil:
            status = bb_newton_point(self.handle, base, at, &request, out.address, margins, sums, &taken)
        self._check(status)
        if not taken:
            return None
        out.square, out.inner, out.away, out.base = sums[0], sums[1], sums[2], w
        return out

    def begin_ascent(self, z):
        """Begin ascent in the dual where no row has a derivative or, given margins, at the derivatives there.

        Parameters
        ----------
        z : Vector or None

        Raises
        ------
        ParameterError
            Where the loss has no simple conjugate, there is a constant feature, or X has many rows for its
            columns, or is dense.
        """
        if z is not None:
            self.derivatives(z, None, 0.0, 0.0, 0)
        cdef bint known = z is not None
        cdef bb_status status
        with nogil:
            status = bb_ascent_begin(self.handle, known)
        check(status)

    def climb(self, double lam, int32_t steps):
        """Go up in the dual of ``lam/2 |w|^2`` and the risk; the first derivatives are then where that led.

        Parameters
        ----------
        lam : float
        steps : int
            Of a product with X' and one with X each.

        Returns
        -------
        float
            Sum over the rows of the conjugates of their losses at the derivatives.
        """
        cdef double conjugate
        cdef bb_status status
        with nogil:
            status = bb_ascent_climb(self.handle, lam, steps, &conjugate)
        check(status)
        return conjugate

    def move_cut(self, int64_t to, int64_t source):
        """Copy a cut's gradient over another's."""
        check(bb_cuts_move(self.handle, to, source))

    def merge_cuts(self, int64_t i, int64_t j, double share):
        """Cut i becomes ``share`` of itself and the rest of cut j."""
        check(bb_cuts_merge(self.handle, i, j, share))

    def get_cuts(self, int64_t size):
        """The first cuts on the host as they are kept, shape (size, length)."""
        out = np.empty((size, self.length))
        cdef double* target = <double*>_address(out)
        cdef bb_status status
        with nogil:
            status = bb_cuts_get(self.handle, 0, size, target)
        check(status)
        return out

    def set_cuts(self, rows):
        """Make the first cuts' gradients those of an array of shape (size, width)."""
        rows = _input(rows, (len(rows), self.width), "rows")
        cdef const double* source = <const double*>_address(rows)
        cdef int64_t count = len(rows)
        cdef bb_status status
        with nogil:
            status = bb_cuts_set(self.handle, 0, count, source)
        check(status)
