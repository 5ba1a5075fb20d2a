// Products of small blocks in float64 by a warp, added to sums that stay in registers.
//
// From compute capability 8.0 on tensor cores multiply them, from 9.0 on in blocks of 16 x 8 x 8, which are
// faster there than several of 8 x 8 x 4 (PTX ISA, "Matrix fragments for mma.m8n8k4 with .f64 floating point
// type" and "mma.m16n8k8").  Older devices exchange the factors by shuffles.  Every product and sum is
// rounded to float64.
//
// A thread has the element (g, t) of a factor, g = lane / 4 and t = lane % 4, and of the sums the elements
// (g, 2 t) and (g, 2 t + 1).
#pragma once
#include "device/warp.cuh"

namespace bmrm {

__device__ __forceinline__ int fragment_row() { return int(threadIdx.x) % 32 / 4; }
__device__ __forceinline__ int fragment_step() { return int(threadIdx.x) % 4; }

// Returns the sum over the threads of equal g.
__device__ __forceinline__ double sum_steps(double mine) {
    mine += __shfl_xor_sync(kAllLanes, mine, 1);
    return mine + __shfl_xor_sync(kAllLanes, mine, 2);
}

// sums (8 x 8) += A B: `a` is A (8 x 4) at (g, t), `b` is B (4 x 8) at (t, g).
__device__ __forceinline__ void multiply_8x8x4(double (&sums)[2], double a, double b) {
#if __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
                 : "+d"(sums[0]), "+d"(sums[1])
                 : "d"(a), "d"(b));
#else
    const int lane = int(threadIdx.x) % 32, row = lane / 4 * 4, column = lane % 4 * 8;
    // These devices take longer for the products than for the loop; unrolled, they took minutes to compile.
#pragma unroll 1
    for (int k = 0; k < 4; k++) {
        const double left = __shfl_sync(kAllLanes, a, row + k);
        sums[0] += left * __shfl_sync(kAllLanes, b, column + k);
        sums[1] += left * __shfl_sync(kAllLanes, b, column + 4 + k);
    }
#endif
}

// The same for eight columns of A: those of a[0] and b[0], then those of a[1] and b[1].
__device__ __forceinline__ void multiply_8x8x8(double (&sums)[2], const double (&a)[2],
                                               const double (&b)[2]) {
    multiply_8x8x4(sums, a[0], b[0]);
    multiply_8x8x4(sums, a[1], b[1]);
}

// The same for two blocks of A's rows, `a` and `other`, of which `upper` and `lower` are the sums.
__device__ __forceinline__ void multiply_16x8x8(double (&upper)[2], double (&lower)[2], const double (&a)[2],
                                                const double (&other)[2], const double (&b)[2]) {
#if __CUDA_ARCH__ >= 900
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+d"(upper[0]), "+d"(upper[1]), "+d"(lower[0]), "+d"(lower[1])
        : "d"(a[0]), "d"(other[0]), "d"(a[1]), "d"(other[1]), "d"(b[0]), "d"(b[1]));
#else
    multiply_8x8x8(upper, a, b);
    multiply_8x8x8(lower, other, b);
#endif
}

}  // namespace bmrm
