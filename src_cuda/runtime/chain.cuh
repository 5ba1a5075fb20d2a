// Launches that follow one another.  On devices of compute capability 9.0 and later (CUDA C++ Programming
// Guide, "Programmatic Dependent Launch") a launch may begin before the one before it has ended.  It is then
// resident, with everything loaded that does not depend on the earlier launch, when that one ends.
//
// Before it waits, a product therefore reads only its matrix, which is constant.  Everything that an earlier
// launch may write, or still read, comes after the wait: inputs, outputs, sums between two launches.  Every
// launch that may begin early waits, so that the end of a launch implies the end of everything queued before
// it.
//
// Inputs are read by `load_input`, or by a pointer from `after_wait`.  The compiler may move a load above the
// wait, and sometimes does, if the load declares that nothing writes there while the kernel runs (__ldg, or
// any load by a const __restrict__ pointer).
#pragma once
#include "api/blackbox.h"
#include "runtime/status.h"

namespace bmrm {

// Allows the next launch to begin as soon as there is room for it.
__device__ __forceinline__ void let_next_start() {
#if __CUDA_ARCH__ >= 900
    cudaTriggerProgrammaticLaunchCompletion();
#endif
}

// Waits until everything that earlier launches have written is visible.
__device__ __forceinline__ void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
    cudaGridDependencySynchronize();
#endif
}

// Reads, after the wait, what an earlier launch may have written.  Volatile, as the wait is, so that the two
// stay in order.
__device__ __forceinline__ float load_input(const float* p) {
#ifdef __CUDA_ARCH__
    float v;
    asm volatile("ld.global.f32 %0, [%1];" : "=f"(v) : "l"(p));
    return v;
#else
    return *p;
#endif
}
__device__ __forceinline__ double load_input(const double* p) {
#ifdef __CUDA_ARCH__
    double v;
    asm volatile("ld.global.f64 %0, [%1];" : "=d"(v) : "l"(p));
    return v;
#else
    return *p;
#endif
}

// A pointer that the compiler cannot look through: loads by it stay below the wait too.
template <class T>
__device__ __forceinline__ T* after_wait(T* p) {
    asm volatile("" : "+l"(p) : : "memory");
    return p;
}

inline bool can_chain(const bb_device& device) { return device.major >= 9; }

// A launch, and whether it may begin early: before the launch before it ends, or allows it to begin.
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
