// Numbers of float16, rounded to nearest, ties to even.
#pragma once
#include <math.h>
#include <stdint.h>

struct __half {
    uint16_t bits;
};

inline __half __float2half(float value) {
    const uint16_t sign = signbit(value) ? 0x8000 : 0;
    const float size = fabsf(value);
    if (!(size < 65520.0f)) return {uint16_t(sign | (isnan(value) ? 0x7FFF : 0x7C00))};
    int exponent = 0;
    frexpf(size, &exponent);
    exponent = size > 0.0f && exponent > -13 ? exponent : -13;  // below, the spacing stays
    const int steps = int(lrintf(ldexpf(size, 11 - exponent)));
    return {uint16_t(sign + ((exponent + 13) << 10) + steps)};
}
inline float __half2float(__half value) {
    const int exponent = value.bits >> 10 & 31, fraction = value.bits & 0x3FF;
    const float sign = value.bits & 0x8000 ? -1.0f : 1.0f;
    if (exponent == 31) return fraction ? NAN : sign * INFINITY;
    return sign * (exponent ? ldexpf(float(fraction + 1024), exponent - 25) : ldexpf(float(fraction), -24));
}
