"""Graphs on the CPU: compressed rows from edges (``graph/adjacency.h``), the passes of a walk (``graph/passes.h``)."""

from libc.stdint cimport int32_t, int64_t
from libcpp cimport bool as cbool
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

    cdef cppclass PlainEdge:
        pass

    cdef cppclass WeightedEdge:
        pass

    int64_t build_rows[Edge](const int32_t*, const int32_t*, const double*, const int32_t*, int64_t, int64_t,
                             Duplicates, cbool, int64_t*, int32_t*, double*) except +
    void count_ids(const int32_t*, int64_t, int64_t, int64_t*)
    void add_weights_by_source(const int32_t*, const double*, int64_t, int64_t, double*) except +


cdef extern from "graph/passes.h" namespace "bmrm" nogil:
    cdef struct GraphMixture:
        const double* const* vectors
        const double* factors
        int count

    cdef struct GraphRestarts:
        const int64_t* rows
        const int64_t* columns
        const double* values
        int64_t count

    cdef struct GraphTerms:
        double damping
        const double* c
        const double* v
        double v0
        const double* mass
        const double* u
        const double* b
        GraphRestarts restarts

    const int kGraphColumns
    const int kGraphHistory
    int64_t additions_per_sum(int64_t, int64_t)
    void graph_messages(const GraphMixture&, const double*, int64_t, int64_t, int, double*, double*, double*) except +
    void graph_update(const GraphTerms&, const double*, const double*, int64_t, int64_t, double*, double*, double*,
                      int, double*) except +
    void graph_products(const double* const*, int, int64_t, int64_t, int, double*) except +
    void graph_weighted_sums(const double*, const double*, int64_t, int64_t, int, double*) except +


MAX_COLUMNS = kGraphColumns
"""Maximum number of columns of a walk."""

MAX_HISTORY = kGraphHistory
"""Maximum number of earlier residuals or points that a pass reads."""

def sort_edges_by_target(
    const int32_t[::1] source, const int32_t[::1] target, weight, rank, int64_t n, str duplicates, bint drop_loops
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

    Returns
    -------
    indptr : ndarray of int64, shape (n + 1,)
    sources : ndarray of int32
        In ascending order for each target.
    weights : ndarray of float64, or None
        None without weights, unless edges are summed.
    """
    cdef int64_t count = source.shape[0], kept
    if target.shape[0] != count:
        raise ParameterError(f"target: found {target.shape[0]} nodes, expected {count}")
    rules = {"keep": Duplicates.keep, "drop": Duplicates.drop, "sum": Duplicates.sum}
    cdef Duplicates rule = rules[duplicates]
    indptr, idx = np.empty(n + 1, np.int64), np.empty(count, np.int32)
    val = None if weight is None and duplicates != "sum" else np.empty(count)
    given = None if weight is None else _input(weight, (count,), "weight")
    numbers = None if rank is None else np.require(rank, np.int32, ("C", "A"))
    if numbers is not None and numbers.shape != (n,):
        raise ParameterError(f"rank: found shape {numbers.shape}, expected ({n},)")
    cdef const int32_t* s = <const int32_t*>_address(np.asarray(source))
    cdef const int32_t* t = <const int32_t*>_address(np.asarray(target))
    cdef const int32_t* r = NULL
    if numbers is not None:
        r = <const int32_t*>_address(numbers)
    cdef const double* w = _numbers_of(given)
    cdef int64_t* p = <int64_t*>_address(indptr)
    cdef int32_t* i = <int32_t*>_address(idx)
    cdef double* v = NULL
    if val is not None:
        v = <double*>_address(val)
    with nogil:
        if w == NULL:
            kept = build_rows[PlainEdge](s, t, w, r, n, count, rule, drop_loops, p, i, v)
        else:
            kept = build_rows[WeightedEdge](s, t, w, r, n, count, rule, drop_loops, p, i, v)
    if kept < count:
        idx = idx[:kept].copy()
        val = None if val is None else val[:kept].copy()
    return indptr, idx, val


def count_nodes(const int32_t[::1] ids, int64_t n):
    """Return how often each of the nodes 0 to ``n - 1`` occurs; ids are not checked."""
    counts = np.empty(n, np.int64)
    cdef const int32_t* s = <const int32_t*>_address(np.asarray(ids))
    cdef int64_t* out = <int64_t*>_address(counts)
    cdef int64_t count = ids.shape[0]
    with nogil:
        count_ids(s, count, n, out)
    return counts


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


def count_additions(int64_t n, int64_t columns):
    """Return the maximum number of additions that a term of a sum over ``n`` nodes goes through."""
    return additions_per_sum(n, columns)


cdef inline const double* _numbers_of(array) except? NULL:
    """Return the address of an array of float64, NULL for None."""
    if array is None:
        return NULL
    return <const double*>_address(array)


cdef class Passes:
    """The passes of a walk over vectors of K columns, arrays of float64 and shape (n, K).

    Parameters
    ----------
    scale : ndarray of float64, shape (n,)
        Factor of each node's entry in what it sends; 0 for a dangling node.
    columns : int
    threads : int, optional
    """

    cdef object scale
    cdef int64_t n, K
    cdef int threads

    def __init__(self, scale, int64_t columns, threads=None):
        if not 1 <= columns <= kGraphColumns:
            raise ParameterError(f"columns: found {columns}, expected 1 to {kGraphColumns}")
        self.n, self.K, self.threads = len(scale), columns, _threads(threads)
        self.scale = _input(scale, (self.n,), "scale")

    cdef const double* _read(self, array, str name) except? NULL:
        """Return the address of a vector, which the caller keeps alive."""
        if array.shape != (self.n, self.K) or array.dtype != np.float64 or not array.flags.c_contiguous:
            raise ParameterError(f"{name}: expected float64 in C order of shape {(self.n, self.K)}")
        return _numbers_of(array)

    cdef double* _write(self, array, str name) except? NULL:
        if not array.flags.writeable:
            raise ParameterError(f"{name}: expected a writeable array")
        return <double*>self._read(array, name)

    def messages(self, vectors, factors, x, z):
        """Mix vectors to a point and compute what each node sends.

        Parameters
        ----------
        vectors : sequence of ndarray
        factors : ndarray of float64, shape (len(vectors), K), or None
            None: the point is the only vector, and ``x`` is not written.
        x, z : ndarray
            Where to write the point and the messages.

        Returns
        -------
        ndarray of float64, shape (2, K)
            The sum of the point, and its sum over the dangling nodes.
        """
        cdef int count = len(vectors)
        if not 1 <= count <= kGraphHistory or (factors is None and count != 1):
            raise ParameterError(f"vectors: found {count}, expected 1 to {kGraphHistory}, or 1 without factors")
        cdef vector[const double*] addresses
        for each in vectors:
            addresses.push_back(self._read(each, "vectors"))
        mixed = None if factors is None else _input(factors, (count, self.K), "factors")
        sums = np.empty((2, self.K))
        cdef GraphMixture mixture
        mixture.vectors = addresses.data()
        mixture.factors = _numbers_of(mixed)
        mixture.count = 0 if mixed is None else count
        cdef double* point = NULL
        if mixed is not None:
            point = self._write(x, "x")
        cdef double* sent = self._write(z, "z")
        cdef const double* s = _numbers_of(self.scale)
        cdef double* out = <double*>_address(sums)
        with nogil:
            graph_messages(mixture, s, self.n, self.K, self.threads, point, sent, out)
        return sums

    def update(self, double damping, c, v, double v0, mass, u, b, restarts, x, g, f, z):
        """Compute ``g = damping g + mass u + c v + b``, ``f = g - x`` and the messages z of g.

        Parameters
        ----------
        damping : float
        c, mass : ndarray of float64, shape (K,)
            Factors of ``v`` and ``u``.
        v, u, b : ndarray of float64, shape (n,), or None
            Without ``v``, each of its entries is ``v0``. With several columns ``v`` and ``b`` are None.
        v0 : float
        restarts : (rows, columns, values) or None
            Entries of ``v`` for several columns, sorted by row: arrays of int64, int64 and float64.
        x : ndarray
            The point.
        g : ndarray
            The product, in whose place the image is written.
        f, z : ndarray
            Where to write residual and messages; ``f`` may be None.

        Returns
        -------
        ndarray of float64, shape (3, K)
            The l1 norm of ``g - x``, the sum of g, and its sum over the dangling nodes.
        """
        if self.K > 1 and (v is not None or b is not None):
            raise ParameterError("v, b: expected None with several columns")
        if self.K == 1 and restarts is not None:
            raise ParameterError("restarts: expected None with one column, which has a dense vector")
        kept = [_input(c, (self.K,), "c"), _input(mass, (self.K,), "mass")]
        kept += [None if each is None else _input(each, (self.n,), "v, u, b") for each in (v, u, b)]
        cdef GraphTerms terms
        terms.damping, terms.v0 = damping, v0
        terms.c, terms.mass = _numbers_of(kept[0]), _numbers_of(kept[1])
        terms.v = _numbers_of(kept[2])
        terms.u = _numbers_of(kept[3])
        terms.b = _numbers_of(kept[4])
        terms.restarts.count = 0
        if restarts is not None:
            rows, columns, values = restarts
            rows, columns = np.require(rows, np.int64, ("C", "A")), np.require(columns, np.int64, ("C", "A"))
            values = _input(values, (len(rows),), "restarts")
            if len(columns) != len(rows) or (len(rows) and (
                    rows[0] < 0 or rows[len(rows) - 1] >= self.n or (np.diff(rows) < 0).any()
                    or columns.min() < 0 or columns.max() >= self.K)):
                raise ParameterError("restarts: expected sorted rows and columns in range")
            terms.restarts.rows = <const int64_t*>_address(rows)
            terms.restarts.columns = <const int64_t*>_address(columns)
            terms.restarts.values = _numbers_of(values)
            terms.restarts.count = len(rows)
        sums = np.empty((3, self.K))
        cdef const double* s = _numbers_of(self.scale)
        cdef const double* point = self._read(x, "x")
        cdef double* image = self._write(g, "g")
        cdef double* sent = self._write(z, "z")
        cdef double* residual = NULL
        if f is not None:
            residual = self._write(f, "f")
        cdef double* out = <double*>_address(sums)
        with nogil:
            graph_update(terms, s, point, self.n, self.K, image, residual, sent, self.threads, out)
        return sums

    def products(self, vectors):
        """Return the inner products of vectors, per column: shape (len(vectors), len(vectors), K)."""
        cdef int count = len(vectors)
        if not 1 <= count <= kGraphHistory:
            raise ParameterError(f"vectors: found {count}, expected 1 to {kGraphHistory}")
        cdef vector[const double*] addresses
        for each in vectors:
            addresses.push_back(self._read(each, "vectors"))
        found = np.empty((count, count, self.K))
        cdef double* out = <double*>_address(found)
        with nogil:
            graph_products(addresses.data(), count, self.n, self.K, self.threads, out)
        return found

    def weighted_sums(self, weights, t):
        """Return per column the sum of ``weights[i] * t[i]``."""
        kept = _input(weights, (self.n,), "weights")
        sums = np.empty(self.K)
        cdef const double* w = _numbers_of(kept)
        cdef const double* product = self._read(t, "t")
        cdef double* out = <double*>_address(sums)
        with nogil:
            graph_weighted_sums(w, product, self.n, self.K, self.threads, out)
        return sums
