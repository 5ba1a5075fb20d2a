// Launches that follow one another within a product.  The second may begin while the first still runs, on
// devices that can (compute capability 9.0 and later; CUDA C++ Programming Guide, "Programmatic Dependent
// Launch"): it is at hand, with what does not depend on the first loaded, when that ends.
#pragma once
#include "../blackbox.h"
#include "../status.h"

namespace bmrm {

// In the first kernel: the next one may come as soon as there is room for it.
__device__ __forceinline__ void let_next_start() {
#if __CUDA_ARCH__ >= 900
    cudaTriggerProgrammaticLaunchCompletion();
#endif
}

// In the second one: what the first has written is there from here on.
__device__ __forceinline__ void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
    cudaGridDependencySynchronize();
#endif
}

inline bool can_chain(const bb_device& device) { return device.major >= 9; }

// early: the kernel before lets this one start, which waits for it, on a device that can chain them.
inline void launch_next(const void* kernel, int64_t blocks, int threads, void** arguments,
                        int64_t shared_bytes, cudaStream_t stream, bool early) {
    cudaLaunchAttribute overlap = {};
    overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlap.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t launch = {};
    launch.gridDim = dim3(unsigned(blocks));
    launch.blockDim = dim3(unsigned(threads));
    launch.dynamicSmemBytes = size_t(shared_bytes);
    launch.stream = stream;
    launch.attrs = &overlap;
    launch.numAttrs = early ? 1 : 0;
    BB_CHECK(cudaLaunchKernelExC(&launch, kernel, arguments));
}

}  // namespace bmrm
