// Sums that blocks left in `block_sums` (blocks x (columns + 1): gradient, then risk), added up by the block
// that comes last, in the order of blocks; groups of threads share a column.
//
// `ticket` is zero between launches; `scratch` has a double a thread.
#pragma once
#include <stdint.h>

namespace bmrm {

template <class T>
__device__ void finish_columns(const double* block_sums, int columns, uint32_t* ticket, double* scratch,
                               T* __restrict__ gradient, double* __restrict__ risk) {
    __shared__ bool is_last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        is_last = atomicAdd(ticket, 1u) == gridDim.x - 1;
        if (is_last) *ticket = 0;
    }
    __syncthreads();
    if (!is_last) return;
    __threadfence();
    const int entries = columns + 1;
    int groups = 1;
    while (groups < 16 && groups * 2 * entries <= int(blockDim.x)) groups *= 2;
    const int at_once = int(blockDim.x) / groups;
    for (int first = 0; first < entries; first += at_once) {
        const int entry = first + int(threadIdx.x) / groups, group = int(threadIdx.x) % groups;
        double sum = 0;
        if (entry < entries) {
#pragma unroll 16
            for (int b = group; b < int(gridDim.x); b += groups)
                sum += __ldcg(block_sums + int64_t(b) * entries + entry);
        }
        scratch[threadIdx.x] = sum;
        __syncthreads();
        if (group == 0 && entry < entries) {
            for (int g = 1; g < groups; g++) sum += scratch[threadIdx.x + g];
            if (entry < columns)
                gradient[entry] = T(sum);
            else if (risk)
                *risk = sum;
        }
        __syncthreads();
    }
}

}  // namespace bmrm
