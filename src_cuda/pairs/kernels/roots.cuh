// Roots of squared distances.  A pass over pairs is as long as its instructions in float64, so these are few,
// and comparisons are of the upper halves of numbers, as integers.
#pragma once
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "coincident_points.h"

namespace bmrm {

// 1 / sqrt(x) to about 2 units in the last place; x is a positive normal number.  The device has y with about
// 20 bits; with r = 1 - x y^2, (1 - r)^(-1/2) = 1 + r / 2 + 3 r^2 / 8 + O(2^-60).
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

// The upper half of a number that is at least 0: halves are ordered as the numbers are.
__host__ __device__ __forceinline__ int upper_half(double number) {
#ifdef __CUDA_ARCH__
    return __double2hiint(number);
#else
    int64_t bits;
    memcpy(&bits, &number, sizeof bits);
    return int(bits >> 32);
#endif
}

// The same number with an upper half that is at least that of kLeastSquare.
__device__ __forceinline__ double with_least_half(double number, int half) {
#ifdef __CUDA_ARCH__
    return __hiloint2double(max(half, upper_half(kLeastSquare)), __double2loint(number));
#else
    return half < upper_half(kLeastSquare) ? kLeastSquare : number;
#endif
}

__device__ __forceinline__ bool is_apart(double square) {
    return upper_half(square) >= upper_half(kLeastSquare);
}
__device__ __forceinline__ bool is_apart(float square) { return square >= float(kLeastFloatSquare); }

// The same of float32, whose halves are whole numbers; a root is wrong by at most 4 units of the last place.
__device__ __forceinline__ float inverse_root(float x) {
#ifdef __CUDA_ARCH__
    float y;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#else
    return 1.0f / sqrtf(x);
#endif
}

__host__ __device__ __forceinline__ int upper_half(float number) {
#ifdef __CUDA_ARCH__
    return __float_as_int(number);
#else
    int32_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
#endif
}

__device__ __forceinline__ float with_least_half(float number, int) {
    return fmaxf(number, float(kLeastFloatSquare));
}

// Squared distances below this count as 0.
template <class Real>
__host__ __device__ constexpr Real least_square() {
    return sizeof(Real) == 4 ? Real(kLeastFloatSquare) : Real(kLeastSquare);
}

// The distance of a squared one, to about 2 units in the last place.
__device__ __forceinline__ double distance_of(double square) {
    return is_apart(square) ? square * inverse_root(square) : 0.0;
}

}  // namespace bmrm
