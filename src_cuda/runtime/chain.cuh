// Launches that follow one another.  On devices that can (compute capability 9.0 and later; CUDA C++
// Programming Guide, "Programmatic Dependent Launch") one may begin before the one before it has ended: it is
// at hand, with what does not depend on that loaded, when that ends.
//
// So a product reads of its matrix alone, which is constant, before it waits.  Everything that an earlier
// launch may write, or still read, comes after: inputs, outputs, sums between two launches.  Every launch
// that may begin early waits, so that what ends has seen the end of all that was queued before it.
//
// Inputs are read by `load_input`.  A load that says that nothing writes there while the kernel runs (__ldg,
// or any by a pointer that is const and __restrict__) may be moved up before the wait, and some are.
#pragma once
#include "api/blackbox.h"
#include "runtime/status.h"

namespace bmrm {

// The next launch may come as soon as there is room for it.
__device__ __forceinline__ void let_next_start() {
#if __CUDA_ARCH__ >= 900
    cudaTriggerProgrammaticLaunchCompletion();
#endif
}

// What earlier launches have written is there from here on.
__device__ __forceinline__ void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
    cudaGridDependencySynchronize();
#endif
}

// What an earlier launch may have written; after the wait.  Volatile, as the wait is: these stay in order.
__device__ __forceinline__ float load_input(const float* p) {
    float v;
    asm volatile("ld.global.f32 %0, [%1];" : "=f"(v) : "l"(p));
    return v;
}
__device__ __forceinline__ double load_input(const double* p) {
    double v;
    asm volatile("ld.global.f64 %0, [%1];" : "=d"(v) : "l"(p));
    return v;
}

inline bool can_chain(const bb_device& device) { return device.major >= 9; }

// A launch and whether it may begin early: before what comes before it in the stream ends, or lets it.
class NextLaunch {
  public:
    NextLaunch(dim3 blocks, int threads, int64_t shared_bytes, cudaStream_t stream, bool early) {
        overlap_.id = cudaLaunchAttributeProgrammaticStreamSerialization;
        overlap_.val.programmaticStreamSerializationAllowed = 1;
        launch_.gridDim = blocks;
        launch_.blockDim = dim3(unsigned(threads));
        launch_.dynamicSmemBytes = size_t(shared_bytes);
        launch_.stream = stream;
        launch_.attrs = &overlap_;
        launch_.numAttrs = early ? 1 : 0;
    }
    NextLaunch(const NextLaunch&) = delete;
    NextLaunch& operator=(const NextLaunch&) = delete;

    template <class... Parameters, class... Arguments>
    void operator()(void (*kernel)(Parameters...), Arguments... arguments) const {
        BB_CHECK(cudaLaunchKernelEx(&launch_, kernel, Parameters(arguments)...));
    }
    void operator()(const void* kernel, void** arguments) const {
        BB_CHECK(cudaLaunchKernelExC(&launch_, kernel, arguments));
    }

  private:
    cudaLaunchAttribute overlap_ = {};
    cudaLaunchConfig_t launch_ = {};
};

}  // namespace bmrm
