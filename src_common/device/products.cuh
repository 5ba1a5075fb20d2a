// Sums of products of a block of threads: those of its warps are added in order, in shared memory.
#pragma once
#include "device/mma64.cuh"

namespace bmrm {

// Calls add(is_first) in one warp after another.
template <int WARPS, class Add>
__device__ __forceinline__ void add_warps(const Add& add) {
#pragma unroll 1
    for (int warp = 0; warp < WARPS; warp++) {
        if (int(threadIdx.x) / kWarpLanes == warp) add(warp == 0);
        __syncthreads();
    }
}

__device__ __forceinline__ void add_to(double* place, double value, bool is_first) {
    *place = is_first ? value : *place + value;
}

// Adds the numbers of each lane to its own places, a warp of lanes apart: blocks of sums, and sums of
// columns.
template <int COUNT>
__device__ __forceinline__ void add_numbers(double* to, const double (&sums)[COUNT][2], bool is_first) {
#pragma unroll
    for (int n = 0; n < 2 * COUNT; n++) add_to(to + n * kWarpLanes, sums[n / 2][n % 2], is_first);
}
template <int COUNT>
__device__ __forceinline__ void add_numbers(double* to, const double (&totals)[COUNT], bool is_first) {
#pragma unroll
    for (int n = 0; n < COUNT; n++) add_to(to + n * kWarpLanes, sum_steps(totals[n]), is_first);
}

}  // namespace bmrm
