// Second stage of the sliced products: the partial sums of a row, which are side by side, are added in fixed
// order.
//
// Most rows have a few partial sums; `lanes` threads take one row.  A row of a popular column can have
// thousands: such rows are listed, and each gets a block of its own in the same launch.  Sums are in double:
// float32 partial sums of a long row would lose the accuracy that short rows keep.
#pragma once
#include <stdint.h>

#include "device_limits.h"
#include "runtime/chain.cuh"

namespace bmrm {

// For `rows` rows: y[row[i]] = sum of partial[slot[i] .. slot[i + 1]).
template <class T>
__global__ void __launch_bounds__(kPartialThreads)
    add_partial(const T* __restrict__ partial, const uint32_t* __restrict__ row,
                const uint32_t* __restrict__ slot, int64_t rows, const uint32_t* __restrict__ longest,
                uint32_t long_count, int log2_lanes, uint32_t many, T* __restrict__ y) {
    let_next_start();
    if (blockIdx.x < long_count) {
        __shared__ double of_warp[kPartialThreads / 32];
        const uint32_t i = longest[blockIdx.x], begin = slot[i], end = slot[i + 1];
        wait_for_previous();
        double sum = 0;
#pragma unroll 4
        for (uint32_t k = begin + threadIdx.x; k < end; k += kPartialThreads)
            sum += double(load_input(partial + k));
        for (int apart = 16; apart; apart >>= 1) sum += __shfl_down_sync(0xFFFFFFFFu, sum, apart);
        if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = sum;
        __syncthreads();
        if (threadIdx.x == 0) {
            for (int w = 1; w < kPartialThreads / 32; w++) sum += of_warp[w];
            y[row[i]] = T(sum);
        }
        return;
    }
    const uint32_t lanes = 1u << log2_lanes;
    const int64_t i = (int64_t(blockIdx.x - long_count) * kPartialThreads + threadIdx.x) >> log2_lanes;
    const uint32_t begin = i < rows ? slot[i] : 0, end = i < rows ? slot[i + 1] : 0;
    const bool mine = i < rows && end - begin <= many;
    wait_for_previous();
    double sum = 0;
    if (mine) {
#pragma unroll 4
        for (uint32_t k = begin + (threadIdx.x & (lanes - 1)); k < end; k += lanes)
            sum += double(load_input(partial + k));
    }
    for (uint32_t apart = lanes >> 1; apart; apart >>= 1) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, apart);
    if (mine && (threadIdx.x & (lanes - 1)) == 0) y[row[i]] = T(sum);
}

}  // namespace bmrm
