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
/// Maximum number of columns, and of residuals kept for Anderson's method.
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

/// Adds the sums of the blocks in order: out[s] for s < count.
inline void graph_add_blocks(const std::vector<double>& sums, i64 blocks, i64 count, double* out) {
    std::fill_n(out, count, 0.0);
    for (i64 t = 0; t < blocks; ++t)
        for (i64 s = 0; s < count; ++s) out[s] += sums[t * count + s];
}

/// x = the mixture, negative entries replaced by 0 (not written if the mixture is one vector); z = x scale.
/// sums: per column, the sum of x, then that of x over the rows with scale 0.
inline void graph_messages(const GraphMixture& mixture, const double* scale, i64 n, i64 K, int threads,
                           double* x, double* z, double* sums) {
    const i64 block = graph_block(K), blocks = graph_blocks(n, K), width = 2 * K;
    std::vector<double> partial(blocks * width, 0.0);
    for_each_task(blocks, threads_for(n * K * (2 + mixture.count), threads), [&](i64 t) {
        const i64 first = t * block, last = std::min(n, first + block);
        const double* from = mixture.vectors[0];
        if (mixture.count) {
            for (i64 i = first * K; i < last * K; i += K)
                for (i64 k = 0; k < K; ++k) x[i + k] = mixture.factors[k] * from[i + k];
            for (int j = 1; j < mixture.count; ++j) {
                const double *g = mixture.vectors[j], *a = mixture.factors + j * K;
                for (i64 i = first * K; i < last * K; i += K)
                    for (i64 k = 0; k < K; ++k) x[i + k] += a[k] * g[i + k];
            }
            for (i64 i = first * K; i < last * K; ++i) x[i] = x[i] > 0 ? x[i] : 0.0;
            from = x;
        }
        double* sum = partial.data() + t * width;
        if (K == 1) {
            double all[kGraphLanes] = {}, lost[kGraphLanes] = {};
            i64 i = first;
            for (; i + kGraphLanes <= last; i += kGraphLanes)
                for (int l = 0; l < kGraphLanes; ++l) {
                    const double value = from[i + l], s = scale[i + l];
                    z[i + l] = value * s;
                    all[l] += value;
                    lost[l] += s == 0 ? value : 0.0;
                }
            for (int l = 0; i < last; ++i, ++l) {
                z[i] = from[i] * scale[i];
                all[l] += from[i];
                lost[l] += scale[i] == 0 ? from[i] : 0.0;
            }
            sum[0] = graph_lane_sum(all);
            sum[1] = graph_lane_sum(lost);
            return;
        }
        for (i64 i = first; i < last; ++i) {
            const double s = scale[i], *row = from + i * K;
            for (i64 k = 0; k < K; ++k) z[i * K + k] = row[k] * s;
            for (i64 k = 0; k < K; ++k) sum[k] += row[k];
            if (s == 0)
                for (i64 k = 0; k < K; ++k) sum[K + k] += row[k];
        }
    });
    graph_add_blocks(partial, blocks, width, sums);
}

/// The terms of T for one column: g = d t + ..., with as few streams from memory as there are vectors.
template <bool dense_v, bool has_u, bool has_b>
inline void graph_affine(const GraphTerms& terms, const double* t, i64 first, i64 last, double* g) {
    const double d = terms.damping, c = terms.c[0], constant = c * terms.v0, m = terms.mass[0];
    for (i64 i = first; i < last; ++i) {
        double value = dense_v ? c * terms.v[i] : constant;
        if (has_u) value += m * terms.u[i];
        if (has_b) value += terms.b[i];
        g[i] = d * t[i] + value;
    }
}

inline void graph_affine_column(const GraphTerms& terms, const double* t, i64 first, i64 last, double* g) {
    using Pass = void (*)(const GraphTerms&, const double*, i64, i64, double*);
    static const Pass passes[] = {graph_affine<false, false, false>, graph_affine<true, false, false>,
                                  graph_affine<false, true, false>,  graph_affine<true, true, false>,
                                  graph_affine<false, false, true>,  graph_affine<true, false, true>,
                                  graph_affine<false, true, true>,   graph_affine<true, true, true>};
    passes[(terms.v ? 1 : 0) + (terms.u ? 2 : 0) + (terms.b ? 4 : 0)](terms, t, first, last, g);
}

inline void graph_affine_columns(const GraphTerms& terms, const double* t, i64 first, i64 last, i64 K,
                                 double* g) {
    const double d = terms.damping;
    for (i64 i = first * K; i < last * K; ++i) g[i] = d * t[i];
    if (terms.u)
        for (i64 i = first; i < last; ++i)
            for (i64 k = 0; k < K; ++k) g[i * K + k] += terms.mass[k] * terms.u[i];
    const GraphRestarts& r = terms.restarts;
    for (i64 e = std::lower_bound(r.rows, r.rows + r.count, first) - r.rows; e < r.count && r.rows[e] < last;
         ++e)
        g[r.rows[e] * K + r.columns[e]] += terms.c[r.columns[e]] * r.values[e];
}

/// g = T(x) from the product t, f = g - x. sums: per column, the l1 norm of f, its inner product with itself,
/// and with each of the earlier residuals.
inline void graph_update(const GraphTerms& terms, const double* t, const double* x, i64 n, i64 K, double* g,
                         double* f, const double* const* earlier, int count, int threads, double* sums) {
    const i64 block = graph_block(K), blocks = graph_blocks(n, K), width = (2 + count) * K;
    std::vector<double> partial(blocks * width, 0.0);
    for_each_task(blocks, threads_for(n * K * (4 + count), threads), [&](i64 task) {
        const i64 first = task * block, last = std::min(n, first + block);
        double* sum = partial.data() + task * width;
        if (K == 1) {
            graph_affine_column(terms, t, first, last, g);
            double size[kGraphLanes] = {}, square[kGraphLanes] = {};
            i64 i = first;
            for (; i + kGraphLanes <= last; i += kGraphLanes)
                for (int l = 0; l < kGraphLanes; ++l) {
                    const double value = g[i + l] - x[i + l];
                    f[i + l] = value;
                    size[l] += std::fabs(value);
                    square[l] += value * value;
                }
            for (int l = 0; i < last; ++i, ++l) {
                f[i] = g[i] - x[i];
                size[l] += std::fabs(f[i]);
                square[l] += f[i] * f[i];
            }
            sum[0] = graph_lane_sum(size);
            sum[1] = graph_lane_sum(square);
            for (int j = 0; j < count; ++j) {
                const double* e = earlier[j];
                double product[kGraphLanes] = {};
                for (i = first; i + kGraphLanes <= last; i += kGraphLanes)
                    for (int l = 0; l < kGraphLanes; ++l) product[l] += e[i + l] * f[i + l];
                for (int l = 0; i < last; ++i, ++l) product[l] += e[i] * f[i];
                sum[2 + j] = graph_lane_sum(product);
            }
            return;
        }
        graph_affine_columns(terms, t, first, last, K, g);
        for (i64 i = first; i < last; ++i)
            for (i64 k = 0; k < K; ++k) {
                const double value = g[i * K + k] - x[i * K + k];
                f[i * K + k] = value;
                sum[k] += std::fabs(value);
                sum[K + k] += value * value;
            }
        for (int j = 0; j < count; ++j)
            for (i64 i = first; i < last; ++i)
                for (i64 k = 0; k < K; ++k) sum[(2 + j) * K + k] += earlier[j][i * K + k] * f[i * K + k];
    });
    graph_add_blocks(partial, blocks, width, sums);
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
            i64 i = first;
            for (; i + kGraphLanes <= last; i += kGraphLanes)
                for (int l = 0; l < kGraphLanes; ++l) all[l] += weights[i + l] * t[i + l];
            for (int l = 0; i < last; ++i, ++l) all[l] += weights[i] * t[i];
            sum[0] = graph_lane_sum(all);
            return;
        }
        for (i64 i = first; i < last; ++i)
            for (i64 k = 0; k < K; ++k) sum[k] += weights[i] * t[i * K + k];
    });
    graph_add_blocks(partial, blocks, K, sums);
}

}  // namespace bmrm
