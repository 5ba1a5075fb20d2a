// How kernels load: values of every coding and indices of every width, four at a time or one by one.
//
// A matrix is read once per product and never written, so its loads bypass L1, which holds inputs.  Loaded
// data stays packed in registers until it is used, so that many loads can be in flight.
#pragma once
#include <stdint.h>

#include <type_traits>

#include "api/blackbox.h"

namespace bmrm {

// How often a kernel reads an element: once (bypassing L1), or again soon (L1 keeps it).
enum Use { ONCE, AGAIN };

template <Use USE, class V>
__device__ __forceinline__ V load(const V* p) {
    if (USE == AGAIN) return __ldg(p);
#ifdef __CUDA_ARCH__
    V v;
    if constexpr (sizeof(V) == 16)
        asm("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
            : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
            : "l"(p));
    else if constexpr (std::is_same_v<V, double>)
        asm("ld.global.nc.L1::no_allocate.f64 %0, [%1];" : "=d"(v) : "l"(p));
    else if constexpr (sizeof(V) == 8)
        asm("ld.global.nc.L1::no_allocate.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(p));
    else if constexpr (std::is_same_v<V, float>)
        asm("ld.global.nc.L1::no_allocate.f32 %0, [%1];" : "=f"(v) : "l"(p));
    else if constexpr (sizeof(V) == 4)
        asm("ld.global.nc.L1::no_allocate.u32 %0, [%1];" : "=r"(v) : "l"(p));
    else if constexpr (sizeof(V) == 2)
        asm("ld.global.nc.L1::no_allocate.u16 %0, [%1];" : "=h"(v) : "l"(p));
    else {
        uint32_t wide;
        asm("ld.global.nc.L1::no_allocate.u8 %0, [%1];" : "=r"(wide) : "l"(p));
        v = V(wide);
    }
    return v;
#else
    return *p;
#endif
}

// Four indices.
template <class Index>
struct Quad;

template <>
struct Quad<uint8_t> {
    using Raw = uint32_t;
    Raw raw;
    __device__ __forceinline__ uint32_t operator[](int j) const { return raw >> 8 * j & 255; }
};
template <>
struct Quad<uint16_t> {
    using Raw = uint2;
    Raw raw;
    __device__ __forceinline__ uint32_t operator[](int j) const {
        return (j < 2 ? raw.x : raw.y) >> 16 * (j & 1) & 0xFFFF;
    }
};
template <>
struct Quad<uint32_t> {
    using Raw = uint4;
    Raw raw;
    __device__ __forceinline__ uint32_t operator[](int j) const {
        return j == 0 ? raw.x : j == 1 ? raw.y : j == 2 ? raw.z : raw.w;
    }
};

// What is stored for a value, one and four at a time, and how to decode it; `table` is the dictionary.
template <class T, int CODING>
struct Coded;

template <>
struct Coded<float, BB_PLAIN> {
    using Stored = float;
    using Four = uint4;
    static __device__ __forceinline__ float value(Stored v, const float*) { return v; }
    static __device__ __forceinline__ float value(const Four& v, int j, const float*) {
        return __uint_as_float(j == 0 ? v.x : j == 1 ? v.y : j == 2 ? v.z : v.w);
    }
};

struct alignas(16) TwoPairs {
    uint4 low, high;
};

template <>
struct Coded<double, BB_PLAIN> {
    using Stored = double;
    using Four = TwoPairs;
    static __device__ __forceinline__ double value(Stored v, const double*) { return v; }
    static __device__ __forceinline__ double value(const Four& v, int j, const double*) {
        const uint4& pair = j < 2 ? v.low : v.high;
        return j & 1 ? __hiloint2double(int(pair.w), int(pair.z))
                     : __hiloint2double(int(pair.y), int(pair.x));
    }
};

struct Nothing {};

template <class T>
struct Coded<T, BB_ONES> {
    using Stored = Nothing;
    using Four = Nothing;
    static __device__ __forceinline__ T value(Stored, const T*) { return T(1); }
    static __device__ __forceinline__ T value(Four, int, const T*) { return T(1); }
};

template <class T>
struct Coded<T, BB_DICTIONARY> {
    using Stored = uint8_t;
    using Four = uint32_t;
    static __device__ __forceinline__ T value(Stored v, const T* table) { return table[v]; }
    static __device__ __forceinline__ T value(Four v, int j, const T* table) {
        return table[v >> 8 * j & 255];
    }
};

// The elements of an item, or of a row: indices and values from one place on.
template <class T, int CODING, class Index, Use USE>
struct Elements {
    using Code = Coded<T, CODING>;
    using IndexType = Index;
    const Index* index;
    const typename Code::Stored* stored;
    const T* table;

    __device__ Elements(const Index* index, const void* values, uint64_t first_index, uint64_t first_value,
                        const T* table)
        : index(index + first_index),
          stored(static_cast<const typename Code::Stored*>(values) + (CODING == BB_ONES ? 0 : first_value)),
          table(table) {}
    // The elements after the first `more`.  A pointer, so that later accesses have constant offsets from it.
    __device__ __forceinline__ Elements after(uint32_t more) const {
        Elements out = *this;
        out.index += more;
        if (CODING != BB_ONES) out.stored += more;
        return out;
    }
    __device__ __forceinline__ Quad<Index> four_indices(int i) const {
        return {load<USE>(reinterpret_cast<const typename Quad<Index>::Raw*>(index + i))};
    }
    __device__ __forceinline__ typename Code::Four four_values(int i) const {
        if constexpr (CODING == BB_ONES) {
            return {};
        } else if constexpr (sizeof(typename Code::Four) == 32) {
            const uint4* p = reinterpret_cast<const uint4*>(stored + i);
            return {load<USE>(p), load<USE>(p + 1)};
        } else {
            return load<USE>(reinterpret_cast<const typename Code::Four*>(stored + i));
        }
    }
    __device__ __forceinline__ Index one_index(int i) const { return load<USE>(index + i); }
    __device__ __forceinline__ typename Code::Stored one_value(int i) const {
        if constexpr (CODING == BB_ONES)
            return {};
        else
            return load<USE>(stored + i);
    }
    __device__ __forceinline__ T at(uint64_t i) const {
        if constexpr (CODING == BB_ONES)
            return T(1);
        else
            return value(load<USE>(stored + i));
    }
    __device__ __forceinline__ T value(const typename Code::Stored& v) const { return Code::value(v, table); }
    __device__ __forceinline__ T value(const typename Code::Four& v, int j) const {
        return Code::value(v, j, table);
    }
};

}  // namespace bmrm
