// The passes of walks around the products P' x.
//
// A walk has a base b in float64 and corrections e in float32.  The map x -> T(x) = d (P' x + m u) + c v is
// affine: with r = T(b) - b, the image of b + e is b plus
//
//     r + d (P' e + m(e) u), and d m(e) v if u is v.
//
// A light step computes this image of a correction.  `send_messages` mixes a point and computes the messages,
// the input of the product; `advance` computes the image from the product, with the residual, two sums and
// the messages of the image: after a plain step, the next product can start at once.  An exact step moves the
// base
// (`sum_point`, `move_base`) and computes its residual r (`find_residual`) in float64, with all that a bound
// of the rounding needs.  m depends on a sum of the point, which stays on the device.
//
// Bytes per node of a light step of one column: 4 each for the product, x, the image, its messages and the
// scale; 4 more for r, 8 each for v and u.
#pragma once
#include "api/graph.h"
#include "graph/kernels/passes.cuh"

namespace bmrm {

constexpr int kRowsAtOnce = 4;
constexpr int kPassesAtOnce = 4;  // blocks of a pass per multiprocessor, as far as registers decide

// Images and their factors, by value.
struct Mixture {
    const float* image[BB_WALK_IMAGES];
    float factor[BB_WALK_IMAGES][BB_WALK_COLUMNS];
};

// x = the mixture of COUNT images, and z = x scale, for other ranks too.  If COUNT is 0, x is the first image
// and is not written.  Sums: of x over the nodes with scale 0.
template <int WIDTH, int COUNT>
__global__ void __launch_bounds__(kPassThreads, kPassesAtOnce)
    send_messages(const __grid_constant__ Mixture mixture, const float* __restrict__ scale, int64_t n,
                  int columns, float* __restrict__ x, float* __restrict__ z,
                  const __grid_constant__ Copies copies, double* __restrict__ partial) {
    constexpr int IMAGES = COUNT ? COUNT : 1;
    struct Loaded {
        float scale, image[IMAGES];
    };
    float factor[IMAGES];
#pragma unroll
    for (int j = 0; j < COUNT; j++) factor[j] = mixture.factor[j][threadIdx.x % WIDTH];
    double sums[1] = {};
    for_rows<WIDTH, (IMAGES > 2 ? 2 : kRowsAtOnce)>(
        n, columns,
        [&](int64_t row, int64_t at) {
            Loaded found;
            found.scale = scale[row];
#pragma unroll
            for (int j = 0; j < IMAGES; j++) found.image[j] = mixture.image[j][at];
            return found;
        },
        [&](int64_t, int64_t at, const Loaded& a) {
            float value = a.image[0];
            if (COUNT) {
                value *= factor[0];
#pragma unroll
                for (int j = 1; j < COUNT; j++) value += factor[j] * a.image[j];
                x[at] = value;
            }
            z[at] = value * a.scale;
            copies.put(at, value * a.scale);
            if (a.scale == 0) sums[0] += double(value);
        });
    sum_columns<WIDTH>(sums, columns, partial);
}

// The restart vectors of several walks: few entries, sorted.
struct RestartEntries {
    const uint32_t* rows;  // a bit for each row, set if it has an entry
    const int64_t* keys;   // row * BB_WALK_COLUMNS + column
    const double* shares;
    int64_t count;

    __device__ __forceinline__ double at(int64_t row, int column) const {
        if (!(rows[row / 32] >> (row % 32) & 1)) return 0.0;
        const int64_t key = row * BB_WALK_COLUMNS + column;
        int64_t low = 0, high = count;
        while (low < high) {
            const int64_t middle = (low + high) / 2;
            if (keys[middle] < key)
                low = middle + 1;
            else
                high = middle;
        }
        return low < count && keys[low] == key ? shares[low] : 0.0;
    }
};

struct WalkTerms {
    double damping;
    const double* v;  // may be null: then each entry is v0, or there are entries
    double v0;
    const double* u;  // may be null
    RestartEntries entries;
    const uint32_t* lengths;  // nonzeros of each row
    double most, per_entry;   // of the additions

    __device__ __forceinline__ double restart(int64_t row, int column) const {
        return v ? v[row] : entries.count ? entries.at(row, column) : v0;
    }
    __device__ __forceinline__ double additions(uint32_t length) const {
        return fmin(double(length), most + per_entry * double(length));
    }
};

// The factors of v and u in T, by the sum of a point over the dangling nodes.
struct RestartFactors {
    double v, u;

    __device__ __forceinline__ RestartFactors(const WalkTerms& terms, double direct, double lost)
        : v(terms.u ? direct : direct + terms.damping * lost), u(terms.u ? terms.damping * lost : 0.0) {}
};

// g = the image of x, and z = g scale, for other ranks too.  base: r, or null while the base is 0; rest: what
// the product lacks, if it is in two PARTS; lost: per column the sum of x over the nodes with scale 0.  Sums:
// the l1 norm of g - x, and of g over the nodes with scale 0.
template <int WIDTH, int PARTS>
__global__ void __launch_bounds__(kPassThreads, kPassesAtOnce)
    advance(const WalkTerms terms, const double* __restrict__ lost, const float* __restrict__ base,
            const float* __restrict__ product, const float* __restrict__ rest, const float* __restrict__ x,
            const float* __restrict__ scale, int64_t n, int columns, float* __restrict__ g,
            float* __restrict__ z, const __grid_constant__ Copies copies, double* __restrict__ partial) {
    struct Loaded {
        float product, x, scale, constant;
    };
    const int column = int(threadIdx.x) % WIDTH;
    const RestartFactors factor(terms, base ? 0.0 : 1.0 - terms.damping,
                                column < columns ? lost[column] : 0.0);
    const float d = float(terms.damping);
    double sums[2] = {};
    for_rows<WIDTH, kRowsAtOnce>(
        n, columns,
        [&](int64_t row, int64_t at) {
            double constant = factor.v * terms.restart(row, column);
            if (terms.u) constant += factor.u * terms.u[row];
            if (base) constant += double(base[at]);
            return Loaded{PARTS == 2 ? product[at] + rest[at] : product[at], x[at], scale[row],
                          float(constant)};
        },
        [&](int64_t, int64_t at, const Loaded& a) {
            const float image = d * a.product + a.constant;
            const float residual = image - a.x;
            g[at] = image;
            z[at] = image * a.scale;
            copies.put(at, image * a.scale);
            sums[0] += double(fabsf(residual));
            if (a.scale == 0) sums[1] += double(image);
        });
    sum_columns<WIDTH>(sums, columns, partial);
}

// Sums of points further from 1 than this have more to them than rounding in float32.
constexpr double kFarSum = 0.1;

// Sums: of x + e, negative entries as 0.
template <int WIDTH>
__global__ void __launch_bounds__(kPassThreads, kPassesAtOnce)
    sum_point(const float* __restrict__ e, const double* __restrict__ x, int64_t n, int columns,
              double* __restrict__ partial) {
    double sums[1] = {};
    for_rows<WIDTH, kRowsAtOnce>(
        n, columns, [&](int64_t, int64_t at) { return x[at] + double(e[at]); },
        [&](int64_t, int64_t, double value) { sums[0] += value > 0 ? value : 0.0; });
    sum_columns<WIDTH>(sums, columns, partial);
}

// x = x + e where that is positive, else 0, over `total`, its sum: the fixed point has the sum 1, and what
// rounding in float32 has lost of it would come back by a factor of d per step only, where the rest of the
// residual may shrink faster.  z = x scale.  Sums: of x, and of x over the nodes with scale 0.
template <int WIDTH>
__global__ void __launch_bounds__(kPassThreads, kPassesAtOnce)
    move_base(const float* __restrict__ e, const double* __restrict__ total, const double* __restrict__ scale,
              int64_t n, int columns, double* x, double* __restrict__ z, double* __restrict__ partial) {
    struct Loaded {
        double x, scale;
        float e;
    };
    const int column = int(threadIdx.x) % WIDTH;
    const double sum = column < columns ? total[column] : 1.0;
    const double factor = fabs(sum - 1.0) < kFarSum ? 1.0 / sum : 1.0;
    double sums[2] = {};
    for_rows<WIDTH, kRowsAtOnce>(
        n, columns, [&](int64_t row, int64_t at) { return Loaded{x[at], scale[row], e[at]}; },
        [&](int64_t, int64_t at, const Loaded& a) {
            const double moved = a.x + double(a.e), value = moved > 0 ? moved * factor : 0.0;
            x[at] = value;
            z[at] = value * a.scale;
            sums[0] += value;
            if (a.scale == 0) sums[1] += value;
        });
    sum_columns<WIDTH>(sums, columns, partial);
}

// r = T(x) - x, given the product and the sums of `move_base`.  Sums: the l1 norm of r before it is rounded,
// of T(x), and of T(x) times the additions of its rows.
template <int WIDTH>
__global__ void __launch_bounds__(kPassThreads, kPassesAtOnce)
    find_residual(const WalkTerms terms, const double* __restrict__ point, const double* __restrict__ product,
                  const double* __restrict__ x, int64_t n, int columns, float* __restrict__ r,
                  double* __restrict__ partial) {
    struct Loaded {
        double product, x, v, u;
        uint32_t length;
    };
    const int column = int(threadIdx.x) % WIDTH;
    const RestartFactors factor(terms, 1.0 - terms.damping, column < columns ? point[columns + column] : 0.0);
    double sums[3] = {};
    for_rows<WIDTH, 2>(
        n, columns,
        [&](int64_t row, int64_t at) {
            return Loaded{product[at], x[at], terms.restart(row, column), terms.u ? terms.u[row] : 0.0,
                          terms.lengths[row]};
        },
        [&](int64_t, int64_t at, const Loaded& a) {
            const double image = terms.damping * a.product + (factor.v * a.v + factor.u * a.u);
            const double residual = image - a.x;
            r[at] = float(residual);
            sums[0] += fabs(residual);
            sums[1] += image;
            sums[2] += image * terms.additions(a.length);
        });
    sum_columns<WIDTH>(sums, columns, partial);
}

// Residuals: images minus points, or images alone where there is no point.
struct Residuals {
    const float* image[BB_WALK_IMAGES];
    const float* point[BB_WALK_IMAGES];
};

// The inner products of COUNT residuals: sum i (i + 1) / 2 + j is that of i and j <= i.
template <int WIDTH, int COUNT>
__global__ void __launch_bounds__(kPassThreads)
    multiply_residuals(const __grid_constant__ Residuals residuals, int64_t n, int columns,
                       double* __restrict__ partial) {
    struct Loaded {
        float at[COUNT];
    };
    double sums[COUNT * (COUNT + 1) / 2] = {};
    for_rows<WIDTH, 2>(
        n, columns,
        [&](int64_t, int64_t at) {
            Loaded found;
#pragma unroll
            for (int j = 0; j < COUNT; j++) {
                const float* point = residuals.point[j];
                found.at[j] = residuals.image[j][at] - (point ? point[at] : 0.0f);
            }
            return found;
        },
        [&](int64_t, int64_t, const Loaded& a) {
#pragma unroll
            for (int i = 0; i < COUNT; i++)
#pragma unroll
                for (int j = 0; j <= i; j++) sums[i * (i + 1) / 2 + j] += double(a.at[i]) * double(a.at[j]);
        });
    sum_columns<WIDTH>(sums, columns, partial);
}

template <class From, class To>
__global__ void convert_vector(const From* __restrict__ from, int64_t n, To* __restrict__ to) {
    BB_FOR (i, n) to[i] = To(from[i]);
}

// Every column of an image = the restart vectors.
static __global__ void place_restarts(const WalkTerms terms, int64_t n, int columns, float* image) {
    BB_FOR (i, n * columns) image[i] = float(terms.restart(i / columns, int(i % columns)));
}

struct ChosenColumns {
    int32_t of[BB_WALK_COLUMNS];
};

template <class T>
__global__ void pick_columns(const T* __restrict__ from, int from_columns,
                             const __grid_constant__ ChosenColumns chosen, int64_t n, int columns, T* to) {
    BB_FOR (i, n * columns) to[i] = from[i / columns * from_columns + chosen.of[i % columns]];
}

}  // namespace bmrm
