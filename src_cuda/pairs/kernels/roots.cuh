// Roots of squared distances.  A pass over pairs is as long as its instructions in float64, so these are few,
// and comparisons are of the upper halves of numbers, as integers.
#pragma once
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "coincident_points.h"
#include "pairs/kernels/inverse_root.cuh"

namespace bmrm {

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

// The same of float32, whose halves are whole numbers.
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
