"""Building a graph on a device: binding of ``src_cuda/api/edges.h``."""

cdef dict DUPLICATES = {"keep": BB_EDGES_KEEP, "drop": BB_EDGES_DROP, "sum": BB_EDGES_SUM}


def predict_edges_bytes(int64_t count, int32_t id_bytes, bint weighted, int64_t nodes):
    """Return the maximum number of bytes that building takes on a device.

    ``id_bytes`` are those of both ids of an edge on the host, ``nodes`` their number, or an upper bound.
    """
    return bb_edges_bytes(count, id_bytes, weighted, nodes)


cdef _list_ids(ids, bb_ends* to):
    """Set what the C interface knows of one end of edges; return the array that it reads."""
    to.step = 1
    if hasattr(ids, "__cuda_array_interface__"):
        given = ids.__cuda_array_interface__
        dtype, strides = np.dtype(given["typestr"]), given.get("strides")
        to.ids, to.bytes = <const void*><size_t>given["data"][0], dtype.itemsize
        if strides is not None:
            to.step = strides[0] // dtype.itemsize
        return ids
    array = np.require(ids, requirements=("C", "A"))
    to.ids, to.bytes = _address(array), array.itemsize
    return array


@cython.no_gc_clear
cdef class Edges:
    """A graph that is built on a device: listed edges, and then its rows by target.

    The rows are those of `bmrm.graph._graph.sort_edges_by_target`, bit by bit. Calls come in the order of the
    methods here.

    Parameters
    ----------
    source, target : array of int32 or int64, shape (edges,)
        Ids, on the host or on the device; in place there, with any step, until nodes have numbers.
    weight : array of float32 or float64, shape (edges,), or None
    device : int, default 0
    memory_limit : int, optional
        Bytes of device memory that may be used.
    threads : int, optional
        Of the host, for the upload.

    Attributes
    ----------
    low, high : int
        The least and the largest id; 0 and -1 without edges.
    wrong_weight : int
        The first edge whose weight is negative or not finite, or -1.
    largest_weight : float
    n_nodes, n_edges, n_kept : int
        Nodes, edges in the list, and those of the rows.
    named : bool
        Whether the ids of nodes are not their numbers.
    weighted : bool
        Of the rows: whether some weight is not 1.

    Raises
    ------
    DeviceMemoryError
        If there is not enough memory.
    """

    cdef bb_edges* handle
    cdef readonly int32_t device
    cdef readonly int64_t low, high, wrong_weight, n_nodes, n_edges, n_kept
    cdef readonly double largest_weight
    cdef readonly bint named, weighted
    cdef object listed

    def __cinit__(self, source, target, weight=None, *, device=0, memory_limit=None, threads=None):
        cdef bb_listed_edges edges
        memset(&edges, 0, sizeof(edges))
        self.listed = [_list_ids(source, &edges.source), _list_ids(target, &edges.target)]
        cdef bb_ends weights
        if weight is not None:
            self.listed.append(_list_ids(weight, &weights))
            edges.weights, edges.weight_bytes = weights.ids, weights.bytes
        edges.count = self.n_edges = len(source)
        self.device = _device(device)
        cdef int64_t limit = _memory_limit(memory_limit)
        cdef int32_t team = _threads(threads)
        cdef bb_edge_facts facts
        with nogil:
            check(bb_edges_create(self.device, &edges, limit, team, &facts, &self.handle))
        self.low, self.high = facts.low, facts.high
        self.wrong_weight, self.largest_weight = facts.wrong_weight, facts.largest_weight

    def __dealloc__(self):
        cdef bb_edges* handle = self.handle
        self.handle = NULL
        if handle != NULL:
            with nogil:
                bb_edges_destroy(handle)

    @property
    def is_held(self):
        """Whether the memory is still there: as long as the object."""
        return True

    def number(self, int64_t given=-1):
        """Give numbers to nodes: their ids, which are below ``given``, or their order among those that occur."""
        cdef int64_t nodes
        cdef int32_t named
        with nogil:
            check_data(bb_edges_number(self.handle, given, &nodes, &named))
        self.n_nodes, self.named, self.listed = nodes, named, None

    def labels(self):
        """Return the ids of the nodes, ascending, if they are ``named``; they are forgotten then."""
        ids = np.empty(self.n_nodes, np.int64)
        cdef int64_t* to = <int64_t*>_address(ids)
        with nogil:
            check(bb_edges_labels(self.handle, to))
        return ids

    def at(self, int64_t edge):
        """Return the numbers of the source and the target of a listed edge."""
        if not 0 <= edge < self.n_edges:
            raise ParameterError(f"edge: found {edge}, expected 0 to {self.n_edges - 1}")
        cdef int32_t source, target
        check(bb_edges_at(self.handle, edge, &source, &target))
        return source, target

    def count_directions(self):
        """Return how many edges have the larger number at their source, and at their target."""
        cdef int64_t counts[2]
        with nogil:
            check(bb_edges_directions(self.handle, counts))
        return counts[0], counts[1]

    def list_both_ways(self):
        """List each edge in both directions, a loop once."""
        cdef int64_t count
        with nogil:
            check(bb_edges_both_ways(self.handle, &count))
        self.n_edges = count

    def count_distances(self, int64_t step, int64_t near, int64_t reached):
        """Return how many of every ``step``-th edge join nodes whose numbers differ by less than two bounds."""
        cdef int64_t counts[2]
        if step < 1:
            raise ParameterError(f"step: found {step}, expected at least 1")
        with nogil:
            check(bb_edges_distances(self.handle, step, near, reached, counts))
        return counts[0], counts[1]

    def count_degrees(self):
        """Return four numbers: edges to nodes without out-links, edges from nodes without in-links, and such nodes.

        Nodes that have neither are among those without out-links.
        """
        cdef bb_node_facts facts
        with nogil:
            check(bb_edges_degrees(self.handle, &facts))
        return facts.into_last, facts.out_of_first, facts.last, facts.first

    def order_nodes(self, bint by_degree, bint peeled):
        """Return the order of the nodes and the place of each, after `count_degrees`; `sort` uses it.

        Parameters
        ----------
        by_degree : bool
            Nodes with many in-links come first.
        peeled : bool
            Nodes without in-links come before all others, and those without out-links after them.

        Returns
        -------
        order, places : ndarray of int32, shape (n_nodes,)
        """
        order, places = np.empty(self.n_nodes, np.int32), np.empty(self.n_nodes, np.int32)
        cdef int32_t* nodes = <int32_t*>_address(order)
        cdef int32_t* rank = <int32_t*>_address(places)
        with nogil:
            check(bb_edges_order(self.handle, by_degree, peeled, nodes, rank))
        return order, places

    def sort(self, duplicates, bint drop_loops, bint again=False):
        """Build the rows; ``n_kept`` edges stay.

        Parameters
        ----------
        duplicates : {"keep", "drop", "sum"}
        drop_loops : bool
        again : bool, default False
            Whether the list of edges will be used again, in place of these rows.
        """
        cdef bb_duplicates rule = <bb_duplicates>_choice(duplicates, DUPLICATES, "duplicates")
        cdef int64_t kept
        cdef int32_t weighted
        with nogil:
            check(bb_edges_sort(self.handle, rule, drop_loops, again, &kept, &weighted))
        self.n_kept, self.weighted = kept, weighted

    def rows(self):
        """Return row pointers on the host, and on the device the sources and the weights, or None."""
        cdef bb_edge_rows rows
        check(bb_edges_rows(self.handle, &rows))
        starts = held_array(self, self.device, rows.starts, self.n_nodes + 1, np.dtype(np.int64))
        weights = None
        if self.weighted:
            weights = held_array(self, self.device, rows.weights, self.n_kept, np.dtype(np.float64))
        sources = held_array(self, self.device, rows.sources, self.n_kept, np.dtype(np.int32))
        return starts[:], sources, weights

    def count_reversed(self, int64_t step):
        """Return how many of every ``step``-th edge join two nodes, and of how many the reverse is there."""
        cdef int64_t counts[2]
        if step < 1:
            raise ParameterError(f"step: found {step}, expected at least 1")
        with nogil:
            check(bb_edges_reversed(self.handle, step, counts))
        return counts[0], counts[1]

    def count_sources(self):
        """Return the number of edges that start at each node."""
        counts = np.empty(self.n_nodes, np.int64)
        cdef int64_t* to = <int64_t*>_address(counts)
        with nogil:
            check(bb_edges_count_sources(self.handle, to))
        return counts

    def strengths(self):
        """Return the sums of the weights of each source, as `bmrm.graph._graph.sum_weights_by_source`."""
        sums = np.empty(self.n_nodes)
        cdef double* to = <double*>_address(sums)
        with nogil:
            check(bb_edges_strengths(self.handle, to))
        return sums

    def shares(self, dtype):
        """Return weights over the sums of their sources, on the device, until the next call or `forget`."""
        found = _float_type(dtype)
        cdef bb_type kind = _type_of(found)
        cdef const void* values
        with nogil:
            check(bb_edges_shares(self.handle, kind, &values))
        return held_array(self, self.device, values, self.n_kept, np.dtype(found))

    def forget(self):
        """Free these shares."""
        with nogil:
            check(bb_edges_forget(self.handle))
