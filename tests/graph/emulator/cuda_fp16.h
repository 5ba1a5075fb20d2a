// float16 on the CPU.
#pragma once

typedef _Float16 __half;

inline __half __float2half_rn(float value) { return __half(value); }
