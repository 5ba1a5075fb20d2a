// Sums over the threads of a warp or a block, in fixed order.
#pragma once

namespace bmrm {

// Returns the sum over a warp, in every thread.
template <class T>
__device__ __forceinline__ T sum_warp(T mine) {
    for (int apart = 16; apart; apart /= 2) mine += __shfl_xor_sync(0xFFFFFFFFu, mine, apart);
    return mine;
}

// Sums each of K numbers per thread over the block, into `out`.  `scratch` has room for K doubles per warp;
// no other code uses it while this function runs.
template <int K>
__device__ __forceinline__ void sum_block(double (&mine)[K], double* scratch, double* out) {
    const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32, warps = int(blockDim.x) / 32;
#pragma unroll
    for (int k = 0; k < K; k++) {
        mine[k] = sum_warp(mine[k]);
        if (lane == 0) scratch[warp * K + k] = mine[k];
    }
    __syncthreads();
    for (int k = warp; k < K; k += warps) {
        const double total = sum_warp(lane < warps ? scratch[lane * K + k] : 0.0);
        if (lane == 0) out[k] = total;
    }
    __syncthreads();
}

}  // namespace bmrm
