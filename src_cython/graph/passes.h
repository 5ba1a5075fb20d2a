// The vector work of a walk on a graph, in as few passes over memory as its steps allow.
//
// A step computes T(x) = d (P' x + mass u) + c v, the residual T(x) - x, its l1 norm, and the inner products
// of the residual with the ones before, from which Anderson's method takes its next point. Each pass works on
// blocks of rows. Sums are taken in a fixed order within a block, and over the blocks in order: results do
// not depend on the number of threads, and the number of additions that a term goes through is known
// (`additions_per_sum`), which the proof of a bound needs.
//
// Vectors have K columns, stored by rows. One column has a dense restart vector; several columns have a few
// restart entries each, sorted by row.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/integers.h"
#include "common/memory.h"

namespace bmrm {

/// Rows of a block, for one column and for several.
constexpr i64 kGraphBlock = 4096;
constexpr i64 kGraphColumnsBlock = 512;
/// Partial sums of a block of one column, and the additions that join them.
constexpr int kGraphLanes = 8;
constexpr i64 kGraphLaneAdditions = 3;
/// Entries of one column that stay in the first level of cache from one loop over them to the next.
constexpr i64 kGraphRun = 512;
/// Maximum number of columns, and of vectors that a mixture or inner products read.
constexpr int kGraphColumns = 32;
constexpr int kGraphHistory = 8;

inline i64 graph_block(i64 K) { return K == 1 ? kGraphBlock : kGraphColumnsBlock; }
inline i64 graph_blocks(i64 n, i64 K) { return (n + graph_block(K) - 1) / graph_block(K); }

/// The maximum number of additions that a term of a sum over n rows goes through.
inline i64 additions_per_sum(i64 n, i64 K) {
    const i64 inside = K == 1 ? kGraphBlock / kGraphLanes + kGraphLaneAdditions : kGraphColumnsBlock;
    return std::min(n, inside + graph_blocks(n, K));
}

/// A point as a mixture of vectors: the sum of factors[j * K + k] vectors[j], or vectors[0] if `count` is 0.
struct GraphMixture {
    const double* const* vectors;
    const double* factors;
    int count;
};

/// Entries of restart vectors, sorted by row; `values` are their shares.
struct GraphRestarts {
    const i64* rows;
    const i64* columns;
    const double* values;
    i64 count;
};

/// The terms of T besides the product: `c` and `mass` have one number per column. `v` may be null: then each
/// entry is `v0`. `u` and `b` may be null.
struct GraphTerms {
    double damping;
    const double* c;
    const double* v;
    double v0;
    const double* mass;
    const double* u;
    const double* b;
    GraphRestarts restarts;
};

/// Sums of 8 lanes in a fixed order.
inline double graph_lane_sum(const double* a) {
    return ((a[0] + a[1]) + (a[2] + a[3])) + ((a[4] + a[5]) + (a[6] + a[7]));
}

/// A number of columns that the compiler knows, or 0: then it is known at run time.
template <i64 known>
struct GraphWidth {
    static constexpr i64 get(i64 K) { return known ? known : K; }
};

/// Calls a function with the number of columns, which the compiler knows for the common ones.
template <class Body>
inline void with_columns(i64 K, const Body& body) {
    if (K == 16)
        body(GraphWidth<16>{});
    else if (K == 8)
        body(GraphWidth<8>{});
    else if (K == 32)
        body(GraphWidth<32>{});
    else
        body(GraphWidth<0>{});
}

/// Adds the sums of the blocks in order: out[s] for s < count.
inline void graph_add_blocks(const std::vector<double>& sums, i64 blocks, i64 count, double* out) {
    std::fill_n(out, count, 0.0);
    for (i64 t = 0; t < blocks; ++t)
        for (i64 s = 0; s < count; ++s) out[s] += sums[t * count + s];
}

/// Adds up the terms of one column in lanes: entry i of a run that begins at a multiple of 8 belongs to lane
/// i % 8.
template <class Term>
inline void graph_add_lanes(i64 first, i64 last, double* lanes, const Term& term) {
    i64 i = first;
    for (; i + kGraphLanes <= last; i += kGraphLanes)
        for (int l = 0; l < kGraphLanes; ++l) lanes[l] += term(i + l);
    for (int l = 0; i < last; ++i, ++l) lanes[l] += term(i);
}

/// x = the mixture at the entries [first, last) of K columns, negative ones replaced by 0.
inline void graph_mix(const GraphMixture& mixture, i64 first, i64 last, i64 K, double* x) {
    const double* from = mixture.vectors[0];
    if (K == 1) {
        const double factor = mixture.factors[0];
        for (i64 i = first; i < last; ++i) x[i] = factor * from[i];
    } else {
        with_columns(K, [&](auto width) {
            const i64 W = width.get(K);
            for (i64 i = first; i < last; i += W)
                for (i64 k = 0; k < W; ++k) x[i + k] = mixture.factors[k] * from[i + k];
        });
    }
    for (int j = 1; j < mixture.count; ++j) {
        const double *g = mixture.vectors[j], *a = mixture.factors + j * K;
        if (K == 1) {
            const double factor = a[0];
            for (i64 i = first; i < last; ++i) x[i] += factor * g[i];
        } else {
            with_columns(K, [&](auto width) {
                const i64 W = width.get(K);
                for (i64 i = first; i < last; i += W)
                    for (i64 k = 0; k < W; ++k) x[i + k] += a[k] * g[i + k];
            });
        }
    }
    for (i64 i = first; i < last; ++i) x[i] = x[i] > 0 ? x[i] : 0.0;
}

/// z = x scale for one column, and the lanes of the sum of x and of that over the rows with scale 0.
inline void graph_send(const double* scale, i64 first, i64 last, const double* x, double* z, double* all,
                       double* lost) {
    for (i64 i = first; i < last; ++i) z[i] = x[i] * scale[i];
    graph_add_lanes(first, last, all, [&](i64 i) { return x[i]; });
    graph_add_lanes(first, last, lost, [&](i64 i) { return scale[i] == 0 ? x[i] : 0.0; });
}

/// The same for K columns, with the sums themselves: first those of x.
inline void graph_send_columns(const double* scale, i64 first, i64 last, i64 K, const double* x, double* z,
                               double* sums) {
    with_columns(K, [&](auto width) {
        const i64 W = width.get(K);
        double all[kGraphColumns] = {}, lost[kGraphColumns] = {};
        for (i64 i = first; i < last; ++i) {
            const double s = scale[i], *row = x + i * W;
            double* to = z + i * W;
            for (i64 k = 0; k < W; ++k) to[k] = row[k] * s;
            for (i64 k = 0; k < W; ++k) all[k] += row[k];
            if (s == 0)
                for (i64 k = 0; k < W; ++k) lost[k] += row[k];
        }
        std::copy_n(all, K, sums);
        std::copy_n(lost, K, sums + K);
    });
}

/// x = the mixture (not written if that is one vector); z = x scale, the messages. sums: per column, the sum
/// of x, then that of x over the rows with scale 0.
inline void graph_messages(const GraphMixture& mixture, const double* scale, i64 n, i64 K, int threads,
                           double* x, double* z, double* sums) {
    const i64 block = graph_block(K), blocks = graph_blocks(n, K), width = 2 * K;
    std::vector<double> partial(blocks * width, 0.0);
    for_each_task(blocks, threads_for(n * K * (2 + mixture.count), threads), [&](i64 t) {
        const i64 first = t * block, last = std::min(n, first + block);
        const double* from = mixture.count ? x : mixture.vectors[0];
        double* sum = partial.data() + t * width;
        if (K == 1) {
            double all[kGraphLanes] = {}, lost[kGraphLanes] = {};
            for (i64 begin = first; begin < last; begin += kGraphRun) {
                const i64 end = std::min(last, begin + kGraphRun);
                if (mixture.count) graph_mix(mixture, begin, end, 1, x);
                graph_send(scale, begin, end, from, z, all, lost);
            }
            sum[0] = graph_lane_sum(all);
            sum[1] = graph_lane_sum(lost);
            return;
        }
        if (mixture.count) graph_mix(mixture, first * K, last * K, K, x);
        graph_send_columns(scale, first, last, K, from, z, sum);
    });
    graph_add_blocks(partial, blocks, width, sums);
}

/// The terms of T for one column, in place of the product: g = d g + ..., with as few streams from memory as
/// there are vectors.
template <bool dense_v, bool has_u, bool has_b>
inline void graph_affine(const GraphTerms& terms, i64 first, i64 last, double* g) {
    const double d = terms.damping, c = terms.c[0], constant = c * terms.v0, m = terms.mass[0];
    for (i64 i = first; i < last; ++i) {
        double value = dense_v ? c * terms.v[i] : constant;
        if (has_u) value += m * terms.u[i];
        if (has_b) value += terms.b[i];
        g[i] = d * g[i] + value;
    }
}

inline void graph_affine_column(const GraphTerms& terms, i64 first, i64 last, double* g) {
    using Pass = void (*)(const GraphTerms&, i64, i64, double*);
    static const Pass passes[] = {graph_affine<false, false, false>, graph_affine<true, false, false>,
                                  graph_affine<false, true, false>,  graph_affine<true, true, false>,
                                  graph_affine<false, false, true>,  graph_affine<true, false, true>,
                                  graph_affine<false, true, true>,   graph_affine<true, true, true>};
    passes[(terms.v ? 1 : 0) + (terms.u ? 2 : 0) + (terms.b ? 4 : 0)](terms, first, last, g);
}

inline void graph_affine_columns(const GraphTerms& terms, i64 first, i64 last, i64 K, double* g) {
    const double d = terms.damping;
    for (i64 i = first * K; i < last * K; ++i) g[i] *= d;
    if (terms.u)
        for (i64 i = first; i < last; ++i)
            for (i64 k = 0; k < K; ++k) g[i * K + k] += terms.mass[k] * terms.u[i];
    const GraphRestarts& r = terms.restarts;
    for (i64 e = std::lower_bound(r.rows, r.rows + r.count, first) - r.rows; e < r.count && r.rows[e] < last;
         ++e)
        g[r.rows[e] * K + r.columns[e]] += terms.c[r.columns[e]] * r.values[e];
}

/// g = T(x), which holds the product before; f = g - x unless f is null; z = g scale, the messages of g.
/// sums: per column, the l1 norm of g - x, the sum of g, and that of g over the rows with scale 0.
inline void graph_update(const GraphTerms& terms, const double* scale, const double* x, i64 n, i64 K,
                         double* g, double* f, double* z, int threads, double* sums) {
    const i64 block = graph_block(K), blocks = graph_blocks(n, K), width = 3 * K;
    std::vector<double> partial(blocks * width, 0.0);
    for_each_task(blocks, threads_for(n * K * 4, threads), [&](i64 task) {
        const i64 first = task * block, last = std::min(n, first + block);
        double* sum = partial.data() + task * width;
        if (K == 1) {
            double lanes[3][kGraphLanes] = {};
            for (i64 begin = first; begin < last; begin += kGraphRun) {
                const i64 end = std::min(last, begin + kGraphRun);
                graph_affine_column(terms, begin, end, g);
                if (f)
                    for (i64 i = begin; i < end; ++i) f[i] = g[i] - x[i];
                graph_add_lanes(begin, end, lanes[0], [&](i64 i) { return std::fabs(g[i] - x[i]); });
                graph_send(scale, begin, end, g, z, lanes[1], lanes[2]);
            }
            for (int s = 0; s < 3; ++s) sum[s] = graph_lane_sum(lanes[s]);
            return;
        }
        graph_affine_columns(terms, first, last, K, g);
        if (f)
            for (i64 i = first * K; i < last * K; ++i) f[i] = g[i] - x[i];
        with_columns(K, [&](auto width) {
            const i64 W = width.get(K);
            double size[kGraphColumns] = {};
            for (i64 i = first * W; i < last * W; i += W)
                for (i64 k = 0; k < W; ++k) size[k] += std::fabs(g[i + k] - x[i + k]);
            std::copy_n(size, K, sum);
        });
        graph_send_columns(scale, first, last, K, g, z, sum + K);
    });
    graph_add_blocks(partial, blocks, width, sums);
}

/// The inner products of `count` vectors: out[(i * count + j) * K + k] for column k of the vectors i and j.
inline void graph_products(const double* const* vectors, int count, i64 n, i64 K, int threads, double* out) {
    const i64 block = graph_block(K), blocks = graph_blocks(n, K), width = count * count * K;
    std::vector<double> partial(blocks * width, 0.0);
    for_each_task(blocks, threads_for(n * K * count * count / 2, threads), [&](i64 task) {
        const i64 first = task * block, last = std::min(n, first + block);
        double* sum = partial.data() + task * width;
        if (K == 1) {
            double lanes[kGraphHistory][kGraphHistory][kGraphLanes] = {};
            for (i64 begin = first; begin < last; begin += kGraphRun)
                for (int i = 0; i < count; ++i)
                    for (int j = 0; j <= i; ++j) {
                        const double *a = vectors[i], *b = vectors[j];
                        graph_add_lanes(begin, std::min(last, begin + kGraphRun), lanes[i][j],
                                        [&](i64 r) { return a[r] * b[r]; });
                    }
            for (int i = 0; i < count; ++i)
                for (int j = 0; j <= i; ++j) sum[i * count + j] = graph_lane_sum(lanes[i][j]);
            return;
        }
        for (int i = 0; i < count; ++i)
            for (int j = 0; j <= i; ++j) {
                const double *a = vectors[i], *b = vectors[j];
                double* to = sum + (i * count + j) * K;
                with_columns(K, [&](auto width) {
                    const i64 W = width.get(K);
                    double total[kGraphColumns] = {};
                    for (i64 r = first * W; r < last * W; r += W)
                        for (i64 k = 0; k < W; ++k) total[k] += a[r + k] * b[r + k];
                    std::copy_n(total, K, to);
                });
            }
    });
    graph_add_blocks(partial, blocks, width, out);
    for (int i = 0; i < count; ++i)
        for (int j = 0; j < i; ++j) std::copy_n(out + (i * count + j) * K, K, out + (j * count + i) * K);
}

/// sums[k] = the sum over the rows of weights[i] t[i * K + k].
inline void graph_weighted_sums(const double* weights, const double* t, i64 n, i64 K, int threads,
                                double* sums) {
    const i64 block = graph_block(K), blocks = graph_blocks(n, K);
    std::vector<double> partial(blocks * K, 0.0);
    for_each_task(blocks, threads_for(n * K, threads), [&](i64 task) {
        const i64 first = task * block, last = std::min(n, first + block);
        double* sum = partial.data() + task * K;
        if (K == 1) {
            double all[kGraphLanes] = {};
            graph_add_lanes(first, last, all, [&](i64 i) { return weights[i] * t[i]; });
            sum[0] = graph_lane_sum(all);
            return;
        }
        for (i64 i = first; i < last; ++i)
            for (i64 k = 0; k < K; ++k) sum[k] += weights[i] * t[i * K + k];
    });
    graph_add_blocks(partial, blocks, K, sums);
}

}  // namespace bmrm
