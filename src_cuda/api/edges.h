// The C interface of the building of a graph on a device: from edges as a user lists them to compressed rows
// by target.  The rows are, bit by bit, those of src_cython/graph/adjacency.h.  Failures, addresses and
// "either" as in blackbox.h.
//
// The calls come in this order: create, number, any of what is asked of listed edges, sort, and then any of
// what is asked of the rows; but what is said to be listed again may be asked and sorted again.
#pragma once
#include "api/blackbox.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bb_edges bb_edges;

// The ids of one end of all edges.
typedef struct {
    const void* ids;  // either
    int32_t bytes;    // of an id, a signed integer: 4 or 8
    int64_t step;     // from an id to the next one, in ids; 1 on the host
} bb_ends;

typedef struct {
    bb_ends source, target;
    const void* weights;   // consecutive, either; NULL if there are none
    int32_t weight_bytes;  // of a weight: 4 or 8
    int64_t count;
} bb_listed_edges;

typedef struct {
    int64_t low, high;      // of the ids of both ends; 0 and -1 without edges
    int64_t wrong_weight;   // the first edge whose weight is negative or not finite, or -1
    double largest_weight;  // of the others
} bb_edge_facts;

typedef struct {
    int64_t into_last, out_of_first;  // edges to nodes without out-links, and from nodes without in-links
    int64_t last, first;              // such nodes; those that have neither are among the former
    int64_t most;                     // maximum number of in-links
} bb_node_facts;

// What becomes of an edge that is listed more than once: see `Duplicates` of adjacency.h.
typedef enum { BB_EDGES_KEEP, BB_EDGES_DROP, BB_EDGES_SUM } bb_duplicates;

// Returns the maximum number of bytes that building takes on a device.
// id_bytes: of both ids of an edge, if they are on the host; nodes: their number, or an upper bound.
BB_API int64_t bb_edges_bytes(int64_t count, int32_t id_bytes, int32_t weighted, int64_t nodes);
// Puts edges on a device; those that are there already are used in place until they have numbers.
// limit: bytes of device memory that may be used, or 0; threads: of the host, for the upload; facts: is set;
// out: is set to the edges, which bb_edges_destroy frees.
BB_API bb_status bb_edges_create(int32_t device, const bb_listed_edges* listed, int64_t limit,
                                 int32_t threads, bb_edge_facts* facts, bb_edges** out);
BB_API void bb_edges_destroy(bb_edges* edges);
// Gives numbers to nodes: their ids if these are below `given`; with -1 the nodes are those that occur, in
// the order of their ids. nodes: is set to their number; named: to 1 if the ids of nodes are not their
// numbers.
BB_API bb_status bb_edges_number(bb_edges* edges, int64_t given, int64_t* nodes, int32_t* named);
// labels: a number per node on the host, set to its id, if nodes are `named`.
BB_API bb_status bb_edges_labels(bb_edges* edges, int64_t* labels);

// source, target: are set to the numbers of the nodes of one edge.
BB_API bb_status bb_edges_at(bb_edges* edges, int64_t edge, int32_t* source, int32_t* target);
// counts: (2), set to the edges whose source has the larger number, and to those whose target has it.
BB_API bb_status bb_edges_directions(bb_edges* edges, int64_t* counts);
// Lists each edge in both directions, a loop once.
// count: is set to the number of listed edges.
BB_API bb_status bb_edges_both_ways(bb_edges* edges, int64_t* count);
// Looks at every `step`-th edge.
// counts: (2), set to how many join nodes whose numbers differ by less than `near` and than `reached`.
BB_API bb_status bb_edges_distances(bb_edges* edges, int64_t step, int64_t near, int64_t reached,
                                    int64_t* counts);
// facts: is set; the degrees stay on the device until the nodes have an order.
BB_API bb_status bb_edges_degrees(bb_edges* edges, bb_node_facts* facts);
// Orders the nodes as `order_nodes` of adjacency.h does, after bb_edges_degrees.
// by_degree: 1 to put those with many in-links first; peeled: 1 to put nodes without in-links before the
// others, and those without out-links after them; order, rank: a number per node on the host.
BB_API bb_status bb_edges_order(bb_edges* edges, int32_t by_degree, int32_t peeled, int32_t* order,
                                int32_t* rank);
// Builds the rows, by the places that bb_edges_order has given to nodes, if it has.
// again: 1 if the list will be used again, in place of these rows; kept: is set to the number of edges that
// stay; weighted: to 1 if some weight is not 1.
BB_API bb_status bb_edges_sort(bb_edges* edges, bb_duplicates duplicates, int32_t drop_loops, int32_t again,
                               int64_t* kept, int32_t* weighted);

// Compressed rows on the device, which live as long as the edges.
typedef struct {
    const int64_t* starts;   // a number per node and one more
    const int32_t* sources;  // ascending for each target
    const double* weights;   // NULL if all are 1
} bb_edge_rows;
BB_API bb_status bb_edges_rows(bb_edges* edges, bb_edge_rows* rows);
// Looks at every `step`-th edge of the rows.
// counts: (2), set to how many join two nodes, and to how many of these have their reverse.
BB_API bb_status bb_edges_reversed(bb_edges* edges, int64_t step, int64_t* counts);
// counts: a number per node on the host, set to how many edges start there.
BB_API bb_status bb_edges_count_sources(bb_edges* edges, int64_t* counts);
// sums: a number per node on the host, set as by `add_weights_by_source` of adjacency.h.
BB_API bb_status bb_edges_strengths(bb_edges* edges, double* sums);
// Divides each weight by the sum of its source's; 0 by 0 is 0.
// type: of the values; values: is set to their address, which holds until the next call, bb_edges_forget or
// the end of the edges.
BB_API bb_status bb_edges_shares(bb_edges* edges, bb_type type, const void** values);
// Frees these values.
BB_API bb_status bb_edges_forget(bb_edges* edges);

#ifdef __cplusplus
}
#endif
