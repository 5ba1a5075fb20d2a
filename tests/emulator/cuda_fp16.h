// Numbers of float16, rounded to nearest, ties to even.
#pragma once
#include <math.h>
#include <stdint.h>
#include <string.h>

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
    const uint32_t size = uint32_t(value.bits & 0x7FFF) << 13, sign = uint32_t(value.bits & 0x8000) << 16;
    float out;  // with the bias of a float16's exponent, which 2^112 makes that of a float
    memcpy(&out, &size, sizeof out);
    out *= 0x1p112f;
    if (out >= 65536.0f) out = value.bits & 0x3FF ? NAN : INFINITY;
    return sign ? -out : out;
}
