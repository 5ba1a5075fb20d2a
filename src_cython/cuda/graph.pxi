"""Walks on a graph, and the vectors of HITS, on the device: binding of ``src_cuda/api/graph.h``."""


def count_walk_additions(int64_t n, int32_t columns):
    """Return the maximum number of additions that a term of a sum over ``n`` nodes goes through."""
    return bb_walk_additions(n, columns)


def predict_walk_bytes(int64_t n, int32_t columns, int32_t images, nodes=None):
    """Return the bytes of a walk with at most ``images`` images and points in slots.

    If nodes are spread over ranks, ``n`` are those of this one, and ``nodes`` all.
    """
    return bb_walk_bytes(n, n if nodes is None else nodes, columns, images)


cdef class GraphRanks:
    """Who has the other nodes of a graph.

    Parameters
    ----------
    ranks : Ranks
    bounds : ndarray of int64, shape (size + 1,)
        Rank r has the places ``bounds[r]`` to ``bounds[r + 1]``.
    windows : bool, default True
        With NCCL, messages are written to each other's memory if that is possible.
    """

    cdef readonly Ranks ranks
    cdef object bounds
    cdef bb_graph_ranks calls

    def __cinit__(self, Ranks ranks, bounds, bint windows=True):
        self.ranks, self.bounds = ranks, np.require(bounds, np.int64, ("C", "A"))
        if self.bounds.shape != (ranks.calls.size + 1,):
            raise ParameterError(f"bounds: found shape {self.bounds.shape}, expected {(ranks.calls.size + 1,)}")
        self.calls.calls = &ranks.calls
        if ranks.nccl is not None:
            self.calls.nccl = ranks.nccl.handle
        self.calls.bounds = <const int64_t*>_address(self.bounds)
        self.calls.windows = windows


cdef int _check_shared(GraphRanks shared, bb_status status) except -1:
    """As `check`, with the exception of an exchange between the ranks if there was one."""
    return check(status) if shared is None else shared.ranks.settle(status)


def _places(places, int64_t n):
    """Return the places of ``n`` nodes as the C interface takes them."""
    if places is None:
        return None
    found = np.require(places, np.uint32, ("C", "A"))
    if found.shape != (n,) or found.max(initial=0) >= n:
        raise ParameterError(f"places: expected {n} rows")
    return found


cdef const uint32_t* _address_of_places(places) except? NULL:
    if places is None:
        return NULL
    return <const uint32_t*>_address(places)


@cython.no_gc_clear
cdef class Nodes:
    """What walks need to know of the nodes of a graph.

    Parameters
    ----------
    light, rest : Matrix or None
        P' of the graph in float32. Without ``light``, light steps convert their vectors and use ``exact``. With
        ``rest``, the columns of ``light`` are the nodes of this rank, and those of ``rest`` all, with no entries at
        its own.
    exact : Matrix
        P' in float64; from now on all work on the same stream.
    lengths : ndarray of int, shape (n,)
        Entries of each row.
    scale : ndarray of float64, shape (n,)
        Factor of each node's entry in what it sends; 0 for a dangling node.
    places : ndarray of int, shape (n,), or None
        Row of each node; None if they are in the same order.
    beside : Nodes, optional
        Others of the same graph, to whose walks those of these may be added; its stream is used.
    shared : GraphRanks, optional
        If the matrices have the rows of one of several ranks. Then all ranks must make the same calls.
    all_places : ndarray of int, shape (n_all,), optional
        Of several ranks: as ``places``, of the nodes of all.

    Attributes
    ----------
    n, n_all : int
        Number of nodes of this rank and of all.
    """

    cdef bb_nodes* handle
    cdef readonly Matrix light, rest, exact
    cdef readonly int64_t n, n_all
    cdef Nodes beside
    cdef GraphRanks shared

    def __cinit__(
        self, Matrix light, Matrix rest, Matrix exact, lengths, scale, places, Nodes beside=None,
        GraphRanks shared=None, all_places=None,
    ):
        self.light, self.rest, self.exact, self.beside, self.shared = light, rest, exact, beside, shared
        self.n, self.n_all = exact._m, exact._d
        stream = (self if beside is None else beside).main.stream
        for matrix in (light, rest, exact):
            if matrix is not None and (matrix is not self.main or beside is not None):
                matrix.use_stream(stream)
        lengths = np.require(lengths, np.uint32, ("C", "A"))
        scale = _input(scale, (self.n,), "scale")
        if lengths.shape != (self.n,):
            raise ParameterError(f"lengths: found shape {lengths.shape}, expected {(self.n,)}")
        places, all_places = _places(places, self.n), _places(all_places, self.n_all)
        cdef const uint32_t* at = _address_of_places(places)
        cdef const uint32_t* all_at = _address_of_places(all_places)
        cdef const uint32_t* counts = <const uint32_t*>_address(lengths)
        cdef const double* factors = <const double*>_address(scale)
        cdef bb_transitions matrices
        matrices.light = matrices.rest = NULL
        if light is not None:
            matrices.light = light._get()
        if rest is not None:
            matrices.rest = rest._get()
        matrices.exact = exact._get()
        cdef const bb_graph_ranks* ranks = NULL
        if shared is not None:
            ranks = &shared.calls
        with nogil:
            check(bb_nodes_create(&matrices, counts, factors, at, all_at, ranks, &self.handle))

    @property
    def main(self):
        """The matrix whose memory and stream walks use."""
        return self.exact if self.light is None else self.light

    def __dealloc__(self):
        cdef bb_nodes* handle = self.handle
        self.handle = NULL
        if handle != NULL:
            with nogil:
                bb_nodes_destroy(handle)


@cython.no_gc_clear
cdef class Walk:
    """Walks on a graph: their base, and images and points in slots.

    Parameters
    ----------
    nodes : Nodes
    columns : int
        Number of walks, 1 to 32.
    damping : float
    v, u : ndarray of float64, shape (n,), or None
        Restart vector of a single walk, and where dangling nodes send their share, in the order of rows.
    entries : (rows, owners, shares) or None
        Restart vectors of several walks, sorted by row and walk.
    even : float
        Entries of the restart vectors without ``v`` and ``entries``.
    additions : (float, float)
        A row of L entries of the product in float64 has at most ``min(L, additions[0] + additions[1] * L)``
        additions.

    Raises
    ------
    DeviceMemoryError
        If there is not enough memory for the vectors.
    """

    cdef bb_walk* handle
    cdef readonly Nodes nodes
    cdef readonly int32_t columns

    def __cinit__(self, Nodes nodes, columns, double damping, v, u, entries, double even, additions):
        self.nodes, self.columns = nodes, <int32_t>_integer(columns, "columns", 1, BB_WALK_COLUMNS)
        cdef bb_walk_terms terms
        memset(&terms, 0, sizeof(terms))
        terms.damping, terms.v0 = damping, even
        terms.most, terms.per_entry = additions
        if v is not None:
            v = _input(v, (nodes.n,), "v")
            terms.v = <const double*>_address(v)
        if u is not None:
            u = _input(u, (nodes.n,), "u")
            terms.u = <const double*>_address(u)
        if entries is not None:
            rows, owners, shares = entries
            rows, owners = np.require(rows, np.int64, ("C", "A")), np.require(owners, np.int32, ("C", "A"))
            shares = _input(shares, (len(rows),), "shares")
            if not len(rows) or len(owners) != len(rows):
                raise ParameterError("entries: expected as many walks as rows, at least one")
            terms.rows = <const int64_t*>_address(rows)
            terms.owners = <const int32_t*>_address(owners)
            terms.shares = <const double*>_address(shares)
            terms.entries = len(rows)
        with nogil:
            self._check(bb_walk_create(nodes.handle, self.columns, &terms, &self.handle))

    def close(self):
        """Free the vectors."""
        cdef bb_walk* handle = self.handle
        self.handle = NULL
        if handle != NULL:
            with nogil:
                bb_walk_destroy(handle)

    def __dealloc__(self):
        self.close()

    cdef int _check(self, bb_status status) except -1 nogil:
        """As `check`, for calls in which ranks exchange something."""
        if status == BB_OK:
            return 0
        with gil:
            return _check_shared(self.nodes.shared, status)

    cdef bb_walk* _get(self) except NULL:
        if self.handle == NULL:
            raise ParameterError("walk: it was closed")
        return self.handle

    @property
    def has_window(self):
        """Whether the messages of light steps are written to the memory of other ranks."""
        return bool(bb_walk_has_window(self._get()))

    def place(self, int32_t slot, start):
        """Set the image of a slot to the restart vectors, or to 0 and the base to ``start`` in the order of rows."""
        cdef bb_walk* walk = self._get()
        cdef const double* source = NULL
        if start is not None:
            start = _input(start, (self.nodes.n,), "start")
            source = <const double*>_address(start)
        with nogil:
            check(bb_walk_place(walk, slot, source))

    def light_step(self, slots, factors, int32_t mixed, int32_t into, bint ahead):
        """Compute T of a mixture of images in float32; return the l1 norms of the residuals, over own nodes.

        Parameters
        ----------
        slots : sequence of int
        factors : ndarray of float64, shape (len(slots), columns), or None
        mixed, into : int
            Slots for the mixture and for its image.
        ahead : bool
            Queue a plain step from the image before this one has ended.

        Returns
        -------
        ndarray of float64, shape (columns,)
        """
        cdef bb_walk* walk = self._get()
        cdef bb_light_step step
        numbers = np.array(slots, np.int32)
        shares = None if factors is None else _input(factors, (len(numbers), self.columns), "factors")
        norms = np.empty(self.columns)
        step.slots, step.count = <const int32_t*>_address(numbers), len(numbers)
        step.factors = NULL
        if shares is not None:
            step.factors = <const double*>_address(shares)
        step.mixed, step.into, step.ahead = mixed, into, ahead
        cdef double* out = <double*>_address(norms)
        with nogil:
            self._check(bb_walk_light(walk, &step, out))
        return norms

    def exact_step(self, int32_t slot, int32_t into):
        """Move the base to the point of a slot, and compute its residual in float64, which goes into a slot.

        Returns
        -------
        ndarray of float64, shape (5, columns)
            l1 norms of the residuals, sums of T(x), these with each entry times the additions of its row, sums
            of x, and these over dangling nodes.
        """
        cdef bb_walk* walk = self._get()
        sums = np.empty((5, self.columns))
        cdef double* out = <double*>_address(sums)
        with nogil:
            self._check(bb_walk_exact(walk, slot, into, out))
        return sums

    def products(self, images, points):
        """Return the inner products of residuals, shape (len(images), len(images), columns).

        A residual is the image in a slot minus the point in another, or minus the base if that is negative.
        """
        cdef bb_walk* walk = self._get()
        there, here = np.array(images, np.int32), np.array(points, np.int32)
        cdef int32_t count = len(there)
        if len(here) != count:
            raise ParameterError(f"points: found {len(here)}, expected {count}")
        found = np.empty((count, count, self.columns))
        cdef const int32_t* at = <const int32_t*>_address(there)
        cdef const int32_t* minus = <const int32_t*>_address(here)
        cdef double* out = <double*>_address(found)
        with nogil:
            self._check(bb_walk_products(walk, at, minus, count, out))
        return found

    def top(self, int32_t slot, columns, int64_t count):
        """Return, per column, the nodes with the largest scores, and these, in descending order, ties by number."""
        cdef bb_walk* walk = self._get()
        count = min(count, self.nodes.n)
        chosen = np.array(columns, np.int32)
        cdef int32_t wanted = len(chosen)
        numbers, values = np.empty((wanted, count), np.int64), np.empty((wanted, count))
        cdef const int32_t* of = <const int32_t*>_address(chosen)
        cdef int64_t* nodes = <int64_t*>_address(numbers)
        cdef double* out = <double*>_address(values)
        with nogil:
            check(bb_walk_top(walk, slot, of, wanted, count, nodes, out))
        return list(zip(numbers, values))

    def get(self, int32_t slot, int32_t column, out=None):
        """Return the scores of all nodes in a column, in the order of their numbers, in ``out`` if it is given."""
        cdef bb_walk* walk = self._get()
        out = _output(out, (self.nodes.n_all,))
        cdef double* target = <double*>_address(out)
        with nogil:
            self._check(bb_walk_get(walk, slot, column, target))
        return out

    def take(self, Walk source, int32_t slot, columns):
        """Continue with some columns of other walks, after their exact step into a slot."""
        cdef bb_walk* walk = self._get()
        cdef bb_walk* other = source._get()
        chosen = np.array(columns, np.int32)
        if chosen.shape != (self.columns,):
            raise ParameterError(f"columns: found {len(chosen)}, expected {self.columns}")
        cdef const int32_t* at = <const int32_t*>_address(chosen)
        with nogil:
            check(bb_walk_take(walk, other, slot, at))


@cython.no_gc_clear
cdef class BasisVector:
    """A vector of a `Basis`; it goes back with the last reference."""

    cdef Basis basis
    cdef double* address

    def __dealloc__(self):
        if self.address != NULL and self.basis.handle != NULL:
            bb_basis_give(self.basis.handle, self.address)


@cython.no_gc_clear
cdef class Basis:
    """Vectors over the nodes of a graph for the Golub-Kahan process of a float64 matrix.

    Parameters
    ----------
    matrix : Matrix
        With its transpose, or without it if there is ``by_source``.
    by_source : Matrix, optional
        Of one of several ranks: the rows of the transpose of the whole matrix.
    shared : GraphRanks, optional
        The ranks; all must then make the same calls.
    places : ndarray of int, shape (n_all,), optional
        Row of each node, of all ranks, in the order of numbers; None if they are in the same order.
    """

    cdef bb_basis* handle
    cdef readonly Matrix matrix, by_source
    cdef int64_t n_all
    cdef GraphRanks shared

    def __cinit__(self, Matrix matrix, Matrix by_source=None, GraphRanks shared=None, places=None):
        if not matrix._transpose and by_source is None:
            raise ParameterError("matrix: built without its transpose")
        self.matrix, self.by_source, self.shared, self.n_all = matrix, by_source, shared, matrix._d
        places = _places(places, self.n_all)
        cdef const uint32_t* at = _address_of_places(places)
        cdef bb_matrix* X = matrix._get()
        cdef bb_matrix* Y = NULL
        cdef const bb_graph_ranks* ranks = NULL
        if by_source is not None:
            by_source.use_stream(matrix.stream)
            Y = by_source._get()
        if shared is not None:
            ranks = &shared.calls
        with nogil:
            check(bb_basis_create(X, Y, at, ranks, &self.handle))

    def __dealloc__(self):
        cdef bb_basis* handle = self.handle
        self.handle = NULL
        if handle != NULL:
            with nogil:
                bb_basis_destroy(handle)

    cdef int _check(self, bb_status status) except -1 nogil:
        """As `check`, for calls in which ranks exchange something."""
        if status == BB_OK:
            return 0
        with gil:
            return _check_shared(self.shared, status)

    cdef BasisVector _take(self):
        cdef BasisVector out = BasisVector.__new__(BasisVector)
        out.basis = self
        check(bb_basis_lend(self.handle, &out.address))
        return out

    cdef double* _of(self, BasisVector vector) except NULL:
        if vector.basis is not self:
            raise ParameterError("vector: it belongs elsewhere")
        return vector.address

    def filled(self, double value):
        """Return a vector with equal entries."""
        cdef BasisVector out = self._take()
        check(bb_basis_fill(self.handle, out.address, value))
        return out

    def apply(self, op, BasisVector vector):
        """Return ``X vector`` or ``X^T vector``; op is "normal" or "transposed"."""
        cdef bb_operator which = <bb_operator>_choice(op, OPERATORS, "op")
        cdef BasisVector out = self._take()
        cdef double* source = self._of(vector)
        with nogil:
            self._check(bb_basis_apply(self.handle, which, source, out.address))
        return out

    def orthogonalise(self, BasisVector vector, vectors):
        """Return a vector made orthogonal to an orthonormal basis, with length 1, and its old length."""
        cdef BasisVector out = self._take()
        cdef double* source = self._of(vector)
        cdef const double* others[BB_BASIS_VECTORS]
        cdef int32_t count = self._list(vectors, others)
        cdef double length
        with nogil:
            self._check(bb_basis_orthogonalise(self.handle, source, others, count, out.address, &length))
        return out, length

    def combine(self, vectors, factors):
        """Return the sum of factors times vectors."""
        cdef BasisVector out = self._take()
        cdef const double* others[BB_BASIS_VECTORS]
        cdef int32_t count = self._list(vectors, others)
        factors = _input(factors, (count,), "factors")
        cdef const double* shares = <const double*>_address(factors)
        with nogil:
            self._check(bb_basis_combine(self.handle, others, shares, count, out.address))
        return out

    cdef int32_t _list(self, vectors, const double** addresses) except -1:
        cdef int32_t count = <int32_t>_integer(len(vectors), "vectors", 0, BB_BASIS_VECTORS), k
        for k in range(count):
            addresses[k] = self._of(vectors[k])
        return count

    def distance(self, BasisVector vector, double factor, BasisVector other):
        """Return the length of ``vector - factor * other``."""
        cdef double* a = self._of(vector)
        cdef double* b = self._of(other)
        cdef double length
        with nogil:
            self._check(bb_basis_distance(self.handle, a, factor, b, &length))
        return length

    def distribution(self, BasisVector vector):
        """Return a vector with the sign that makes its sum positive, without negative entries, and with sum 1."""
        cdef BasisVector out = self._take()
        cdef double* source = self._of(vector)
        with nogil:
            self._check(bb_basis_distribution(self.handle, source, out.address))
        return out

    def get(self, BasisVector vector):
        """Return a vector of all nodes on the host, in the order of their numbers."""
        cdef double* source = self._of(vector)
        values = np.empty(self.n_all)
        cdef double* out = <double*>_address(values)
        with nogil:
            self._check(bb_basis_get(self.handle, source, out))
        return values
