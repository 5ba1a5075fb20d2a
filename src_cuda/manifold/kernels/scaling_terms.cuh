// What a pair adds in the passes of multidimensional scaling; kernels/pair_tiles.cuh says how it is added up.
// src_cython/manifold/scaling.h has the same passes for the CPU, with the mathematics.
#pragma once
#include <limits.h>
#include <stdint.h>

#include "coincident_points.h"
#include "pairs/kernels/roots.cuh"

namespace bmrm {

// Numbers of points, stored by rows of `p`; a kernel reads READS of them, 0 for those that do not exist.
template <int READS>
struct Points {
    const double* values;
    int p;

    template <class Real>
    __device__ void load(int64_t i, Real* x) const {
#pragma unroll
        for (int k = 0; k < READS; k++) x[k] = k < p ? Real(values[i * p + k]) : Real(0);
    }
};

struct InDouble {
    using Real = double;
    using Adds = double;
};

template <int P>
struct PointShape : InDouble {
    static constexpr int ROWS = P <= 4 ? 4 : P <= 8 ? 2 : 1, COLUMNS = P <= 3 ? 4 : P <= 8 ? 2 : 1;
};

// Half the descent direction: w (delta / d - 1) (x_i - x_j), and sums of w (delta - d)^2, w d^2, and the
// number of pairs at one place with w delta > 0.  In float32 the products with weights are in Adds: without
// weights these are 0 or 1.
template <int P, class R = double, class A = R>
struct DescentTerm : PointShape<P> {
    using Real = R;
    using Adds = A;
    static constexpr int READS = P, ADDS = P, SUMS = 3;
    static constexpr bool kUnknownCounts = false, kMayHaveRare = true;
    static constexpr int kNothingRare = INT_MAX;

    // `rare` is the least upper half of a squared distance.
    static __device__ bool has_rare(int rare) { return rare < upper_half(least_square<Real>()); }
    Points<P> points;

    __device__ void load(int64_t i, Real* x) const { points.load(i, x); }

    template <bool WEIGHTED>
    __device__ void add(const Real* x, const Real* z, Real delta, double w, Adds* h, Adds* g, Adds* sums,
                        int& rare) const {
        Real u[P], square = 0;
#pragma unroll
        for (int k = 0; k < P; k++) {
            u[k] = x[k] - z[k];
            square = fma(u[k], u[k], square);
        }
        // What a pair at one place adds here is 0, or is taken back by add_rare.
        const int half = upper_half(square);
        rare = rare < half ? rare : half;
        const Real y = inverse_root(with_least_half(square, half));
        const Adds e = fma(-square, y, delta);
        Adds c = fma(delta, y, Real(-1));
        if constexpr (WEIGHTED) {
            sums[0] = fma(Adds(w) * e, e, sums[0]);
            sums[1] = fma(Adds(w), Adds(square), sums[1]);
            c *= Adds(w);
        } else {
            sums[0] = fma(e, e, sums[0]);
            sums[1] += Adds(square);
        }
#pragma unroll
        for (int k = 0; k < P; k++) {
            h[k] = fma(c, Adds(u[k]), h[k]);
            g[k] = fma(-c, Adds(u[k]), g[k]);
        }
    }

    // Two points at one place part along an axis.
    __device__ void add_rare(const Real* x, const Real* z, int64_t i, int64_t j, double delta, double w,
                             double* more, double* sums) const {
        Real square = 0;
#pragma unroll
        for (int k = 0; k < P; k++) square = fma(x[k] - z[k], x[k] - z[k], square);
        if (is_apart(square)) return;
        const Real y = inverse_root(with_least_half(square, upper_half(square)));
        const double c = w * double(fma(Real(delta), y, Real(-1))), pull = w * delta;
        const int axis = pull > 0.0 ? int(parting_axis(i, j, points.p)) : -1;
#pragma unroll
        for (int k = 0; k < P; k++) more[k] = (k == axis ? pull : 0.0) - c * (x[k] - z[k]);
        if (pull > 0.0) sums[2] += 1.0;
    }
};

// A matrix of all pairs times T numbers y of each point.
template <int T>
struct ProductTerm : PointShape<T> {
    static constexpr int READS = T, ADDS = T, SUMS = 0;
    static constexpr bool kMayHaveRare = false;
    static constexpr int kNothingRare = 0;
    Points<T> points;

    __device__ void load(int64_t i, double* y) const { points.load(i, y); }
};

// The Laplacian of the weights times numbers y: w (y_i - y_j).
template <int T>
struct LaplacianTerm : ProductTerm<T> {
    static constexpr bool kUnknownCounts = false;

    template <bool WEIGHTED>
    __device__ void add(const double* y, const double* z, double, double w, double* h, double* g, double*,
                        int&) const {
#pragma unroll
        for (int k = 0; k < T; k++) {
            const double u = y[k] - z[k];
            h[k] = fma(w, u, h[k]);
            g[k] = fma(-w, u, g[k]);
        }
    }
};

// The matrix of squared dissimilarities times numbers y: delta^2 y_j to i and delta^2 y_i to j.
template <int T>
struct SquaredTerm : ProductTerm<T> {
    static constexpr bool kUnknownCounts = true;

    template <bool WEIGHTED>
    __device__ void add(const double* y, const double* z, double delta, double w, double* h, double* g,
                        double*, int&) const {
        double square = delta * delta;
        if constexpr (WEIGHTED) square *= w;  // 0 for a pair that does not exist
#pragma unroll
        for (int k = 0; k < T; k++) {
            h[k] = fma(square, z[k], h[k]);
            g[k] = fma(square, y[k], g[k]);
        }
    }
};

// Sums of w delta / d of each point.
template <int P>
struct PullTerm : PointShape<P> {
    static constexpr int READS = P, ADDS = 1, SUMS = 0;
    static constexpr bool kUnknownCounts = false, kMayHaveRare = false;
    static constexpr int kNothingRare = 0;
    Points<P> points;

    __device__ void load(int64_t i, double* x) const { points.load(i, x); }

    template <bool WEIGHTED>
    __device__ void add(const double* x, const double* z, double delta, double w, double* h, double* g,
                        double*, int&) const {
        double square = 0.0;
#pragma unroll
        for (int k = 0; k < P; k++) square = fma(x[k] - z[k], x[k] - z[k], square);
        const double pull = is_apart(square) ? w * delta * inverse_root(square) : 0.0;
        h[0] += pull;
        g[0] += pull;
    }
};

// Half the Hessian of the stress times a direction y: with u = x_i - x_j,
// w ((1 - delta / d) (y_i - y_j) + (delta / d^3) u'(y_i - y_j) u).  Pairs at one place count as if delta were
// 0.
template <int P>
struct CurvatureTerm : InDouble {
    static constexpr int ROWS = P <= 2 ? 4 : P <= 8 ? 2 : 1, COLUMNS = P <= 2 ? 2 : 1;
    static constexpr int READS = 2 * P, ADDS = P, SUMS = 0;
    static constexpr bool kUnknownCounts = false, kMayHaveRare = false;
    static constexpr int kNothingRare = 0;
    Points<P> points, direction;

    __device__ void load(int64_t i, double* x) const {
        points.load(i, x);
        direction.load(i, x + P);
    }

    template <bool WEIGHTED>
    __device__ void add(const double* x, const double* z, double delta, double w, double* h, double* g,
                        double*, int&) const {
        double square = 0.0, inner = 0.0;
#pragma unroll
        for (int k = 0; k < P; k++) {
            square = fma(x[k] - z[k], x[k] - z[k], square);
            inner = fma(x[k] - z[k], x[P + k] - z[P + k], inner);
        }
        const double y = is_apart(square) ? inverse_root(square) : 0.0, ratio = delta * y;
        const double even = w * (1.0 - ratio), along = w * ratio * y * y * inner;
#pragma unroll
        for (int k = 0; k < P; k++) {
            const double more = even * (x[P + k] - z[P + k]) + along * (x[k] - z[k]);
            h[k] += more;
            g[k] -= more;
        }
    }
};

// Sums of the weights of each point; sums of w delta^2 and of delta^2, and the number of known pairs.
struct SummaryTerm : InDouble {
    static constexpr int ROWS = 4, COLUMNS = 4, READS = 0, ADDS = 1, SUMS = 3;
    static constexpr bool kUnknownCounts = false, kMayHaveRare = true;
    static constexpr int kNothingRare = 0;
    static __device__ bool has_rare(int) { return true; }

    __device__ void load(int64_t, double*) const {}

    template <bool WEIGHTED>
    __device__ void add(const double*, const double*, double delta, double w, double* h, double* g,
                        double* sums, int& rare) const {
        h[0] += w;
        g[0] += w;
        sums[0] = fma(w * delta, delta, sums[0]);
    }
    // A known pair counts whatever its weight.
    __device__ void add_rare(const double*, const double*, int64_t, int64_t, double delta, double, double*,
                             double* sums) const {
        sums[1] = fma(delta, delta, sums[1]);
        sums[2] += 1.0;
    }
};

}  // namespace bmrm
