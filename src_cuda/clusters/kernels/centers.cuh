// Centres as the passes read them, and the bound on the error of a fast pass.
#pragma once
#include <cuda_fp16.h>

#include "device/rows.cuh"
#include "runtime/block_sum.cuh"
#include "runtime/chain.cuh"
#include "runtime/device_memory.h"

namespace bmrm {

constexpr int kChunkColumns = 64;  // columns of a chunk for the tensor cores: 128 bytes of float16
constexpr int kGroupCenters = 4;   // centres that lie together for a thread's rows (nearest_lanes.cuh)

// What is subtracted from rows and centres, and the power of two that they are then multiplied by.  Rows of
// float32 need no float64: the shift is one of float32 too, and the power is the product of two.
struct Origin {
    const double* shift;
    const float* shift32;
    double scale;
    float scales[2];

    __device__ __forceinline__ float apply(float x, int64_t f) const {
        return (x - shift32[f]) * scales[0] * scales[1];
    }
    __device__ __forceinline__ float apply(double x, int64_t f) const {
        return float((x - shift[f]) * scale);
    }
};

// What the passes of one call count.
struct PassCounters {
    unsigned widest, widest_rest;  // bits of the maximum norms of centres, and of what float16 leaves of them
    unsigned listed;               // rows that the fast pass could not decide
    unsigned crowded;              // of these, rows with too many candidates
    unsigned long long changed;    // or rows that gain by a move
    unsigned long long largest;    // bits of the maximum gain
};

// A value of the fast pass differs from the exact one by at most `square` B^2/2 + `product` |y| B +
// `least` (1 + B), B being the maximum norm of a centre, besides what float16 leaves.
struct FastError {
    float square, product, least;
};

// Twice that bound, rounded up: two values that differ by more are in the right order.
__device__ __forceinline__ float twice_error(const FastError& error, const PassCounters* counters,
                                             float norm) {
    const float widest = __uint_as_float(counters->widest);
    return 2.02f * (error.square * (0.5f * widest * widest) + error.product * (norm * widest) +
                    error.least * (1.0f + widest));
}

// Norms are rounded up by more than their own error.
__device__ __forceinline__ float norm_above(double square) { return float(sqrt(square) * (1.0 + 0x1p-18)); }

// Rounds to float16, and sets what that leaves.
__device__ __forceinline__ __half round_half(double value, double& rest) {
    const __half found = __float2half(float(value));
    rest = value - double(__half2float(found));
    return found;
}

// Where the numbers of centres go.
struct CenterTables {
    double* copy;     // k x d: as they are, or NULL
    double* columns;  // d x k: as they are
    float* lanes;     // groups of kGroupCenters: minus the shifted and scaled ones, width numbers each, then
                      // half the squared norms
    __half* rounded;  // padded x chunks x kChunkColumns, or
    float* halves;    // padded: half the squared norms
    int width, chunks;
    int64_t padded;  // centres that only fill up are infinitely far from everything
};

constexpr int kCenterThreads = 256;

// One block of 32 to kCenterThreads threads per centre.
static __global__ void __launch_bounds__(kCenterThreads)
    prepare_centers(const double* __restrict__ centers, int64_t k, int64_t d, const Origin origin,
                    CenterTables to, PassCounters* counters) {
    __shared__ double scratch[2 * kCenterThreads / 32], totals[2];
    let_next_start();
    for (int64_t j = blockIdx.x; j < to.padded; j += gridDim.x) {
        double squares[2] = {0, 0};  // of the centre, and of what float16 leaves
        float* group = to.lanes + j / kGroupCenters * (kGroupCenters * (to.width + 1));
        const int64_t width = to.rounded ? int64_t(to.chunks) * kChunkColumns : to.width;
        for (int64_t f = threadIdx.x; f < width; f += blockDim.x) {
            double z = 0;
            if (j < k && f < d) {
                const double c = centers[j * d + f];
                to.columns[f * k + j] = c;
                if (to.copy) to.copy[j * d + f] = c;
                z = (c - origin.shift[f]) * origin.scale;
            }
            squares[0] += z * z;
            if (to.rounded) {
                double rest = 0;
                to.rounded[j * width + f] = round_half(z, rest);
                squares[1] += rest * rest;
            } else {
                group[j % kGroupCenters * to.width + f] = -float(z);
            }
        }
        sum_block<2>(squares, scratch, totals);
        if (threadIdx.x == 0) {
            const float half = j < k ? float(0.5 * totals[0]) : __int_as_float(0x7F800000);
            if (to.rounded)
                to.halves[j] = half;
            else
                group[kGroupCenters * to.width + j % kGroupCenters] = half;
            if (j < k) {
                atomicMax(&counters->widest, __float_as_uint(norm_above(totals[0])));
                atomicMax(&counters->widest_rest, __float_as_uint(norm_above(totals[1])));
            }
        }
        __syncthreads();
    }
}

}  // namespace bmrm
