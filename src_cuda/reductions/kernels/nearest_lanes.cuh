// Nearest centres of rows with few columns: a thread has some rows in registers, and all threads of a block
// read the centres from shared memory.
//
// The value of centre z for row y is |z|^2/2 - y.z, in float32.  Of each group of kGroupCenters centres only
// the least value is compared with the best so far; at the end the group of the best is looked at again.
// That leaves the best and the second value of all centres, at less than half the comparisons.
#pragma once
#include "reductions/kernels/centers.cuh"

namespace bmrm {

constexpr int kLaneThreads = 128;
constexpr int kGroupCenters = 4;
constexpr int kTileVectors = 1024;  // of four floats: 16 KB of centres at a time

// Vectors of four floats for D columns and half the squared norm.
__host__ __device__ constexpr int lane_vectors(int D) { return (D + 4) / 4; }

template <int D>
__device__ __forceinline__ float value_of(const float (&y)[D], const float4* center) {
    float z[4 * lane_vectors(D)];
#pragma unroll
    for (int v = 0; v < lane_vectors(D); v++) {
        const float4 four = center[v];
        z[4 * v] = four.x, z[4 * v + 1] = four.y, z[4 * v + 2] = four.z, z[4 * v + 3] = four.w;
    }
    float value = z[D];
#pragma unroll
    for (int f = 0; f < D; f++) value = fmaf(y[f], z[f], value);
    return value;
}

// The same for R rows, which share the loads.
template <int D, int R>
__device__ __forceinline__ void values_of(const float (&y)[R][D], const float4* center, float (&values)[R]) {
    float z[4 * lane_vectors(D)];
#pragma unroll
    for (int v = 0; v < lane_vectors(D); v++) {
        const float4 four = center[v];
        z[4 * v] = four.x, z[4 * v + 1] = four.y, z[4 * v + 2] = four.z, z[4 * v + 3] = four.w;
    }
#pragma unroll
    for (int r = 0; r < R; r++) {
        values[r] = z[D];
#pragma unroll
        for (int f = 0; f < D; f++) values[r] = fmaf(y[r][f], z[f], values[r]);
    }
}

// D: maximum number of columns; R: rows of a thread.  padded: centres, a multiple of kGroupCenters.
template <class V, int D, int R>
__global__ void __launch_bounds__(kLaneThreads)
    nearest_lanes(const V* __restrict__ X, int64_t n, int d, const double* __restrict__ shift, double scale,
                  const float4* __restrict__ centers, int padded, FastError error, PassCounters* counters,
                  int32_t* __restrict__ labels, uint32_t* __restrict__ listed) {
    constexpr int kVectors = lane_vectors(D);
    constexpr int kAtOnce = kTileVectors / kVectors / kGroupCenters * kGroupCenters;
    __shared__ float4 tile[kTileVectors];
    const float infinity = __int_as_float(0x7F800000);
    const int64_t first = int64_t(blockIdx.x) * (kLaneThreads * R) + threadIdx.x;
    float y[R][D], best[R], second[R];
    int group[R];
#pragma unroll
    for (int r = 0; r < R; r++) {
        const int64_t row = first + r * kLaneThreads;
        const V* x = X + (row < n ? row : n - 1) * d;
#pragma unroll
        for (int f = 0; f < D; f++) y[r][f] = f < d ? float((double(x[f]) - shift[f]) * scale) : 0.0f;
        best[r] = second[r] = infinity;
        group[r] = 0;
    }
    for (int begin = 0; begin < padded; begin += kAtOnce) {
        const int count = min(kAtOnce, padded - begin);
        __syncthreads();
        for (int i = int(threadIdx.x); i < count * kVectors; i += kLaneThreads)
            tile[i] = centers[int64_t(begin) * kVectors + i];
        __syncthreads();
        for (int j = 0; j < count; j += kGroupCenters) {
            float least[R];
#pragma unroll
            for (int c = 0; c < kGroupCenters; c++) {
                float values[R];
                values_of<D, R>(y, tile + (j + c) * kVectors, values);
#pragma unroll
                for (int r = 0; r < R; r++) least[r] = c ? fminf(least[r], values[r]) : values[r];
            }
#pragma unroll
            for (int r = 0; r < R; r++) {
                if (least[r] < best[r]) group[r] = begin + j;
                second[r] = fminf(second[r], fmaxf(best[r], least[r]));
                best[r] = fminf(best[r], least[r]);
            }
        }
    }
#pragma unroll
    for (int r = 0; r < R; r++) {
        const int64_t row = first + r * kLaneThreads;
        if (row >= n) break;
        float least = infinity, next = second[r], square = 0;
        int at = group[r];
        for (int c = 0; c < kGroupCenters; c++) {
            const float value = value_of<D>(y[r], centers + int64_t(group[r] + c) * kVectors);
            if (value < least) {
                next = fminf(next, least);
                least = value;
                at = group[r] + c;
            } else {
                next = fminf(next, value);
            }
        }
#pragma unroll
        for (int f = 0; f < D; f++) square = fmaf(y[r][f], y[r][f], square);
        labels[row] = at;
        // Comparisons with NaN or infinity are false: overflow leads to float64.
        if (!(next - least > twice_error(error, counters, norm_above(double(square)))))
            listed[atomicAdd(&counters->listed, 1u)] = uint32_t(row);
    }
}

}  // namespace bmrm
