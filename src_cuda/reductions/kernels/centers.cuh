// Centres as the passes read them, and the bound on the error of a fast pass.
#pragma once
#include <cuda_bf16.h>

#include "runtime/block_sum.cuh"
#include "runtime/device_memory.h"

namespace bmrm {

constexpr int kChunkColumns = 32;                 // columns of a chunk for the tensor cores
constexpr int kChunkNumbers = 2 * kChunkColumns;  // of bfloat16: the high parts, then the low parts

// What the passes of one call count.
struct PassCounters {
    unsigned widest;             // bits of the maximum norm of a centre, rounded up
    unsigned listed;             // rows that the fast pass could not decide
    unsigned long long changed;  // or rows that gain by a move
    unsigned long long largest;  // bits of the maximum gain
};

// A value of the fast pass differs from the exact one by at most
// `square` B^2/2 + `product` |y| B + `least` (1 + B), B being the maximum norm of a centre.
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

// Writes a number as the sum of two of bfloat16, which leaves a relative error of 2^-18.
__device__ __forceinline__ void write_split(double value, __nv_bfloat16* high, __nv_bfloat16* low) {
    *high = __float2bfloat16(float(value));
    *low = __float2bfloat16(float(value - double(__bfloat162float(*high))));
}

// Where the numbers of centres go.
struct CenterTables {
    double* columns;       // d x k: as they are
    float* lanes;          // padded x stride: minus the shifted and scaled ones, zeros, half the squared norm
    __nv_bfloat16* split;  // padded x chunks x kChunkNumbers, or
    float* halves;         // padded: half the squared norms
    int stride, chunks, half_at;
    int64_t padded;  // centres that only fill up are infinitely far from everything
};

// One warp per centre.
static __global__ void __launch_bounds__(256)
    prepare_centers(const double* __restrict__ centers, int64_t k, int64_t d,
                    const double* __restrict__ shift, double scale, CenterTables to, PassCounters* counters) {
    const int lane = int(threadIdx.x) % 32;
    const int64_t warps = int64_t(gridDim.x) * blockDim.x / 32;
    for (int64_t j = (int64_t(blockIdx.x) * blockDim.x + threadIdx.x) / 32; j < to.padded; j += warps) {
        double square = 0;
        const int64_t width = to.split ? int64_t(to.chunks) * kChunkColumns : to.stride;
        for (int64_t f = lane; f < width; f += 32) {
            double z = 0;
            if (j < k && f < d) {
                const double c = centers[j * d + f];
                to.columns[f * k + j] = c;
                z = (c - shift[f]) * scale;
            }
            square += z * z;
            if (to.split) {
                __nv_bfloat16* chunk = to.split + (j * to.chunks + f / kChunkColumns) * kChunkNumbers;
                write_split(z, chunk + f % kChunkColumns, chunk + kChunkColumns + f % kChunkColumns);
            } else if (f != to.half_at) {
                to.lanes[j * to.stride + f] = -float(z);
            }
        }
        square = sum_warp(square);
        if (lane == 0) {
            const float half = j < k ? float(0.5 * square) : __int_as_float(0x7F800000);
            if (to.split)
                to.halves[j] = half;
            else
                to.lanes[j * to.stride + to.half_at] = half;
            if (j < k) atomicMax(&counters->widest, __float_as_uint(norm_above(square)));
        }
    }
}

}  // namespace bmrm
