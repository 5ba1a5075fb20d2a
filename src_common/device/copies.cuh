// Copies to shared memory that need no register and go on while a thread does other things (PTX ISA,
// "cp.async"); devices before compute capability 8.0 copy at once.
#pragma once

namespace bmrm {

// Starts to copy 4, 8 or 16 bytes.  Only the thread that copies them may read them, after wait_for_copies.
template <class T>
__device__ __forceinline__ void copy_ahead(T* to, const T* from) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    const auto shared = unsigned(__cvta_generic_to_shared(to));
    if constexpr (sizeof(T) == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared), "l"(from) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(shared), "l"(from), "n"(sizeof(T))
                     : "memory");
#else
    *to = *from;
#endif
}

// Makes a group of the copies since the last one.
__device__ __forceinline__ void close_copies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits until at most AHEAD groups of copies are on their way.
template <int AHEAD>
__device__ __forceinline__ void wait_for_copies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(AHEAD) : "memory");
#endif
}

}  // namespace bmrm
