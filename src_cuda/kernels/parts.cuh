// Sums that blocks left side by side in global memory, added up by a launch of its own: where they are many,
// that is faster than the last block alone (finish.cuh).
#pragma once
#include <stdint.h>

#include "../device_memory.h"
#include "chain.cuh"

namespace bmrm {

constexpr int kPartThreads = 256;

// Adds `parts` rows of sums, `stride` apart, in fixed order: `groups` threads a column, each with its share.
template <class S, class T>
__global__ void __launch_bounds__(kPartThreads)
    add_parts(const S* __restrict__ sums, int64_t parts, int64_t stride, int64_t count, int groups,
              T* __restrict__ y, double* __restrict__ risk) {
    __shared__ double of_thread[kPartThreads];
    const int across = kPartThreads / groups, tx = int(threadIdx.x) % across, ty = int(threadIdx.x) / across;
    const int64_t col = int64_t(blockIdx.x) * across + tx;
    let_next_start();
    wait_for_previous();
    double sum = 0;
    if (col < stride) {
#pragma unroll 8
        for (int64_t p = ty; p < parts; p += groups) sum += double(load_input(sums + p * stride + col));
    }
    // Those of a warp by pairs of threads, then pairs of pairs; those of the few warps one after the other.
    for (int apart = 16; apart >= across; apart /= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, apart);
    of_thread[threadIdx.x] = sum;
    __syncthreads();
    if (ty == 0 && col < stride) {
        sum = 0;
#pragma unroll
        for (int k = 0; k < kPartThreads / 32; k++) {
            const int other = tx + k * max(across, 32);
            if (other < kPartThreads) sum += of_thread[other];
        }
        if (col < count)
            y[col] = T(sum);
        else if (risk)
            *risk = sum;
    }
}

// early: as of NextLaunch.
template <class S, class T>
void add_up(const S* sums, int64_t parts, int64_t stride, int64_t count, T* y, double* risk,
            cudaStream_t stream, bool early) {
    int groups = 1;
    while (groups < 64 && 4 * groups < parts) groups *= 2;
    const NextLaunch launch(unsigned(blocks_for(stride, kPartThreads / groups)), kPartThreads, 0, stream,
                            early);
    launch(add_parts<S, T>, sums, parts, stride, count, groups, y, risk);
}

}  // namespace bmrm
