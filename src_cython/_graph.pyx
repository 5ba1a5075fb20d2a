"""Graphs on the CPU: rows of edges (``graph/adjacency.h``), products (``graph/blocks.h``), walks (``graph/walk.h``)."""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libcpp cimport bool as cbool
from libcpp.memory cimport unique_ptr
from libcpp.vector cimport vector

import numpy as np

from bmrm.errors import ParameterError

include "common/vectors.pxi"
include "common/threads.pxi"


cdef extern from "graph/adjacency.h" namespace "bmrm" nogil:
    cdef enum class Duplicates:
        keep
        drop
        sum

    cdef cppclass ListedEdges:
        const int32_t* source
        const int32_t* target
        const double* weight
        const int32_t* rank
        int64_t nodes
        int64_t count

    cdef cppclass SortedEdges:
        int64_t kept
        void write(int64_t*, int32_t*, double*)

    unique_ptr[SortedEdges] sort_edges(const ListedEdges&, Duplicates, cbool, int) except +
    void count_ids(const int32_t*, int64_t, int64_t, int, int64_t*) except +
    void c_order_nodes "bmrm::order_nodes"(const int64_t*, const uint8_t*, int64_t, int, int32_t*, int32_t*) except +
    void add_weights_by_source(const int32_t*, const double*, int64_t, int64_t, double*) except +


cdef extern from "graph/blocks.h" namespace "bmrm" nogil:
    cdef cppclass EdgeBlocks:
        EdgeBlocks(const int64_t*, const int32_t*, const double*, int64_t, int) except +
        void multiply[T](const T*, T*) except +
        const int32_t* additions()
        int64_t bytes()


cdef extern from "graph/walk.h" namespace "bmrm" nogil:
    cdef struct Mixture:
        const float* const* vectors
        const double* factors
        int count

    cdef struct Residual:
        const float* image
        const float* point

    cdef struct Restarts:
        const int64_t* nodes
        const int64_t* columns
        const double* shares
        int64_t count

    cdef cppclass Terms[T]:
        T damping
        const double* c
        const T* v
        T v0
        const double* mass
        const T* u
        const float* constant
        Restarts restarts

    cdef struct WalkEdges:
        const EdgeBlocks* blocks
        const int64_t* ptr
        const int32_t* idx
        const double* val
        int64_t n

    const int kWalkColumns
    const int kExactColumns
    const int kWalkHistory
    int64_t row_additions(int64_t)
    int64_t additions_per_sum(const WalkEdges&, int64_t)
    void mix_images(const Mixture&, const float*, int64_t, int64_t, int, float*, float*, double*) except +
    void light_step(const WalkEdges&, const Terms[float]&, const float*, const float*, const float*, int64_t, int,
                    float*, float*, double*) except +
    void inner_products(const Residual*, int, int64_t, int64_t, int, double*) except +
    void move_base(const float*, const double*, const double*, int64_t, int64_t, int64_t, int, double*, double*,
                   double*) except +
    void exact_residual(const WalkEdges&, const Terms[double]&, const int32_t*, const double*, const double*, int64_t,
                        int64_t, int, double*, float*, double*) except +
    void residual_of_products(int64_t, const Terms[double]&, const int32_t*, const double*, const double*, int64_t,
                              int64_t, int, float*, double*) except +
    void total_points(const double*, const double*, int64_t, int64_t, int64_t, int, double*) except +
    void multiply_columns(const WalkEdges&, int64_t, int, const double*, double*) except +
    cdef struct Entry:
        double value
        int64_t node

    vector[vector[Entry]] largest_entries(const double*, const float*, int64_t, int64_t, const int64_t*, int64_t,
                                          int64_t, int) except +
    void collect_columns(const double*, const float*, const int32_t*, int64_t, int64_t, const int64_t*, int64_t, int,
                         double* const*) except +


cdef extern from "graph/basis.h" namespace "bmrm" nogil:
    void multiply_basis(const double* const*, int, const double*, int64_t, int, double*) except +
    double combine_basis(const double* const*, const double*, int, int64_t, int, double*) except +


EXACT_COLUMNS = kExactColumns
"""Maximum number of columns that an exact step computes at once."""

WIDTHS = (1, 4, 8, 16, 32)
"""Numbers of columns that the passes of a walk are compiled for."""

MAX_HISTORY = kWalkHistory
"""Maximum number of images or residuals that a pass reads."""

def sort_edges_by_target(
    const int32_t[::1] source, const int32_t[::1] target, weight, rank, int64_t n, str duplicates, bint drop_loops,
    threads=None
):
    """Build the compressed rows of the edges by target.

    Parameters
    ----------
    source, target : ndarray of int32, shape (edges,)
        Nodes from 0 to ``n - 1``; not checked.
    weight : ndarray of float64, shape (edges,), or None
    rank : ndarray of int32, shape (n,), or None
        Number of each node in the result; None leaves the numbers as they are.
    n : int
        At most 2^31 - 1.
    duplicates : {"keep", "drop", "sum"}
        What to do with an edge that is listed more than once; ``drop`` keeps the first, ``sum`` gives weights.
    drop_loops : bool
    threads : int, optional
        The result does not depend on it.

    Returns
    -------
    indptr : ndarray of int64, shape (n + 1,)
    sources : ndarray of int32
        In ascending order for each target.
    weights : ndarray of float64, or None
        None without weights, unless edges are summed.
    """
    cdef int64_t count = source.shape[0]
    cdef int T = _threads(threads)
    if target.shape[0] != count:
        raise ParameterError(f"target: found {target.shape[0]} nodes, expected {count}")
    rules = {"keep": Duplicates.keep, "drop": Duplicates.drop, "sum": Duplicates.sum}
    cdef Duplicates rule = rules[duplicates]
    given = None if weight is None else _input(weight, (count,), "weight")
    numbers = None if rank is None else np.require(rank, np.int32, ("C", "A"))
    if numbers is not None and numbers.shape != (n,):
        raise ParameterError(f"rank: found shape {numbers.shape}, expected ({n},)")
    cdef ListedEdges listed
    listed.source = <const int32_t*>_address(np.asarray(source))
    listed.target = <const int32_t*>_address(np.asarray(target))
    listed.weight = _numbers_of(given)
    listed.rank = NULL
    if numbers is not None:
        listed.rank = <const int32_t*>_address(numbers)
    listed.nodes, listed.count = n, count
    cdef unique_ptr[SortedEdges] edges
    with nogil:
        edges = sort_edges(listed, rule, drop_loops, T)
    indptr, idx = np.empty(n + 1, np.int64), np.empty(edges.get().kept, np.int32)
    val = None if weight is None and duplicates != "sum" else np.empty(edges.get().kept)
    cdef int64_t* p = <int64_t*>_address(indptr)
    cdef int32_t* i = <int32_t*>_address(idx)
    cdef double* v = <double*>_numbers_of(val)
    with nogil:
        edges.get().write(p, i, v)
        edges.reset()
    return indptr, idx, val


def count_nodes(const int32_t[::1] ids, int64_t n, threads=None):
    """Return how often each of the nodes 0 to ``n - 1`` occurs; ids are not checked."""
    cdef int T = _threads(threads)
    counts = np.empty(n, np.int64)
    cdef const int32_t* s = <const int32_t*>_address(np.asarray(ids))
    cdef int64_t* out = <int64_t*>_address(counts)
    cdef int64_t count = ids.shape[0]
    with nogil:
        count_ids(s, count, n, T, out)
    return counts


def order_nodes(int64_t n, counts, groups, threads=None):
    """Order nodes by their groups, then by their counts, the largest first, then by their numbers.

    Parameters
    ----------
    n : int
    counts : ndarray of int64, shape (n,), or None
    groups : ndarray of uint8, shape (n,), or None
        From 0 to 3.
    threads : int, optional

    Returns
    -------
    order : ndarray of int32
        The nodes in that order.
    rank : ndarray of int32
        The place of each node.
    """
    cdef int T = _threads(threads)
    cdef const int64_t* c = NULL
    cdef const uint8_t* g = NULL
    if counts is not None:
        counts = np.require(counts, np.int64, ("C", "A"))
        c = <const int64_t*>_address(counts)
    if groups is not None:
        groups = np.require(groups, np.uint8, ("C", "A"))
        g = <const uint8_t*>_address(groups)
    for given in (counts, groups):
        if given is not None and given.shape != (n,):
            raise ParameterError(f"nodes: found shape {given.shape}, expected ({n},)")
    order, rank = np.empty(n, np.int32), np.empty(n, np.int32)
    cdef int32_t* o = <int32_t*>_address(order)
    cdef int32_t* r = <int32_t*>_address(rank)
    with nogil:
        c_order_nodes(c, g, n, T, o, r)
    return order, rank


def sum_weights_by_source(const int32_t[::1] sources, const double[::1] weights, int64_t n):
    """Return the sum of the weights of the edges of each source, to about 2 units in the last place."""
    if sources.shape[0] != weights.shape[0]:
        raise ParameterError(f"weights: found {weights.shape[0]}, expected {sources.shape[0]}")
    sums = np.empty(n)
    cdef const int32_t* s = <const int32_t*>_address(np.asarray(sources))
    cdef const double* w = _numbers_of(np.asarray(weights))
    cdef double* out = <double*>_address(sums)
    cdef int64_t count = sources.shape[0]
    with nogil:
        add_weights_by_source(s, w, count, n, out)
    return sums


def largest(base, e, columns, int64_t count, threads=None):
    """Return the places of the largest positive entries of some columns of ``base + e``, and the entries.

    Parameters
    ----------
    base : ndarray of float64, shape (n, K)
    e : ndarray of float32, of the same shape
        K is one of `WIDTHS`.
    columns : sequence of int
        Different ones.
    count : int
        At least 1.
    threads : int, optional

    Returns
    -------
    list of (ndarray of int64, ndarray of float64)
        Per column: up to ``count`` entries, and all that equal the last of them, in any order.
    """
    cdef int T = _threads(threads)
    cdef int64_t n = base.shape[0], K = base.shape[1], c, i
    numbers = np.array(columns, np.int64)
    for array, kind in ((base, np.float64), (e, np.float32)):
        if array.dtype != kind or array.shape != (n, K) or not array.flags.c_contiguous:
            raise ParameterError(f"base, e: found {array.dtype} of shape {array.shape}, expected {(n, K)}")
    if K not in WIDTHS or count < 1 or (len(numbers) and not 0 <= numbers.min() <= numbers.max() < K):
        raise ParameterError(f"columns: found {list(columns)} of {K}, expected some of {WIDTHS}")
    cdef const double* x = <const double*>_address(base)
    cdef const float* change = <const float*>_address(e)
    cdef const int64_t* chosen = <const int64_t*>_address(numbers)
    cdef int64_t wanted = len(numbers)
    cdef vector[vector[Entry]] entries
    with nogil:
        entries = largest_entries(x, change, n, K, chosen, wanted, count, T)
    found = []
    cdef int64_t[::1] places
    cdef double[::1] values
    for c in range(wanted):
        place, value = np.empty(entries[c].size(), np.int64), np.empty(entries[c].size())
        places, values = place, value
        for i in range(places.shape[0]):
            places[i], values[i] = entries[c][i].node, entries[c][i].value
        found.append((place, value))
    return found


cdef inline const double* _numbers_of(array) except? NULL:
    """Return the address of an array of float64, NULL for None."""
    if array is None:
        return NULL
    return <const double*>_address(array)


cdef _counts(given, int64_t n):
    """Return counts as an array of int32 that kernels may read."""
    found = np.require(given, np.int32, ("C", "A"))
    if found.shape != (n,):
        raise ParameterError(f"additions: found shape {found.shape}, expected ({n},)")
    return found


cdef inline const float* _floats_of(array) except? NULL:
    if array is None:
        return NULL
    return <const float*>_address(array)


cdef _addresses(basis, int64_t n, vector[const double*]& found):
    """Collect the addresses of vectors, which the caller keeps alive."""
    for each in basis:
        found.push_back(<const double*>_address(_output(each, (n,))))


def basis_products(basis, w, threads=None):
    """Return the inner products of a vector with some others, all arrays of float64 and shape (n,).

    Their order of summation depends on n alone.
    """
    cdef int64_t n = len(w)
    cdef int count = len(basis), T = _threads(threads)
    cdef vector[const double*] vectors
    _addresses(basis, n, vectors)
    found = np.empty(count)
    cdef const double* x = <const double*>_address(_output(w, (n,)))
    cdef double* out = <double*>_address(found)
    with nogil:
        multiply_basis(vectors.data(), count, x, n, T, out)
    return found


def add_basis(basis, factors, w, threads=None):
    """Add factors times vectors to ``w``; return the sum of the squares of its entries."""
    cdef int64_t n = len(w)
    cdef int count = len(basis), T = _threads(threads)
    cdef vector[const double*] vectors
    _addresses(basis, n, vectors)
    times = _input(factors, (count,), "factors")
    cdef const double* by = _numbers_of(times)
    cdef double* out = <double*>_address(_output(w, (n,)))
    cdef double square
    with nogil:
        square = combine_basis(vectors.data(), by, count, n, T, out)
    return square


cdef class Edges:
    """The edges of a graph by target, laid out for products with one vector and with several.

    Parameters
    ----------
    starts : ndarray of int64, shape (n + 1,)
    sources : ndarray of int32, shape (edges,)
        In ascending order for each target; not checked.
    weights : ndarray of float64, shape (edges,), or None
    threads : int, optional
    n_sources : int, optional
        Number of sources; default: n, since targets and sources are the same nodes.

    Attributes
    ----------
    n, n_sources : int
    nbytes : int
        Of the layout; the arrays that were given are kept too.
    """

    cdef object starts, sources, weights, in_rows
    cdef EdgeBlocks* blocks
    cdef WalkEdges view
    cdef int threads
    cdef readonly int64_t n, n_sources

    def __cinit__(self, starts, sources, weights=None, threads=None, *, n_sources=None):
        self.starts = np.require(starts, np.int64, ("C", "A"))
        self.sources = np.require(sources, np.int32, ("C", "A"))
        self.weights = None if weights is None else _input(weights, self.sources.shape, "weights")
        self.n, self.threads = len(self.starts) - 1, _threads(threads)
        self.n_sources = self.n if n_sources is None else n_sources
        if self.n < 0 or self.starts[self.n] != len(self.sources):
            raise ParameterError(f"starts: expected an array that ends with {len(self.sources)}")
        self.view.ptr = <const int64_t*>_address(self.starts)
        self.view.idx = <const int32_t*>_address(self.sources)
        self.view.val = _numbers_of(self.weights)
        self.view.n = self.n
        with nogil:
            self.blocks = new EdgeBlocks(self.view.ptr, self.view.idx, self.view.val, self.n, self.threads)
        self.view.blocks = self.blocks

    def __dealloc__(self):
        del self.blocks

    @property
    def nbytes(self):
        return self.blocks.bytes()

    def multiply(self, z):
        """Return the sums over the edges of each target of ``z`` at the source, times the weight.

        Parameters
        ----------
        z : ndarray of float32 or float64, shape (n_sources,)
        """
        given = np.require(z, requirements=("C", "A"))
        if given.shape != (self.n_sources,) or given.dtype not in (np.float32, np.float64):
            raise ParameterError(f"z: expected float32 or float64 of shape {(self.n_sources,)}")
        out = np.empty(self.n, given.dtype)
        cdef void* source = _address(given)
        cdef void* target = _address(out)
        cdef bint single = given.dtype == np.float32
        with nogil:
            if single:
                self.blocks.multiply[float](<const float*>source, <float*>target)
            else:
                self.blocks.multiply[double](<const double*>source, <double*>target)
        return out

    def multiply_columns(self, z, out):
        """Write the same sums for some columns at once.

        Parameters
        ----------
        z : ndarray of float64, shape (n_sources, W)
            W is 1, 4 or 8.
        out : ndarray of float64, shape (n, W)
        """
        width = 0 if z.ndim != 2 else z.shape[1]
        if width > kExactColumns or width not in WIDTHS:
            raise ParameterError(f"z: found shape {z.shape}, expected {self.n_sources} rows of 1, 4 or 8")
        given, found = _input(z, (self.n_sources, width), "z"), _output(out, (self.n, width))
        cdef const double* source = <const double*>_address(given)
        cdef double* target = <double*>_address(found)
        cdef int64_t W = width
        with nogil:
            multiply_columns(self.view, W, self.threads, source, target)

    def count_additions(self, int64_t columns):
        """Return how many additions a term of each target's sum goes through, an upper bound, as int32.

        The sum is that of a product in float64 with this number of columns.
        """
        cdef const int32_t* counts = self.blocks.additions()
        if columns > 1 and self.in_rows is None:
            self.in_rows = np.array([row_additions(k) for k in range(1024)], np.int32)[
                np.minimum(np.diff(self.starts), 1023)
            ]
            for i in np.flatnonzero(np.diff(self.starts) > 1023):
                self.in_rows[i] = row_additions(self.starts[i + 1] - self.starts[i])
        if columns > 1:
            return self.in_rows
        found = np.empty(self.n, np.int32)
        if self.n:
            found[:] = <int32_t[:self.n]><int32_t*>counts
        return found


cdef class Walks:
    """The steps of walks over vectors of K columns, arrays of shape (n, K).

    Parameters
    ----------
    edges : Edges
    scale : ndarray of float64, shape (n,)
        Factor of each node's entry in what it sends; 0 for a dangling node.
    columns : int
        K, one of `WIDTHS`.
    damping : float
    v, u : ndarray of float64, shape (n,), or None
        Restart vector of one column, and where dangling nodes send their share. Without ``v``, each of its
        entries is ``v0``; without ``u``, it is the restart vector.
    v0 : float
    restarts : (nodes, columns, shares) or None
        Entries of the restart vectors of several columns, sorted by node: arrays of int64, int64 and float64.
    additions : ndarray of int32, shape (n,), optional
        If products are computed elsewhere too. Default: those of ``edges``.

    Attributes
    ----------
    additions : ndarray of int32, shape (n,)
        Maximum number of additions that a term of each target's sum goes through in an exact step.
    """

    cdef Edges edges
    cdef object scale, light_scale, v, light_v, u, light_u, restarts
    cdef readonly object additions
    cdef int64_t n, K
    cdef Terms[float] light
    cdef Terms[double] exact
    cdef cbool lost_restarts  # whether the dangling nodes send their share to v, not to u
    cdef vector[double] factors, mass

    def __init__(self, Edges edges, scale, int64_t columns, double damping, v, double v0, u, restarts,
                 additions=None):
        if columns not in WIDTHS:
            raise ParameterError(f"columns: found {columns}, expected one of {WIDTHS}")
        if (columns > 1 and v is not None) or (columns == 1 and restarts is not None):
            raise ParameterError("v, restarts: expected a vector for one column, entries for several")
        self.edges, self.n, self.K = edges, edges.n, columns
        self.scale = _input(scale, (self.n,), "scale")
        self.v = None if v is None else _input(v, (self.n,), "v")
        self.u = None if u is None else _input(u, (self.n,), "u")
        self.light_scale, self.light_v, self.light_u = (
            None if each is None else each.astype(np.float32) for each in (self.scale, self.v, self.u)
        )
        self.additions = edges.count_additions(columns) if additions is None else _counts(additions, self.n)
        self.factors.resize(columns)
        self.mass.resize(columns)
        self.light.damping, self.exact.damping = damping, damping
        self.light.v0 = self.exact.v0 = v0 if v is None else 0.0
        self.light.v, self.exact.v = _floats_of(self.light_v), _numbers_of(self.v)
        self.light.u, self.exact.u = _floats_of(self.light_u), _numbers_of(self.u)
        self.light.c, self.exact.c = self.factors.data(), self.factors.data()
        self.light.mass, self.exact.mass = self.mass.data(), self.mass.data()
        self.exact.constant = NULL
        self.light.restarts.count = 0
        if restarts is not None:
            nodes, owners = (np.require(each, np.int64, ("C", "A")) for each in restarts[:2])
            shares = _input(restarts[2], (len(nodes),), "restarts")
            if len(owners) != len(nodes) or (len(nodes) and (
                    nodes[0] < 0 or nodes[len(nodes) - 1] >= self.n or (np.diff(nodes) < 0).any()
                    or owners.min() < 0 or owners.max() >= columns)):
                raise ParameterError("restarts: expected sorted nodes and columns in range")
            self.restarts = nodes, owners, shares
            self.light.restarts.nodes = <const int64_t*>_address(nodes)
            self.light.restarts.columns = <const int64_t*>_address(owners)
            self.light.restarts.shares = _numbers_of(shares)
            self.light.restarts.count = len(nodes)
        self.exact.restarts = self.light.restarts
        self.lost_restarts = u is None

    cdef void* _vector(self, array, kind, str name, columns=None, rows=None) except? NULL:
        """Return the address of a vector, which the caller keeps alive."""
        shape = (self.n if rows is None else rows, self.K if columns is None else columns)
        if array.shape != shape or array.dtype != kind or not array.flags.c_contiguous or not array.flags.writeable:
            raise ParameterError(f"{name}: expected a writeable array of {np.dtype(kind)} in C order of shape {shape}")
        return _address(array)

    def mix(self, images, factors, x, z):
        """Mix images to a point and compute what each node sends.

        Parameters
        ----------
        images : sequence of ndarray of float32
        factors : ndarray of float64, shape (len(images), K), or None
            None: the point is the only image, and ``x`` is not written.
        x, z : ndarray of float32
            Where to write the point and the messages.

        Returns
        -------
        ndarray of float64, shape (K,)
            The sum of the point over the dangling nodes.
        """
        cdef int count = len(images)
        if not 1 <= count <= kWalkHistory or (factors is None and count != 1):
            raise ParameterError(f"images: found {count}, expected 1 to {kWalkHistory}, or 1 without factors")
        cdef vector[const float*] addresses
        for each in images:
            addresses.push_back(<const float*>self._vector(each, np.float32, "images"))
        mixed = None if factors is None else _input(factors, (count, self.K), "factors")
        lost = np.empty(self.K)
        cdef Mixture mixture
        mixture.vectors, mixture.factors, mixture.count = addresses.data(), _numbers_of(mixed), count
        cdef float* point = <float*>self._vector(x, np.float32, "x")
        cdef float* sent = <float*>self._vector(z, np.float32, "z")
        cdef const float* s = _floats_of(self.light_scale)
        cdef double* out = <double*>_address(lost)
        with nogil:
            mix_images(mixture, s, self.n, self.K, self.edges.threads, point, sent, out)
        return lost

    @property
    def additions_per_sum(self):
        """Maximum number of additions that a term of the sums of an exact step goes through."""
        return additions_per_sum(self.edges.view, min(self.K, kExactColumns))

    def light_step(self, double restart, constant, const double[::1] lost, x, z, g, sent):
        """Compute the image g of x in float32, and the messages of g.

        Parameters
        ----------
        restart : float
            Factor of the restart vector, besides the share of the dangling nodes.
        constant : ndarray of float32, or None
            What is added.
        lost : ndarray of float64, shape (K,)
            The sum of x over the dangling nodes.
        x : ndarray of float32
            The point.
        z : ndarray of float32, shape (n_sources, K)
            The messages of all points.
        g, sent : ndarray of float32
            Where to write the image and its messages.

        Returns
        -------
        ndarray of float64, shape (3, K)
            The l1 norm of ``g - x``, the sum of g over the dangling nodes, and the sum of g.
        """
        cdef int64_t k
        if lost.shape[0] != self.K:
            raise ParameterError(f"lost: found {lost.shape[0]} sums, expected {self.K}")
        for k in range(self.K):
            self.factors[k] = restart + (self.light.damping * lost[k] if self.lost_restarts else 0.0)
            self.mass[k] = 0.0 if self.lost_restarts else self.light.damping * lost[k]
        self.light.constant = NULL
        if constant is not None:
            self.light.constant = <const float*>self._vector(constant, np.float32, "constant")
        sums = np.empty((3, self.K))
        cdef const float* s = _floats_of(self.light_scale)
        cdef const float* point = <const float*>self._vector(x, np.float32, "x")
        cdef float* image = <float*>self._vector(g, np.float32, "g")
        cdef const float* messages = <const float*>self._vector(z, np.float32, "z", self.K, self.edges.n_sources)
        cdef float* to = <float*>self._vector(sent, np.float32, "sent")
        if sent is z:
            raise ParameterError("sent: expected another array than z, which all nodes read")
        cdef double* out = <double*>_address(sums)
        with nogil:
            light_step(self.edges.view, self.light, s, point, messages, self.K, self.edges.threads, image, to, out)
        return sums

    def exact_step(self, e, factor, base, residual, z, y, peers=None):
        """Replace the base by x = (base + e) times factor, or 0 if that is negative; compute ``T(x) - x``.

        Parameters
        ----------
        e : ndarray of float32
        factor : ndarray of float64, shape (K,)
        base : ndarray of float64
        residual : ndarray of float32
            Where to write the residual; may be ``e``.
        z : ndarray of float64, shape (n, min(K, 8))
            Room for messages.
        y : ndarray of float64, shape (n, 1), or None
            Room for products; with several columns None.
        peers : Peers, optional
            The processes that have the other nodes.

        Returns
        -------
        ndarray of float64, shape (5, K)
            The l1 norm of the residual, the sum of T(x), the sum of T(x) times the additions of each node's sum,
            the sum of x, and that of x over the dangling nodes; over all processes.
        """
        width = min(self.K, kExactColumns)
        sums, times = np.empty((5, self.K)), _input(factor, (self.K,), "factor")
        for column in range(0, self.K, width):
            some = slice(column, column + width)
            moved = self._move(column, e, times, base, z)
            sums[3:, some] = moved if peers is None else peers.total(moved)
            messages = z if peers is None else peers.whole(z)
            found = self._residual(column, sums[4, some], base, residual, messages, y)
            sums[:3, some] = found if peers is None else peers.total(found)
        return sums

    def move(self, int64_t column, e, base, z):
        """Move some columns of the base by e, as the first half of an exact step.

        Parameters
        ----------
        column : int
            The first of them.
        e, base, z : ndarray
            As in `exact_step`.

        Returns
        -------
        ndarray of float64, shape (2, min(K, 8))
            The sum of x, and that of x over the dangling nodes.
        """
        self._check_column(column)
        return self._move(column, e, np.ones(self.K), base, z)

    def total(self, int64_t column, base):
        """Return the same sums of some columns of a base, in the order and number of `exact_step`'s additions."""
        self._check_column(column)
        sums = np.empty((2, min(self.K, kExactColumns)))
        cdef const double* s = _numbers_of(self.scale)
        cdef const double* x = <const double*>self._vector(base, np.float64, "base")
        cdef double* out = <double*>_address(sums)
        with nogil:
            total_points(x, s, self.n, self.K, column, self.edges.threads, out)
        return sums

    def residual(self, int64_t column, const double[::1] lost, base, residual, y):
        """Compute the residual of some columns from their products, as the second half of an exact step.

        Parameters
        ----------
        column : int
        lost : ndarray of float64, shape (min(K, 8),)
            The sums of x over the dangling nodes.
        base, residual : ndarray
            As in `exact_step`.
        y : ndarray of float64, shape (n, min(K, 8))
            The products of the messages.

        Returns
        -------
        ndarray of float64, shape (3, min(K, 8))
            The l1 norm of the residual, the sum of T(x), and that of T(x) times the additions of each node's sum.
        """
        self._check_column(column)
        width = min(self.K, kExactColumns)
        if lost.shape[0] != width:
            raise ParameterError(f"lost: found {lost.shape[0]} sums, expected {width}")
        self._set_factors(column, lost)
        sums = np.empty((3, width))
        cdef const int32_t* additions = <const int32_t*>_address(self.additions)
        cdef const double* x = <const double*>self._vector(base, np.float64, "base")
        cdef float* to = <float*>self._vector(residual, np.float32, "residual")
        cdef const double* products = <const double*>self._vector(y, np.float64, "y", width)
        cdef double* out = <double*>_address(sums)
        with nogil:
            residual_of_products(self.n, self.exact, additions, x, products, self.K, column, self.edges.threads,
                                 to, out)
        return sums

    cdef _check_column(self, int64_t column):
        if not 0 <= column < self.K or column % min(self.K, kExactColumns):
            raise ParameterError(f"column: found {column}, expected the first of {min(self.K, kExactColumns)}")

    cdef _set_factors(self, int64_t column, const double[::1] lost):
        """Set the factors of the restarts of an exact step."""
        cdef int64_t k
        for k in range(lost.shape[0]):
            share = self.exact.damping * lost[k]
            self.factors[column + k] = 1.0 - self.exact.damping + (share if self.lost_restarts else 0.0)
            self.mass[column + k] = 0.0 if self.lost_restarts else share

    cdef _move(self, int64_t column, e, times, base, z):
        """Move some columns of the base; return the sum of x, and that over the dangling nodes."""
        width = min(self.K, kExactColumns)
        sums = np.empty((2, width))
        cdef const double* by = _numbers_of(times)
        cdef const double* s = _numbers_of(self.scale)
        cdef const float* change = <const float*>self._vector(e, np.float32, "e")
        cdef double* x = <double*>self._vector(base, np.float64, "base")
        cdef double* sent = <double*>self._vector(z, np.float64, "z", width)
        cdef double* out = <double*>_address(sums)
        with nogil:
            move_base(change, by, s, self.n, self.K, column, self.edges.threads, x, sent, out)
        return sums

    cdef _residual(self, int64_t column, lost, base, residual, z, y):
        """Compute the residual of some columns; return its norm, the sum of T(x), and that times additions."""
        width = min(self.K, kExactColumns)
        self._set_factors(column, lost)
        sums = np.empty((3, width))
        cdef const int32_t* additions = <const int32_t*>_address(self.additions)
        cdef const double* x = <const double*>self._vector(base, np.float64, "base")
        cdef float* to = <float*>self._vector(residual, np.float32, "residual")
        cdef const double* messages = <const double*>self._vector(z, np.float64, "z", width, self.edges.n_sources)
        cdef double* room = NULL
        if self.K == 1:
            room = <double*>self._vector(y, np.float64, "y", 1)
        cdef double* out = <double*>_address(sums)
        with nogil:
            exact_residual(self.edges.view, self.exact, additions, x, messages, self.K, column, self.edges.threads,
                           room, to, out)
        return sums

    def products(self, images, points):
        """Return the inner products of the residuals, images minus points, shape (images, images, K).

        Parameters
        ----------
        images, points : sequence of ndarray of float32
            A point may be None: then the residual is the image.
        """
        cdef int count = len(images)
        if not 1 <= count <= kWalkHistory or len(points) != count:
            raise ParameterError(f"images: found {count}, expected 1 to {kWalkHistory} and as many points")
        cdef vector[Residual] residuals
        cdef Residual residual
        for image, point in zip(images, points):
            residual.image = <const float*>self._vector(image, np.float32, "images")
            residual.point = NULL
            if point is not None:
                residual.point = <const float*>self._vector(point, np.float32, "points")
            residuals.push_back(residual)
        found = np.empty((count, count, self.K))
        cdef double* out = <double*>_address(found)
        with nogil:
            inner_products(residuals.data(), count, self.n, self.K, self.edges.threads, out)
        return found

    def collect(self, base, e, places, columns, out):
        """Write base + e, or 0 if that is negative, of some columns to vectors of their own.

        Parameters
        ----------
        base : ndarray of float64
        e : ndarray of float32
        places : ndarray of int32, shape (n,), or None
            Entry i of the vectors is that of node ``places[i]``; not checked. None: of node i.
        columns : sequence of int
        out : sequence of ndarray of float64, shape (n,)
        """
        numbers = np.array(columns, np.int64)
        if len(out) != len(numbers) or (len(numbers) and not 0 <= numbers.min() <= numbers.max() < self.K):
            raise ParameterError(f"columns: expected {len(out)} from 0 to {self.K - 1}")
        cdef vector[double*] targets
        for each in out:
            targets.push_back(<double*>_address(_output(each, (self.n,))))
        cdef const int32_t* p = NULL
        if places is not None:
            places = np.require(places, np.int32, ("C", "A"))
            if places.shape != (self.n,):
                raise ParameterError(f"places: found shape {places.shape}, expected {(self.n,)}")
            p = <const int32_t*>_address(places)
        cdef const double* x = <const double*>self._vector(base, np.float64, "base")
        cdef const float* change = <const float*>self._vector(e, np.float32, "e")
        cdef const int64_t* chosen = <const int64_t*>_address(numbers)
        cdef int64_t count = len(numbers)
        with nogil:
            collect_columns(x, change, p, self.n, self.K, chosen, count, self.edges.threads, targets.data())
