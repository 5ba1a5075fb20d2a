// Instructions of the tensor cores (PTX ISA, "mma.sync", "ldmatrix"), for compute capability 8.0 and later.
#pragma once
#include <stdint.h>

namespace bmrm {

// Loads four 8x8 matrices of 2-byte numbers: lane l gives the address of row l % 8 of matrix l / 8, and gets
// two numbers of row l / 4 of each.
__device__ __forceinline__ void load_matrices(const void* shared, uint32_t (&out)[4]) {
#if __CUDA_ARCH__ >= 800
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(uint32_t(__cvta_generic_to_shared(shared))));
#endif
}

// sums (16 x 8, float32) += a (16 x 16) b (16 x 8), both of float16.
__device__ __forceinline__ void multiply_add(float (&sums)[4], const uint32_t (&a)[4], uint32_t b0,
                                             uint32_t b1) {
#if __CUDA_ARCH__ >= 800
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

}  // namespace bmrm
