// Vectors of the Golub-Kahan process: inner products with, and multiples of, several vectors in one pass.
#pragma once
#include "graph/kernels/passes.cuh"

namespace bmrm {

constexpr int kVectorsAtOnce = 8;

struct SomeVectors {
    const double* at[kVectorsAtOnce];
};

// Sums: the square of `vector`, and its products with COUNT vectors.
template <int COUNT>
__global__ void __launch_bounds__(kPassThreads)
    project(const SomeVectors vectors, const double* __restrict__ vector, int64_t n,
            double* __restrict__ partial) {
    struct Loaded {
        double vector, at[COUNT];
    };
    double sums[COUNT + 1] = {};
    for_rows<1, 2>(
        n, 1,
        [&](int64_t row, int64_t) {
            Loaded found;
            found.vector = vector[row];
#pragma unroll
            for (int j = 0; j < COUNT; j++) found.at[j] = vectors.at[j][row];
            return found;
        },
        [&](int64_t, int64_t, const Loaded& a) {
#pragma unroll
            for (int j = 0; j < COUNT; j++) sums[1 + j] += a.at[j] * a.vector;
            sums[0] += a.vector * a.vector;
        });
    sum_columns<1>(sums, 1, partial);
}

// to = from + sign times the sum of factors times `count` vectors of COUNT; without `from`, it is 0.  Sums:
// the square of `to`.  `to` may be `from`.
template <int COUNT>
__global__ void __launch_bounds__(kPassThreads)
    add_multiples(const SomeVectors vectors, const double* factors, int count, double sign,
                  const double* from, int64_t n, double* to, double* __restrict__ partial) {
    struct Loaded {
        double from, at[COUNT];
    };
    double factor[COUNT], sums[1] = {};
#pragma unroll
    for (int j = 0; j < COUNT; j++) factor[j] = j < count ? sign * factors[j] : 0.0;
    for_rows<1, 2>(
        n, 1,
        [&](int64_t row, int64_t) {
            Loaded found;
            found.from = from ? from[row] : 0.0;
#pragma unroll
            for (int j = 0; j < COUNT; j++) found.at[j] = vectors.at[j][row];
            return found;
        },
        [&](int64_t row, int64_t, const Loaded& a) {
            double sum = a.from;
#pragma unroll
            for (int j = 0; j < COUNT; j++) sum += factor[j] * a.at[j];
            to[row] = sum;
            sums[0] += sum * sum;
        });
    sum_columns<1>(sums, 1, partial);
}

// Sums: the square of vector - factor other.
static __global__ void __launch_bounds__(kPassThreads)
    measure_distance(const double* __restrict__ vector, double factor, const double* __restrict__ other,
                     int64_t n, double* __restrict__ partial) {
    double sums[1] = {};
    for_rows<1, 4>(
        n, 1, [&](int64_t row, int64_t) { return vector[row] - factor * other[row]; },
        [&](int64_t, int64_t, double apart) { sums[0] += apart * apart; });
    sum_columns<1>(sums, 1, partial);
}

// Sums: that of the positive entries, and that of the negative ones without their sign.
static __global__ void __launch_bounds__(kPassThreads)
    measure_signs(const double* __restrict__ vector, int64_t n, double* __restrict__ partial) {
    double sums[2] = {};
    for_rows<1, 4>(
        n, 1, [&](int64_t row, int64_t) { return vector[row]; },
        [&](int64_t, int64_t, double entry) {
            sums[0] += entry > 0 ? entry : 0.0, sums[1] += entry < 0 ? -entry : 0.0;
        });
    sum_columns<1>(sums, 1, partial);
}

// to = the vector with the sign that makes its sum positive, its negative entries replaced by 0, and divided
// by its sum.
static __global__ void divide_by_sum(const double* __restrict__ vector, const double* __restrict__ sums,
                                     int64_t n, double* __restrict__ to) {
    const double sign = sums[0] < sums[1] ? -1.0 : 1.0, total = sign > 0 ? sums[0] : sums[1];
    BB_FOR (i, n) {
        const double entry = sign * vector[i];
        to[i] = entry > 0 ? entry / total : 0.0;
    }
}

static __global__ void fill_vector(double* vector, double value, int64_t n) {
    BB_FOR (i, n) vector[i] = value;
}

static __global__ void divide_vector(double* vector, double length, int64_t n) {
    BB_FOR (i, n) vector[i] /= length;
}

}  // namespace bmrm
