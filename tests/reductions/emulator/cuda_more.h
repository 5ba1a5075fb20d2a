// What the kernels of estimators need of the CUDA runtime besides tests/graph/emulator/cuda_runtime.h.
#pragma once
#include <cmath>

#include "cuda_runtime.h"

#define __align__(bytes) alignas(bytes)

struct float4 {
    float x, y, z, w;
};
struct uint4 {
    uint32_t x, y, z, w;
};
struct alignas(16) double2 {
    double x, y;
};
inline double2 make_double2(double x, double y) { return {x, y}; }

enum {
    cudaMemoryTypeUnregistered = 0,
    cudaMemoryTypeDevice = 2,
    cudaFuncAttributeMaxDynamicSharedMemorySize = 8
};
struct cudaPointerAttributes {
    int type, device;
};
inline cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* out, const void*) {
    *out = {cudaMemoryTypeUnregistered, 0};
    return 0;
}
constexpr size_t kFreeBytes = size_t(1) << 32;
inline cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total) {
    *free_bytes = *total = kFreeBytes;
    return 0;
}
inline cudaError_t cudaFuncSetAttribute(const void*, int, int) { return 0; }

namespace emulator {

// Returns the values of all lanes of the warp.
template <class T>
std::vector<T> values_of_warp(T mine) {
    shuffle(mine, current % 32);  // all lanes are here
    const int g = threads[size_t(current)].generation;
    std::vector<T> out(32);
    for (int lane = 0; lane < 32; lane++)
        memcpy(&out[size_t(lane)], threads[size_t(current / 32 * 32 + lane)].shuffled[g], sizeof(T));
    return out;
}

}  // namespace emulator

inline void __syncwarp() { emulator::shuffle(0, 0); }
inline bool __any_sync(unsigned, bool test) {
    for (int other : emulator::values_of_warp(int(test)))
        if (other) return true;
    return false;
}
inline unsigned __ballot_sync(unsigned, bool test) {
    unsigned out = 0;
    const std::vector<int> all = emulator::values_of_warp(int(test));
    for (unsigned lane = 0; lane < 32; lane++)
        if (all[lane]) out |= 1u << lane;
    return out;
}
inline unsigned __match_any_sync(unsigned, int value) {
    unsigned out = 0;
    const std::vector<int> all = emulator::values_of_warp(value);
    for (unsigned lane = 0; lane < 32; lane++)
        if (all[lane] == value) out |= 1u << lane;
    return out;
}
inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
inline int __ffs(int bits) { return __builtin_ffs(bits); }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dmul_rn(double a, double b) { return a * b; }
template <class To, class From>
To bits_as(From from) {
    static_assert(sizeof(To) == sizeof(From), "");
    To out;
    memcpy(&out, &from, sizeof out);
    return out;
}
inline float __int_as_float(int bits) { return bits_as<float>(bits); }
inline float __uint_as_float(unsigned bits) { return bits_as<float>(bits); }
inline unsigned __float_as_uint(float value) { return bits_as<unsigned>(value); }
inline double __longlong_as_double(long long bits) { return bits_as<double>(bits); }
template <class T>
T atomicMax(T* at, T value) {
    const T before = *at;
    *at = std::max(before, value);
    return before;
}
template <class T>
T atomicMin(T* at, T value) {
    const T before = *at;
    *at = std::min(before, value);
    return before;
}
inline unsigned long long atomicAdd(unsigned long long* at, unsigned long long more) {
    const unsigned long long before = *at;
    *at += more;
    return before;
}
template <class T>
T __ldcg(const T* at) {
    return *at;
}
inline void __threadfence() {}
