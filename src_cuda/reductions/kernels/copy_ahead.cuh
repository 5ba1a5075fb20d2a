// Copies from global to shared memory that run while a thread computes; only the thread that has begun a copy
// reads what it has written.  Before compute capability 8.0 they are plain loads and stores.
#pragma once

namespace bmrm {

template <int BYTES>
struct alignas(BYTES) CopyPiece {
    unsigned char bytes[BYTES];
};

// Begins a copy of 4, 8 or 16 bytes; writes zeros if there is nothing to read.
template <int BYTES>
__device__ __forceinline__ void copy_ahead(void* to, const void* from, bool there) {
#if __CUDA_ARCH__ >= 800
    asm volatile(
        "cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(unsigned(__cvta_generic_to_shared(to))),
        "l"(from), "n"(BYTES), "r"(there ? BYTES : 0)
        : "memory");
#else
    *static_cast<CopyPiece<BYTES>*>(to) =
        there ? *static_cast<const CopyPiece<BYTES>*>(from) : CopyPiece<BYTES>();
#endif
}

// Ends a batch of copies, which may be empty.
__device__ __forceinline__ void end_batch() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits until at most LEFT of this thread's batches are on their way.
template <int LEFT>
__device__ __forceinline__ void wait_for_batches() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
#endif
}

}  // namespace bmrm
