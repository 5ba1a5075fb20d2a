// What the package asks CUDA's driver about arrays of other libraries.
#include <cuda_runtime.h>

#pragma GCC visibility push(default)
extern "C" {

int cuInit(unsigned) {
    int count = 0;
    return cudaGetDeviceCount(&count);
}
int cuPointerGetAttribute(int* out, int which, uint64_t address) {
    constexpr int kMemoryType = 2, kDevice = 9;
    cudaPointerAttributes found;
    cudaPointerGetAttributes(&found, reinterpret_cast<const void*>(address));
    if (found.type == cudaMemoryTypeUnregistered || (which != kMemoryType && which != kDevice))
        return cudaErrorInvalidValue;
    *out = which == kDevice ? found.device : found.type;
    return cudaSuccess;
}
}
