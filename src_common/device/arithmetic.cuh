// Arithmetic of compiled functions that differs from that of C++: divisions round down, as those of Python
// and NumPy do, and counters and conversions end at the limits of whole numbers.
#pragma once
#include "device/operators.cuh"

#define INF (__longlong_as_double(0x7ff0000000000000LL))
#define NOT_A_NUMBER (__longlong_as_double(0x7ff8000000000000LL))

namespace bmrm {

// The next value of a counter; the last number there is if it would wrap, so that its loop ends.
__device__ __forceinline__ whole next_count(whole a, whole step) {
    const whole next = wrap_add(a, step);
    if (step > 0) return next < a ? GREATEST_WHOLE : next;
    return next > a ? LEAST_WHOLE : next;
}

template <class A>
__device__ __forceinline__ A absolute(A a) {
    if constexpr (A(0.5) == A(0))  // a whole number
        return a < 0 ? wrap_sub(0, a) : a;
    else
        return sizeof(A) == sizeof(float) ? fabsf(a) : fabs(a);
}

template <class A>
__device__ __forceinline__ bool is_nan(A a) {
    return a != a;
}

// Too large numbers become the greatest whole number; NaN becomes the least, an index of nothing.
// PTX saturates; of NaN it makes the least number.
#ifdef __CUDA_ARCH__
__device__ __forceinline__ whole to_whole(double a) {
    whole found;
    asm("cvt.rzi.s64.f64 %0, %1;" : "=l"(found) : "d"(a));
    return found;
}
__device__ __forceinline__ whole to_whole(float a) {
    whole found;
    asm("cvt.rzi.s64.f32 %0, %1;" : "=l"(found) : "f"(a));
    return found;
}
#else
__device__ __forceinline__ whole to_whole(double a) {
    if (!(a < 9223372036854775808.0)) return a != a ? LEAST_WHOLE : GREATEST_WHOLE;
    return a < -9223372036854775808.0 ? LEAST_WHOLE : whole(a);
}
#endif

// a / b, for a number b that does not change while a loop does: what depends on it alone leaves the loop.
// With the rounded reciprocal of b, a product and two fused operations round correctly if nothing under- or
// overflows (Brisebarre, Muller and Raina, IEEE Transactions on Computers 53, 2004). If something may, it is
// `unusual`, and what is returned has no meaning.
struct Divisor {
    float b, inverse, most;
    __device__ __forceinline__ explicit Divisor(float b) : b(b) {
        inverse = __frcp_rn(b);
        most = fabsf(b) > 0x1p-40f && fabsf(b) < 0x1p40f ? 0x1p70f : 0.0f;
    }
};
__device__ __forceinline__ float quotient(float a, const Divisor& by, bool& unusual) {
    const float near = a * by.inverse;
    unusual |= !(fabsf(a) > 0x1p-70f && fabsf(a) < by.most);
    return fmaf(fmaf(-near, by.b, a), by.inverse, near);
}
__device__ __forceinline__ float divided(float a, float b) {
    bool unusual = false;
    const float found = quotient(a, Divisor(b), unusual);
    return unusual ? a / b : found;
}

// The square root, in the steps of the library; of very small numbers, and of those that have none or are
// their own, it is `unusual`, and what is returned has no meaning.
__device__ __forceinline__ float root(float a, bool& unusual) {
    unusual |= __float_as_uint(a) - 0x0d000000u > 0x727fffffu;
#ifdef __CUDA_ARCH__
    float inverse;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(a));
    const float near = a * inverse;
    return fmaf(fmaf(-near, near, a), 0.5f * inverse, near);
#else
    return sqrtf(a);
#endif
}

__device__ __forceinline__ whole whole_mod(whole a, whole b) {
    if (b == -1) return 0;
    const whole rest = a % b;
    return rest != 0 && ((rest ^ b) < 0) ? rest + b : rest;
}
__device__ __forceinline__ whole whole_div(whole a, whole b) {
    if (b == -1) return wrap_sub(0, a);
    const whole quotient = a / b, rest = a - quotient * b;
    return rest != 0 && ((rest ^ b) < 0) ? quotient - 1 : quotient;
}
// Exact where the quotient is a whole number.
__device__ inline double real_mod(double a, double b) {
    const double rest = fmod(a, b);
    if (b == 0.0) return rest;
    if (rest == 0.0) return copysign(0.0, b);
    return (b < 0.0) != (rest < 0.0) ? rest + b : rest;
}
__device__ inline double real_div(double a, double b) {
    if (b == 0.0) return a / b;
    const double rest = fmod(a, b);
    double quotient = (a - rest) / b;
    if (rest != 0.0 && (b < 0.0) != (rest < 0.0)) quotient -= 1.0;
    if (quotient == 0.0) return copysign(0.0, a / b);
    const double low = floor(quotient);
    return quotient - low > 0.5 ? low + 1.0 : low;
}

}  // namespace bmrm
