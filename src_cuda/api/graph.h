// The C interface of graphs on a device: walks with restart on a resident matrix P', and the vectors of the
// Golub-Kahan process on a resident adjacency matrix.  bmrm/graph/backends/base.py says what a walk computes.
// Failures, addresses and "either" as in blackbox.h.
//
// A node has a *place*, its row in the matrix, and a *number*, by which the caller knows it.  Vectors of K
// columns are stored by rows.  All sums are taken in a fixed order that depends on the sizes only.
//
// The nodes of a graph may be spread over ranks (bb_graph_ranks).  A rank then has the rows of its own nodes,
// whose columns are the places of all nodes, and every vector, place and number that it gives or gets is of
// its own nodes, counted from 0, unless this says otherwise.  Sums are those over all ranks.  All ranks make
// the same calls.
#pragma once
#include "api/blackbox.h"
#include "api/ranks.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    BB_WALK_COLUMNS = 32,  // maximum number of walks that are computed together
    BB_WALK_IMAGES = 8,    // maximum number of images that a mixture or inner products read
    BB_BASIS_VECTORS = 64  // maximum number of vectors that a vector is made orthogonal to
};

typedef struct bb_nodes bb_nodes;
typedef struct bb_walk bb_walk;
typedef struct bb_basis bb_basis;

// Who has the other nodes of a graph.
typedef struct {
    const bb_ranks* calls;  // copied
    bb_nccl* nccl;          // outlives what uses it; NULL: vectors go through main memory
    const int64_t* bounds;  // rank r has the places bounds[r] to bounds[r + 1]
    int32_t windows;        // 1: with NCCL, messages are written to each other's memory if that is possible
} bb_graph_ranks;

// P' on a device.  The matrices work on one stream and outlive what uses them.
typedef struct {
    bb_matrix* light;  // in float32; NULL: light steps convert their vectors and use `exact`
    bb_matrix* rest;   // of several ranks: `light` has the columns of own nodes, and this one those of all
                       // nodes, with no entries at own ones.  NULL: all are in `light`
    bb_matrix* exact;  // in float64
} bb_transitions;

// Uploads what walks need to know of nodes.
// lengths: nonzeros of each row; scale: factor of each entry of a point in what the node sends, 0 for a
// dangling node; places: the place of each number, NULL if they are equal; all_places: of several ranks, the
// same of all nodes; ranks: NULL for one; out: is set to the nodes, which bb_nodes_destroy frees.  The arrays
// are on the host.
BB_API bb_status bb_nodes_create(const bb_transitions* matrices, const uint32_t* lengths, const double* scale,
                                 const uint32_t* places, const uint32_t* all_places,
                                 const bb_graph_ranks* ranks, bb_nodes** out);
BB_API void bb_nodes_destroy(bb_nodes* nodes);

// The terms of T(x) = d (P' x + m u) + (1 - d) v, and what is known of the sums of P' x.  The arrays are on
// the host and in the order of places.
typedef struct {
    double damping;         // d
    const double* v;        // the restart vector of a single walk; NULL: as below
    double v0;              // its entries if there is neither v nor an entry
    const double* u;        // where dangling nodes send their share; NULL: to v
    const int64_t* rows;    // for several walks: the nodes at which they restart, ascending,
    const int32_t* owners;  // the walks, ascending for each node,
    const double* shares;   // and the shares
    int64_t entries;
    double most, per_entry;  // a row of L nonzeros has at most min(L, most + per_entry L) additions
} bb_walk_terms;

// Begins walks with the base 0.
// nodes: must outlive the result; columns: number of walks; terms: copied; out: is set to the walks, which
// bb_walk_destroy frees.
BB_API bb_status bb_walk_create(bb_nodes* nodes, int32_t columns, const bb_walk_terms* terms, bb_walk** out);
BB_API void bb_walk_destroy(bb_walk* walk);
// Returns 1 if the messages of light steps are written to the memory of other ranks.
BB_API int32_t bb_walk_has_window(const bb_walk* walk);
// Returns the maximum number of additions that a term of a sum over n nodes goes through.
BB_API int64_t bb_walk_additions(int64_t n, int32_t columns);
// Returns the bytes of a walk with at most `images` images and points in slots.
// n: own nodes; nodes: those of all ranks.
BB_API int64_t bb_walk_bytes(int64_t n, int64_t nodes, int32_t columns, int32_t images);

// Sets the image of a slot to the restart vectors or, for one walk, the image to 0 and the base to `start`.
// start: n doubles on the host in the order of places, or NULL.
BB_API bb_status bb_walk_place(bb_walk* walk, int32_t slot, const double* start);

typedef struct {
    const int32_t* slots;   // of the images
    int32_t count;          // of these
    const double* factors;  // (count, columns), or NULL: the point is the only image
    int32_t mixed;          // slot for the mixture, if there are factors; none of `slots`
    int32_t into;           // slot for the image, neither of `slots` nor that of the mixture
    int32_t ahead;          // 1: the next step is likely to start at this image; it is queued at once
} bb_light_step;

// Computes T of a mixture of images in float32.
// norms: (columns), set to the l1 norms of T(x) - x; of several ranks, over own nodes.
BB_API bb_status bb_walk_light(bb_walk* walk, const bb_light_step* step, double* norms);
// Moves the base to the point of a slot, its negative entries replaced by 0 and divided by its sum if that is
// about 1, and computes its residual r = T(x) - x in float64.  All slots are lost; `into` then has r, rounded
// to float32, as image.
// sums: (5, columns), set to the l1 norms of r, the sums of T(x), these with each entry times the additions
// of its row, the sums of x, and these over dangling nodes.
BB_API bb_status bb_walk_exact(bb_walk* walk, int32_t slot, int32_t into, double* sums);
// products: (count, count, columns), set to the inner products of residuals: the image in a slot minus the
// point in another, or minus the base if that is negative.
BB_API bb_status bb_walk_products(bb_walk* walk, const int32_t* images, const int32_t* points, int32_t count,
                                  double* products);
// Finds the largest entries of some columns of the base plus the image of a slot; negative ones count as 0.
// columns: `wanted` of them; count: entries of each, at most n; numbers, values: (wanted, count), on the
// host; descending, ties by number.
BB_API bb_status bb_walk_top(bb_walk* walk, int32_t slot, const int32_t* columns, int32_t wanted,
                             int64_t count, int64_t* numbers, double* values);
// values: a double per node on the host, of all ranks, set to such a column in the order of numbers.
BB_API bb_status bb_walk_get(bb_walk* walk, int32_t slot, int32_t column, double* values);
// Continues with some of other walks, after their exact step into `slot`.
// columns: one of `from` for each of this walk.
BB_API bb_status bb_walk_take(bb_walk* walk, bb_walk* from, int32_t slot, const int32_t* columns);

// Begins the Golub-Kahan process on a float64 matrix, which must outlive the result.
// by_source: of several ranks, the rows of A of own nodes, on the stream of `matrix`, which has those of A';
// NULL: `matrix` has a transpose.  places: the place of each number, of the nodes of all ranks, on the host;
// NULL if they are equal.  ranks: NULL for one.
BB_API bb_status bb_basis_create(bb_matrix* matrix, bb_matrix* by_source, const uint32_t* places,
                                 const bb_graph_ranks* ranks, bb_basis** out);
BB_API void bb_basis_destroy(bb_basis* basis);
// Takes and gives back vectors of n doubles on the device, whose values are undefined.
BB_API bb_status bb_basis_lend(bb_basis* basis, double** vector);
BB_API void bb_basis_give(bb_basis* basis, double* vector);
// Sets all entries.
BB_API bb_status bb_basis_fill(bb_basis* basis, double* vector, double value);
// to = X from or X' from.
BB_API bb_status bb_basis_apply(bb_basis* basis, bb_operator op, const double* from, double* to);
// to = from made orthogonal to an orthonormal basis, with length 1 unless it is 0.
// vectors: `count` of them; length: is set to what the length was.
BB_API bb_status bb_basis_orthogonalise(bb_basis* basis, const double* from, const double* const* vectors,
                                        int32_t count, double* to, double* length);
// to = the sum of factors times vectors.
BB_API bb_status bb_basis_combine(bb_basis* basis, const double* const* vectors, const double* factors,
                                  int32_t count, double* to);
// length: is set to that of vector - factor * other.
BB_API bb_status bb_basis_distance(bb_basis* basis, const double* vector, double factor, const double* other,
                                   double* length);
// to: set to the vector with the sign that makes its sum positive, without negative entries, and divided by
// its sum over the nodes of all ranks; not the vector itself.
BB_API bb_status bb_basis_distribution(bb_basis* basis, const double* vector, double* to);
// values: a double per node on the host, of all ranks, set to a vector in the order of numbers.
BB_API bb_status bb_basis_get(bb_basis* basis, const double* vector, double* values);

#ifdef __cplusplus
}
#endif
