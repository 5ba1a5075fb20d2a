// Shared memory whose size the launch sets.
#pragma once
#include "runtime/status.h"

namespace bmrm {

template <class T>
__device__ __forceinline__ T* dynamic_shared() {
    extern __shared__ __align__(16) unsigned char shared_bytes[];
    return reinterpret_cast<T*>(shared_bytes);
}

// Allows launches of a kernel with that much of it.
template <class Kernel>
void allow_shared(Kernel* kernel, int64_t bytes) {
    BB_CHECK(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                  cudaFuncAttributeMaxDynamicSharedMemorySize, int(bytes)));
}

}  // namespace bmrm
