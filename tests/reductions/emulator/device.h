// What src_cuda/reductions needs of CUDA besides tests/graph/emulator, which has the threads of a block as
// fibers.  Dynamic shared memory is one array, all NaN when a launch begins.
#pragma once
#include "cuda_runtime.h"

#undef __shared__
#define __shared__
#define __align__(bytes)

namespace bmrm {
extern double shared[1 << 15];
}

struct double2 {
    double x, y;
};
inline double2 make_double2(double x, double y) { return {x, y}; }

struct cudaPointerAttributes {
    int type, device;
};
enum { cudaMemoryTypeDevice = 2, cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
inline cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* out, const void*) {
    *out = {0, 0};
    return 0;
}
template <class Kernel>
cudaError_t cudaFuncSetAttribute(Kernel, int, int) {
    return 0;
}
inline cudaError_t cudaDeviceSynchronize() { return 0; }
inline void atomicMax(unsigned long long* at, unsigned long long value) { *at = std::max(*at, value); }
inline void atomicMin(unsigned long long* at, unsigned long long value) { *at = std::min(*at, value); }
