// Sums of points x over a chunk of the points y.
//
// A thread has one x, or kLightRows in float32, and walks over y. All threads of a block read the same y,
// which a warp gets in one access of the cache; x is read again for each step of some y, or lies in registers
// where AXES is its number of axes. Sums of each tile are added on their own: at most a quarter of a tile one
// after the other. In float32, with three axes, a pair takes some 18 instructions.
#pragma once
#include "pairs/decision.h"
#include "pairs/smoothing.h"

namespace bmrm {

constexpr int kDensityThreads = 128;
constexpr int kLightRows = 2;
constexpr int kLightStep = 8;
constexpr int kDensityStep = 4;
constexpr int kDensityChunk = 16 * kDensityTile;  // points y of a block

// Coordinates by axes. y is padded to a multiple of kLightStep by copies of its last point with weight 0.
template <class T>
struct DensitySet {
    const T *x, *y, *weights;
    int64_t n, m;
    int axes;
};

struct DensityChunk {
    int64_t first, last;

    __device__ explicit DensityChunk(int64_t m)
        : first(int64_t(blockIdx.y) * kDensityChunk),
          last(first + kDensityChunk < m ? first + kDensityChunk : m) {}
};

// Squared distances of point x number i to some y from j on, as decision.h has them.
inline __device__ void squares_of(const DensitySet<double>& set, int64_t i, int64_t j,
                                  double (&squares)[kDensityStep]) {
    for (int t = 0; t < kDensityStep; t++) squares[t] = 0;
    for (int k = 0; k < set.axes; k++) {
        const double x = set.x[k * set.n + i];
        const double* const y = set.y + k * set.m + j;
#pragma unroll
        for (int t = 0; t < kDensityStep; t++)
            squares[t] = add_square(squares[t], exact::difference(x, y[t]));
    }
}

__global__ void __launch_bounds__(kDensityThreads) find_nearest(DensitySet<double> set, double* least) {
    const int64_t i = int64_t(blockIdx.x) * kDensityThreads + threadIdx.x;
    if (i >= set.n) return;
    const DensityChunk chunk(set.m);
    double found = INFINITY, squares[kDensityStep];
    for (int64_t j = chunk.first; j < chunk.last; j += kDensityStep) {
        squares_of(set, i, j, squares);
        for (int t = 0; t < kDensityStep; t++) found = fmin(found, squares[t]);
    }
    least[blockIdx.y * set.n + i] = found;
}

template <Shape shape>
__global__ void __launch_bounds__(kDensityThreads)
    add_terms(DensitySet<double> set, Smoothing smoothing, const double* offsets, double* sums,
              double* inside) {
    const int64_t i = int64_t(blockIdx.x) * kDensityThreads + threadIdx.x;
    if (i >= set.n) return;
    const DensityChunk chunk(set.m);
    const double offset = is_endless(shape) ? offsets[i] : 0.0;
    double sum = 0, weight = 0;
    for (int64_t tile = chunk.first; tile < chunk.last; tile += kDensityTile) {
        const int64_t end = tile + kDensityTile < chunk.last ? tile + kDensityTile : chunk.last;
        double terms[kDensityStep] = {}, weights[kDensityStep] = {}, squares[kDensityStep];
        for (int64_t j = tile; j < end; j += kDensityStep) {
            squares_of(set, i, j, squares);
#pragma unroll
            for (int t = 0; t < kDensityStep; t++) {
                const double w = set.weights[j + t];
                if constexpr (is_endless(shape)) {
                    terms[t] += w * exp(endless_exponent<shape>(squares[t], smoothing, offset));
                } else {
                    terms[t] += w * bounded_term<shape>(squares[t], smoothing);
                    weights[t] += squares[t] < smoothing.end ? w : 0.0;
                }
            }
        }
        sum += (terms[0] + terms[1]) + (terms[2] + terms[3]);
        weight += (weights[0] + weights[1]) + (weights[2] + weights[3]);
    }
    sums[blockIdx.y * set.n + i] = sum;
    inside[blockIdx.y * set.n + i] = weight;
}

// 2^(-rate s).
inline __device__ float light_term(float s, float rate) {
    const float shifted = fmaf(s, -rate, kWholeFloat);
    const float f = fmaf(s, -rate, kWholeFloat - shifted);
    float p = power_of_two_factor(0);
#pragma unroll
    for (int k = 1; k < 6; k++) p = fmaf(p, f, power_of_two_factor(k));
    return __uint_as_float(__float_as_uint(p) + (__float_as_uint(shifted) << 23));
}

template <int AXES>
__global__ void __launch_bounds__(kDensityThreads)
    add_light_terms(DensitySet<float> set, float rate, float most, double* sums, double* moments) {
    const int axes = AXES ? AXES : set.axes;
    const int64_t first = int64_t(blockIdx.x) * kLightRows * kDensityThreads + threadIdx.x;
    const DensityChunk chunk(set.m);
    const float* x[kLightRows];
    float held[kLightRows][AXES ? AXES : 1];
    double sum[kLightRows] = {}, moment[kLightRows] = {};
#pragma unroll
    for (int r = 0; r < kLightRows; r++) {
        const int64_t i = first + r * kDensityThreads;
        x[r] = set.x + (i < set.n ? i : set.n - 1);
        for (int k = 0; k < AXES; k++) held[r][k] = x[r][k * set.n];
    }
    for (int64_t tile = chunk.first; tile < chunk.last; tile += kDensityTile) {
        const int64_t end = tile + kDensityTile < chunk.last ? tile + kDensityTile : chunk.last;
        float spread[kLightRows] = {};
        for (int64_t j = tile; j < end; j += kLightStep) {
            float terms[kLightRows][kLightStep] = {};
#pragma unroll
            for (int k = 0; k < axes; k++) {
                const float4* const y = reinterpret_cast<const float4*>(set.y + k * set.m + j);
                const float4 low = y[0], high = y[1];
                const float of_y[kLightStep] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
                for (int r = 0; r < kLightRows; r++) {
                    const float of_x = AXES ? held[r][AXES ? k : 0] : x[r][k * set.n];
#pragma unroll
                    for (int t = 0; t < kLightStep; t++) {
                        const float d = of_x - of_y[t];
                        terms[r][t] = fmaf(d, d, terms[r][t]);
                    }
                }
            }
            const float4* const w = reinterpret_cast<const float4*>(set.weights + j);
            const float4 low = w[0], high = w[1];
            const float weights[kLightStep] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
            for (int r = 0; r < kLightRows; r++) {
#pragma unroll
                for (int t = 0; t < kLightStep; t++) {
                    const float s = fminf(terms[r][t], most);
                    terms[r][t] = weights[t] * light_term(s, rate);
                    spread[r] = fmaf(terms[r][t], s, spread[r]);
                }
                const float* const p = terms[r];
                sum[r] += double(((p[0] + p[4]) + (p[2] + p[6])) + ((p[1] + p[5]) + (p[3] + p[7])));
            }
        }
        for (int r = 0; r < kLightRows; r++) moment[r] += double(spread[r]);
    }
    for (int r = 0; r < kLightRows; r++) {
        const int64_t i = first + r * kDensityThreads;
        if (i >= set.n) continue;
        sums[blockIdx.y * set.n + i] = sum[r];
        moments[blockIdx.y * set.n + i] = moment[r];
    }
}

// Combines what the chunks have found, in their order: the sum, or the least. In place of the first chunk.
template <bool LEAST>
__global__ void combine_chunks(double* values, int64_t n, int64_t chunks) {
    const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double found = values[i];
    for (int64_t c = 1; c < chunks; c++)
        found = LEAST ? fmin(found, values[c * n + i]) : found + values[c * n + i];
    values[i] = found;
}

}  // namespace bmrm
