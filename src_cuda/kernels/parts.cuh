// Sums that blocks left side by side in global memory, added up by a launch of its own: where they are many,
// that is faster than the last block alone (finish.cuh).
#pragma once
#include <stdint.h>

#include "../device_memory.h"

namespace bmrm {

constexpr int kPartThreads = 256;

// A launch that is allowed to (see `add_up`) starts while the kernel before it still runs, and waits for it
// here; that kernel says with let_next_start() when it may come.
__device__ __forceinline__ void let_next_start() {
#if __CUDA_ARCH__ >= 900
    cudaTriggerProgrammaticLaunchCompletion();
#endif
}

__device__ __forceinline__ void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
    cudaGridDependencySynchronize();
#endif
}

// Adds `parts` rows of sums, `stride` apart, in fixed order: `groups` threads a column, each with its share.
template <class S, class T>
__global__ void __launch_bounds__(kPartThreads)
    add_parts(const S* __restrict__ sums, int64_t parts, int64_t stride, int64_t count, int groups,
              T* __restrict__ y, double* __restrict__ risk) {
    __shared__ double of_thread[kPartThreads];
    const int across = kPartThreads / groups, tx = int(threadIdx.x) % across, ty = int(threadIdx.x) / across;
    const int64_t col = int64_t(blockIdx.x) * across + tx;
    wait_for_previous();
    double sum = 0;
    if (col < stride) {
#pragma unroll 8
        for (int64_t p = ty; p < parts; p += groups) sum += double(sums[p * stride + col]);
    }
    of_thread[threadIdx.x] = sum;
    __syncthreads();
    if (ty == 0 && col < stride) {
        for (int k = 1; k < groups; k++) sum += of_thread[k * across + tx];
        if (col < count)
            y[col] = T(sum);
        else if (risk)
            *risk = sum;
    }
}

// early: the kernel before calls let_next_start(), on a device that knows what that is.
template <class S, class T>
void add_up(const S* sums, int64_t parts, int64_t stride, int64_t count, T* y, double* risk,
            cudaStream_t stream, bool early = false) {
    int groups = 1;
    while (groups < 64 && 4 * groups < parts) groups *= 2;
    cudaLaunchAttribute overlap = {};
    overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlap.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t launch = {};
    launch.gridDim = dim3(blocks_for(stride, kPartThreads / groups));
    launch.blockDim = dim3(kPartThreads);
    launch.stream = stream;
    launch.attrs = &overlap;
    launch.numAttrs = early ? 1 : 0;
    BB_CHECK(cudaLaunchKernelEx(&launch, &add_parts<S, T>, sums, parts, stride, count, groups, y, risk));
}

}  // namespace bmrm
