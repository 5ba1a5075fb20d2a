// Nearest centres of rows with few columns: a thread has some rows in registers, and all threads of a block
// read the centres from shared memory.
//
// The value of centre z for row y is |z|^2/2 - y.z, in float32.  With few columns the comparisons take longer
// than the products: then of each group of centres only the least value is compared with the best so far, and
// at the end the group of the best is looked at again.  That leaves the best and the second value of all
// centres, at less than half the comparisons.
#pragma once
#include "clusters/kernels/centers.cuh"

namespace bmrm {

constexpr int kLaneThreads = 128;
constexpr int kTileVectors = 1024;     // of four floats: 16 KB of centres at a time
constexpr int kMaxGroupedColumns = 4;  // columns up to which groups pay

// A group has D vectors of four floats, centre by centre, and one with half the squared norms.
template <int D>
__device__ __forceinline__ void load_center(const float4* group, int c, float (&z)[D]) {
    const float* numbers = reinterpret_cast<const float*>(group) + c * D;
    if (D % 4 == 0) {
#pragma unroll
        for (int v = 0; v < D / 4; v++) {
            const float4 four = reinterpret_cast<const float4*>(numbers)[v];
            z[4 * v] = four.x, z[4 * v + 1] = four.y, z[4 * v + 2] = four.z, z[4 * v + 3] = four.w;
        }
    } else {
#pragma unroll
        for (int f = 0; f < D; f++) z[f] = numbers[f];
    }
}

// Centres of a group, all at once: vectors serve several centres.
template <int D>
struct Group {
    float z[kGroupCenters * D], half[kGroupCenters];

    __device__ __forceinline__ explicit Group(const float4* from) {
#pragma unroll
        for (int v = 0; v < D; v++) {
            const float4 four = from[v];
            z[4 * v] = four.x, z[4 * v + 1] = four.y, z[4 * v + 2] = four.z, z[4 * v + 3] = four.w;
        }
        const float4 four = from[D];
        half[0] = four.x, half[1] = four.y, half[2] = four.z, half[3] = four.w;
    }
    __device__ __forceinline__ float value(const float (&y)[D], int c) const {
        float sum = half[c];
#pragma unroll
        for (int f = 0; f < D; f++) sum = fmaf(y[f], z[c * D + f], sum);
        return sum;
    }
};

// Looks at the group of the best value again: sets the second value and returns the nearest centre.
template <int D>
__device__ __forceinline__ int refine(const float (&y)[D], const float4* centers, int group, float& best,
                                      float& second) {
    const Group<D> again(centers + int64_t(group) * (D + 1));
    float least = __int_as_float(0x7F800000);
    int at = 0;
#pragma unroll
    for (int c = 0; c < kGroupCenters; c++) {
        const float value = again.value(y, c);
        if (value < least) at = c;
        second = fminf(second, fmaxf(least, value));
        least = fminf(least, value);
    }
    best = least;
    return group * kGroupCenters + at;
}

// The columns of a row, shifted and scaled; D is at least d.
template <class V, int D>
__device__ __forceinline__ void load_row(const V* x, int d, const Origin& origin, bool aligned,
                                         float (&y)[D]) {
    constexpr int W = 16 / int(sizeof(V));
    if (aligned && D % W == 0) {  // D is d, and all rows begin at multiples of 16 bytes
#pragma unroll
        for (int f = 0; f < D; f += W) {
            const Several<V, W> some = *reinterpret_cast<const Several<V, W>*>(x + f);
#pragma unroll
            for (int e = 0; e < W; e++)
                if (f + e < D) y[f + e] = origin.apply(some.values[e], f + e);
        }
    } else {
#pragma unroll
        for (int f = 0; f < D; f++) y[f] = f < d ? origin.apply(x[f], f) : 0.0f;
    }
}

// D: maximum number of columns; R: rows of a thread.  groups: of kGroupCenters centres.
template <class V, int D, int R>
__global__ void __launch_bounds__(kLaneThreads)
    nearest_lanes(const V* __restrict__ X, int64_t n, int d, const Origin origin, bool aligned,
                  const float4* given_centers, int groups, FastError error, PassCounters* counters,
                  int32_t* __restrict__ labels, uint32_t* __restrict__ listed) {
    constexpr bool grouped = D <= kMaxGroupedColumns;
    constexpr int kVectors = D + 1, kAtOnce = kTileVectors / kVectors;
    __shared__ float4 tile[kTileVectors];
    const float infinity = __int_as_float(0x7F800000);
    const int64_t first = int64_t(blockIdx.x) * (kLaneThreads * R) + threadIdx.x;
    let_next_start();
    float y[R][D], best[R], second[R];
    int at[R];
#pragma unroll
    for (int r = 0; r < R; r++) {
        const int64_t row = first + r * kLaneThreads;
        load_row(X + (row < n ? row : n - 1) * d, d, origin, aligned, y[r]);
        best[r] = second[r] = infinity;
        at[r] = 0;
    }
    wait_for_previous();
    const float4* centers = after_wait(given_centers);
    for (int begin = 0; begin < groups; begin += kAtOnce) {
        const int count = min(kAtOnce, groups - begin);
        __syncthreads();
        for (int i = int(threadIdx.x); i < count * kVectors; i += kLaneThreads)
            tile[i] = centers[int64_t(begin) * kVectors + i];
        __syncthreads();
        for (int g = 0; g < count; g++) {
            const float4* from = tile + g * kVectors;
            if (grouped) {
                const Group<D> group(from);
#pragma unroll
                for (int r = 0; r < R; r++) {
                    float least = group.value(y[r], 0);
#pragma unroll
                    for (int c = 1; c < kGroupCenters; c++) least = fminf(least, group.value(y[r], c));
                    if (least < best[r]) at[r] = begin + g;
                    second[r] = fminf(second[r], fmaxf(best[r], least));
                    best[r] = fminf(best[r], least);
                }
            } else {
                const float4 halves = from[D];
                const float half[kGroupCenters] = {halves.x, halves.y, halves.z, halves.w};
#pragma unroll
                for (int c = 0; c < kGroupCenters; c++) {
                    float z[D];
                    load_center<D>(from, c, z);
#pragma unroll
                    for (int r = 0; r < R; r++) {
                        float value = half[c];
#pragma unroll
                        for (int f = 0; f < D; f++) value = fmaf(y[r][f], z[f], value);
                        if (value < best[r]) at[r] = (begin + g) * kGroupCenters + c;
                        second[r] = fminf(second[r], fmaxf(best[r], value));
                        best[r] = fminf(best[r], value);
                    }
                }
            }
        }
    }
#pragma unroll
    for (int r = 0; r < R; r++) {
        const int64_t row = first + r * kLaneThreads;
        if (row >= n) break;
        float square = 0;
        if (grouped)  // the tile still has all centres, if there is only one
            at[r] = groups <= kAtOnce ? refine(y[r], tile, at[r], best[r], second[r])
                                      : refine(y[r], centers, at[r], best[r], second[r]);
#pragma unroll
        for (int f = 0; f < D; f++) square = fmaf(y[r][f], y[r][f], square);
        labels[row] = at[r];
        // Comparisons with NaN or infinity are false: overflow leads to float64.
        if (!(second[r] - best[r] > twice_error(error, counters, norm_above(double(square)))))
            listed[atomicAdd(&counters->listed, 1u)] = uint32_t(row);
    }
}

}  // namespace bmrm
