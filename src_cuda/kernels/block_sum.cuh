// A few sums over the threads of a block, in fixed order.
#pragma once

namespace bmrm {

// Adds up each of K numbers a thread, to `out`.  `scratch` holds K doubles a warp, which nobody else uses on
// entry, and on return nobody does.
template <int K>
__device__ __forceinline__ void sum_block(double (&mine)[K], double* scratch, double* out) {
    const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32, warps = int(blockDim.x) / 32;
#pragma unroll
    for (int k = 0; k < K; k++) {
        for (int apart = 16; apart; apart /= 2) mine[k] += __shfl_xor_sync(0xFFFFFFFFu, mine[k], apart);
        if (lane == 0) scratch[warp * K + k] = mine[k];
    }
    __syncthreads();
    if (threadIdx.x < K) {
        double total = 0;
        for (int w = 0; w < warps; w++) total += scratch[w * K + threadIdx.x];
        out[threadIdx.x] = total;
    }
    __syncthreads();
}

}  // namespace bmrm
