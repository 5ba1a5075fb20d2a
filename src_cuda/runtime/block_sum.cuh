// Sums over the threads of a block, in fixed order.
#pragma once
#include "device/warp.cuh"

namespace bmrm {

// Sums each of K numbers per thread over the block, into `out`.  `scratch` has room for K doubles per warp;
// no other code uses it while this function runs.
template <int K>
__device__ __forceinline__ void sum_block(double (&mine)[K], double* scratch, double* out) {
    const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32, warps = int(blockDim.x) / 32;
#pragma unroll
    for (int k = 0; k < K; k++) {
        mine[k] = over_warp<Sum>(mine[k]);
        if (lane == 0) scratch[warp * K + k] = mine[k];
    }
    __syncthreads();
    for (int k = warp; k < K; k += warps) {
        const double total = over_warp<Sum>(lane < warps ? scratch[lane * K + k] : 0.0);
        if (lane == 0) out[k] = total;
    }
    __syncthreads();
}

}  // namespace bmrm
