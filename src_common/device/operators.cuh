// Operators that combine results, for nvcc, NVRTC and the emulator of the tests.  No header of this folder
// includes one of the host.
#pragma once

namespace bmrm {

typedef long long whole;
typedef unsigned long long bits64;
constexpr whole GREATEST_WHOLE = 9223372036854775807LL, LEAST_WHOLE = -GREATEST_WHOLE - 1;

// Whole numbers wrap at 64 bits: signed overflow has no meaning in C++.
__device__ __forceinline__ whole wrap_add(whole a, whole b) { return whole(bits64(a) + bits64(b)); }
__device__ __forceinline__ whole wrap_sub(whole a, whole b) { return whole(bits64(a) - bits64(b)); }
__device__ __forceinline__ whole wrap_mul(whole a, whole b) { return whole(bits64(a) * bits64(b)); }

template <class A>
__device__ __forceinline__ A least(A a, A b) {
    return b < a ? b : a;
}
template <class A>
__device__ __forceinline__ A greatest(A a, A b) {
    return b > a ? b : a;
}

struct Sum {
    template <class A>
    static __device__ __forceinline__ A of(A a, A b) {
        return a + b;
    }
    static __device__ __forceinline__ whole of(whole a, whole b) { return wrap_add(a, b); }
};
// Keeps the least value, or the greatest.
template <bool LEAST>
struct Extremum {
    template <class A>
    static __device__ __forceinline__ A of(A a, A b) {
        return LEAST ? least(a, b) : greatest(a, b);
    }
    template <class A>
    static __device__ __forceinline__ bool is_better(A a, A b) {
        return LEAST ? a < b : a > b;
    }
};
using Least = Extremum<true>;
using Greatest = Extremum<false>;
struct Or {
    static __device__ __forceinline__ whole of(whole a, whole b) { return a | b; }
};
struct And {
    static __device__ __forceinline__ whole of(whole a, whole b) { return a & b; }
};

// Whether (a, i) comes before (b, j): of equal values the one with the least number does.
template <class Op, class A, class N>
__device__ __forceinline__ bool comes_first(A a, N i, A b, N j) {
    return Op::is_better(a, b) || (a == b && i < j);
}

}  // namespace bmrm
