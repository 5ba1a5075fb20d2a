// Centres as the passes read them, and the bound on the error of a fast pass.
#pragma once
#include "device/rows.cuh"
#include "rows/kernels/rounded_rows.cuh"
#include "runtime/block_sum.cuh"
#include "runtime/chain.cuh"
#include "runtime/device_memory.h"

namespace bmrm {

constexpr int kGroupCenters = 4;  // centres that lie together for a thread's rows (nearest_lanes.cuh)

// What the passes of one call count.
struct PassCounters {
    unsigned widest, widest_rest;  // bits of the maximum norms of centres, and of what float16 leaves of them
    unsigned listed;               // rows that the fast pass could not decide
    unsigned crowded;              // of these, rows with too many candidates
    unsigned long long changed;    // or rows that gain by a move
    unsigned long long largest;    // bits of the maximum gain
};

// Twice that bound, rounded up: two values that differ by more are in the right order.
__device__ __forceinline__ float twice_error(const FastError& error, const PassCounters* counters,
                                             float norm) {
    const float widest = __uint_as_float(counters->widest);
    return 2.02f * (error.square * (0.5f * widest * widest) + error.product * (norm * widest) +
                    error.least * (1.0f + widest));
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
