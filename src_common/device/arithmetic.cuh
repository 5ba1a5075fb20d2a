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
__device__ __forceinline__ whole to_whole(double a) {
    if (!(a < 9223372036854775808.0)) return a != a ? LEAST_WHOLE : GREATEST_WHOLE;
    return a < -9223372036854775808.0 ? LEAST_WHOLE : whole(a);
}
// One instruction of 32 bits for most numbers.
__device__ __forceinline__ whole to_whole(float a) {
    return fabsf(a) < 2147483648.0f ? whole(int(a)) : to_whole(double(a));
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
