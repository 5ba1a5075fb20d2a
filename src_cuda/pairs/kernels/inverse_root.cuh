// Reciprocal square roots of positive normal numbers by the instructions that approximate them.
#pragma once
#include <math.h>

namespace bmrm {

// To about 2 units in the last place.  The device has y with about 20 bits; with r = 1 - x y^2,
// (1 - r)^(-1/2) = 1 + r / 2 + 3 r^2 / 8 + O(2^-60).
__device__ __forceinline__ double inverse_root(double x) {
#ifdef __CUDA_ARCH__
    double y;
    asm("rsqrt.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(x));
    const double r = fma(-(x * y), y, 1.0);
    return fma(y * r, fma(r, 0.375, 0.5), y);
#else
    return 1.0 / sqrt(x);
#endif
}

// In float32: x inverse_root(x) is wrong by at most 4 units in the last place.
__device__ __forceinline__ float inverse_root(float x) {
#ifdef __CUDA_ARCH__
    float y;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#else
    return 1.0f / sqrtf(x);
#endif
}

}  // namespace bmrm
