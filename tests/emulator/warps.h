// What CUDA's text calls of a warp, a block and the memory that its threads share.
#pragma once
#include <math.h>

#include "threads.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
#define __grid_constant__
#define __shared__ static

struct float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(16) double2 {
    double x, y;
};
struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline double2 make_double2(double x, double y) { return {x, y}; }

template <class A>
A __shfl_sync(unsigned mask, A mine, int from) {
    return emulator::shown<A>(emulator::meet(emulator::EXCHANGE, mask, mine), from);
}
template <class A>
A __shfl_xor_sync(unsigned mask, A mine, int apart) {
    return __shfl_sync(mask, mine, emulator::lane ^ apart);
}
template <class A>
A __shfl_down_sync(unsigned mask, A mine, int apart) {
    return __shfl_sync(mask, mine, emulator::lane + apart < 32 ? emulator::lane + apart : emulator::lane);
}
namespace emulator {

// Returns the lanes of the mask that show what `equals` accepts.
template <class A, class Equals>
unsigned lanes_that(Kind kind, unsigned mask, A mine, const Equals& equals) {
    const void* const* seen = meet(kind, mask, mine);
    unsigned out = 0;
    for (int b = 0; b < kLanes; b++)
        if (in(mask, b) && equals(shown<A>(seen, b))) out |= 1u << b;
    return out;
}

template <class To, class From>
To bits_as(From from) {
    static_assert(sizeof(To) == sizeof(From), "");
    To out;
    memcpy(&out, &from, sizeof out);
    return out;
}

}  // namespace emulator

inline unsigned __ballot_sync(unsigned mask, bool test) {
    return emulator::lanes_that(emulator::BALLOT, mask, test, [](bool other) { return other; });
}
inline bool __any_sync(unsigned mask, bool test) {
    return emulator::lanes_that(emulator::ANY, mask, test, [](bool other) { return other; });
}
template <class A>
unsigned __match_any_sync(unsigned mask, A value) {
    return emulator::lanes_that(emulator::MATCH, mask, value, [=](A other) { return other == value; });
}
inline void __syncwarp() { emulator::meet(emulator::MEET, ~0u, 0); }
inline void __syncthreads() { emulator::leave(emulator::AT_BLOCK); }
inline int __syncthreads_or(int test) {
    static bool any;  // blocks run one by one
    __syncthreads();
    any = false;
    __syncthreads();
    if (test) any = true;
    __syncthreads();
    return any;
}
inline void __threadfence() {}
inline void __threadfence_system() {}

template <class A>
A __ldg(const A* at) {
    return *at;
}
template <class A>
A __ldcg(const A* at) {
    return *at;
}
template <class A>
A __ldcs(const A* at) {
    return *at;
}

// Replaces a number by what `change` makes of it, and returns the one before.
template <class A, class Change>
A emulated_atomic(A* at, const Change& change) {
    const A before = *at;
    *at = change(before);
    return before;
}
template <class A, class B>
A atomicAdd(A* at, B more) {
    return emulated_atomic(at, [=](A now) { return A(now + more); });
}
template <class A, class B>
A atomicMax(A* at, B value) {
    return emulated_atomic(at, [=](A now) { return now < A(value) ? A(value) : now; });
}
template <class A, class B>
A atomicMin(A* at, B value) {
    return emulated_atomic(at, [=](A now) { return A(value) < now ? A(value) : now; });
}

inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
inline int __popcll(unsigned long long bits) { return __builtin_popcountll(bits); }
inline int __clz(int bits) { return bits ? __builtin_clz(unsigned(bits)) : 32; }
inline int __clzll(long long bits) { return bits ? __builtin_clzll((unsigned long long)bits) : 64; }
inline int __ffs(int bits) { return __builtin_ffs(bits); }
inline float __frcp_rn(float a) { return 1.0f / a; }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dsub_rn(double a, double b) { return a - b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline float __int_as_float(int bits) { return emulator::bits_as<float>(bits); }
inline float __uint_as_float(unsigned bits) { return emulator::bits_as<float>(bits); }
inline unsigned __float_as_uint(float number) { return emulator::bits_as<unsigned>(number); }
inline float __double2float_ru(double number) {
    const float near = float(number);
    return double(near) < number ? nextafterf(near, HUGE_VALF) : near;
}
inline double __longlong_as_double(long long bits) { return emulator::bits_as<double>(bits); }
inline long long __double_as_longlong(double number) { return emulator::bits_as<long long>(number); }
inline int __double2hiint(double number) { return int(__double_as_longlong(number) >> 32); }
inline int __double2loint(double number) { return int(__double_as_longlong(number)); }
inline double __hiloint2double(int high, int low) {
    return __longlong_as_double((long long)((unsigned long long)(unsigned)high << 32 | (unsigned)low));
}
