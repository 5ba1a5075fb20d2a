// The vector work of walks on a graph, and their products: light steps in float32, and now and then an exact
// one in float64 (docs/graph.md says why that is enough, and what is proven).
//
// A walk has a base point b in float64 and goes on from there with corrections e in float32: the map
// x -> T(x) = d (P' x + mass u) + c v is affine, so that for x = b + e and r = T(b) - b
//
//     T(x) - x = (r + A e) - e,         A e = d (P' e + mass(e) u) + (d mass(e) v if u is v).
//
// A light step computes the image r + A e of a correction e. An exact step moves the base to b + e, and
// computes r there in float64, with all that a bound of the rounding needs.
//
// Vectors have K columns, stored by nodes: 1, 4, 8, 16 or 32. One column has dense restart vectors; several
// have a few restart entries each, sorted by node. Each pass works on blocks of nodes. Sums are taken in a
// fixed order within a block, and over the blocks in order: results do not depend on the number of threads,
// and the number of additions that a term of a float64 sum goes through is known (`additions_per_sum`).
#pragma once

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

#include "cpu/isa.h"
#include "graph/blocks.h"

namespace bmrm {

/// Nodes of a block: tasks of one column, and of several.
constexpr i64 kNodeBlock = 4096;
constexpr i64 kRowBlock = 512;
/// Lanes of one column.
constexpr int kNodeLanes = 16;
/// Nodes that are summed in float32 before float64 takes over, for one column and for several: their vectors
/// stay in the first level of cache from one loop to the next.
constexpr i64 kNodeRun = 512;
constexpr i64 kRowRun = 64;
/// Edges ahead of which the rows of several columns are fetched. On an R-MAT graph of 8.2 M edges 16 columns
/// of float32, each row a line of a cache, take 36 ms without, 27 with 16 edges, 23 with 32 and 22 with 64.
constexpr i64 kRowsAhead = 64;
/// Maximum number of columns of an exact step: 8 of float64 fill a line of a cache. Two steps with 8 take 60
/// ms where one with 16 takes 93.
constexpr int kExactColumns = 8;
/// Lanes of an exact step with one column.
constexpr int kExactLanes = 8;
/// Nodes ahead of which the places of results are fetched.
constexpr i64 kNodesAhead = 16;
/// Maximum number of columns, and of vectors that a mixture or inner products read.
constexpr int kWalkColumns = 32;
constexpr int kWalkHistory = 8;

/// The number of partial sums of a row of edges, which hide the latency of an addition as far as there are
/// registers.
template <class T, int W>
constexpr int sum_count() {
    return sizeof(T) * W <= 64 ? 4 : 2;
}

/// The maximum number of additions that a term goes through in such a row.
i64 row_additions(i64 entries);

/// A point as a mixture of images: the sum of factors[j * K + k] vectors[j], or vectors[0] without factors.
struct Mixture {
    const float* const* vectors;
    const double* factors;
    int count;
};

/// image - point, or the image without a point.
struct Residual {
    const float* image;
    const float* point;
};

/// Entries of restart vectors, sorted by node.
struct Restarts {
    const i64* nodes;
    const i64* columns;
    const double* shares;
    i64 count;
};

/// The terms of T besides the product: `c` and `mass` have one number per column. `v` may be null: then each
/// entry is `v0`. `u` and `constant` may be null; `constant` has K columns.
template <class T>
struct Terms {
    T damping;
    const double* c;
    const T* v;
    T v0;
    const double* mass;
    const T* u;
    const float* constant;
    Restarts restarts;
};

/// The loops of walk_kernels.h for some number of columns.
struct WalkKernels {
    void (*mix)(const Mixture& mixture, const float* scale, i64 first, i64 last, float* x, float* z,
                double* lost);
    void (*advance)(const Terms<float>& terms, const float* scale, const float* x, const float* y, i64 first,
                    i64 last, float* g, float* z, double* sums);
    void (*inner_products)(const Residual* residuals, int count, i64 first, i64 last, double* out);
    // Null for one column.
    void (*rows)(const i64* ptr, const std::int32_t* idx, const double* val, i64 edges, i64 first, i64 last,
                 const float* z, float* y);
    void (*exact_rows)(const i64* ptr, const std::int32_t* idx, const double* val, i64 edges, i64 first,
                       i64 last, const double* z, double* y);
    void (*move)(const float* e, const double* factor, const double* scale, i64 first, i64 last, i64 K,
                 i64 column, double* x, double* z, double* sums);
    void (*total)(const double* x, const double* scale, i64 first, i64 last, i64 K, i64 column, double* sums);
    void (*residual)(const Terms<double>& terms, const double* x, const std::int32_t* additions,
                     const double* y, i64 first, i64 last, i64 K, i64 column, float* r, double* sums);

    static const WalkKernels& of(i64 K);
};

/// The loops for 1, 4, 8, 16 and 32 columns.
struct AllWalkKernels {
    WalkKernels columns[5];
};

BMRM_TABLES(AllWalkKernels, walk_kernels)

inline const WalkKernels& WalkKernels::of(i64 K) {
    return walk_kernels().columns[K == 1 ? 0 : K == 4 ? 1 : K == 8 ? 2 : K == 16 ? 3 : 4];
}

/// The edges of a graph by target, for products of one vector and of several.
struct WalkEdges {
    const EdgeBlocks* blocks;
    const i64* ptr;
    const std::int32_t* idx;
    const double* val;
    i64 n;
};

inline i64 nodes_of_block(i64 K) { return K == 1 ? kNodeBlock : kRowBlock; }

/// The maximum number of additions that a term of a sum in float64 goes through.
i64 additions_per_sum(const WalkEdges& edges, i64 K);

/// The messages of a point: x = the mixture (if it is one), z = x scale, lost = the sums of x over the nodes
/// with scale 0.
void mix_images(const Mixture& mixture, const float* scale, i64 n, i64 K, int threads, float* x, float* z,
                double* lost);

/// A light step: g = T(x) and its messages `sent`, from the messages z of x. sums: per column the l1 norm of
/// g - x, the sum of g over the nodes with scale 0, and the sum of g.
void light_step(const WalkEdges& edges, const Terms<float>& terms, const float* scale, const float* x,
                const float* z, i64 K, int threads, float* g, float* sent, double* sums);

/// The inner products of `count` residuals: out[(i * count + j) * K + k] for column k of i and j.
void inner_products(const Residual* residuals, int count, i64 n, i64 K, int threads, double* out);

/// The first half of an exact step, for the W = min(K, kExactColumns) columns from `column` on: the base x of
/// n own nodes moves by e, times a factor, and z = its messages, of W columns. sums: per column, the sum of x
/// and that of x over the nodes with scale 0.
void move_base(const float* e, const double* factor, const double* scale, i64 n, i64 K, i64 column,
               int threads, double* x, double* z, double* sums);

/// The second half: r = T(x) - x, given the messages z of all nodes. y has one column, and is used for one
/// column only; `additions` are those of each node's sum, of products with as many columns as z. sums: per
/// column the l1 norm of r, the sum of T(x), and that of T(x) times the additions.
void exact_residual(const WalkEdges& edges, const Terms<double>& terms, const std::int32_t* additions,
                    const double* x, const double* z, i64 K, i64 column, int threads, double* y, float* r,
                    double* sums);

/// The same from products y of W columns that are there already, of all nodes.
void residual_of_products(i64 n, const Terms<double>& terms, const std::int32_t* additions, const double* x,
                          const double* y, i64 K, i64 column, int threads, float* r, double* sums);

/// Per column, from `column` on, the sum of x, and that of x over the nodes with scale 0.
void total_points(const double* x, const double* scale, i64 n, i64 K, i64 column, int threads, double* sums);

/// out = the sums over the edges of each target of W columns of z at the source, times the weight; W is 1 or
/// a number of columns of an exact step.
void multiply_columns(const WalkEdges& edges, i64 W, int threads, const double* z, double* out);

/// The points of some columns as vectors of their own, in another order: out[c][i] = base + e of column
/// columns[c] at the node place[i] (or i without places), or 0 if that is negative.
void collect_columns(const double* base, const float* e, const std::int32_t* place, i64 n, i64 K,
                     const i64* columns, i64 count, int threads, double* const* out);

/// An entry of a column, and its node.
struct Entry {
    double value;
    i64 node;
};

/// The largest `count` entries of some columns of base + e, of those that are positive, and all that equal
/// the last of them, in any order. One read of the rows finds those of all columns.
std::vector<std::vector<Entry>> largest_entries(const double* base, const float* e, i64 n, i64 K,
                                                const i64* columns, i64 n_columns, i64 count, int threads);

}  // namespace bmrm
