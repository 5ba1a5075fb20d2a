// Numbers of bfloat16: the upper half of float32, rounded to nearest, ties to even.
#pragma once
#include <stdint.h>
#include <string.h>

struct __nv_bfloat16 {
    uint16_t bits;
};

inline __nv_bfloat16 __float2bfloat16(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return {0x7FFF};
    return {uint16_t((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16)};
}
inline float __bfloat162float(__nv_bfloat16 value) {
    const uint32_t bits = uint32_t(value.bits) << 16;
    float out;
    memcpy(&out, &bits, sizeof out);
    return out;
}
