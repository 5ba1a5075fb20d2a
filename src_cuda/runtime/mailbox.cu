#include <algorithm>

#include "runtime/mailbox.h"
#include "runtime/status.h"

namespace bmrm {

Mailbox::~Mailbox() {
    if (memory_) cudaFreeHost(memory_);
}

void Mailbox::reserve(int64_t count, cudaStream_t stream) {
    if (memory_ && count <= capacity_) return;
    if (memory_) wait(stream);  // the old memory may still be in use
    const int64_t wanted = std::max<int64_t>(2 * count, 1024);
    void* fresh = nullptr;
    BB_CHECK(cudaHostAlloc(&fresh, size_t(kHead + wanted) * 8, cudaHostAllocPortable | cudaHostAllocMapped));
    if (memory_) cudaFreeHost(memory_);
    memory_ = fresh;
    capacity_ = wanted;
    *static_cast<volatile unsigned long long*>(memory_) = sent_;
}

Letter Mailbox::next() {
    return {static_cast<double*>(memory_) + kHead, static_cast<volatile unsigned long long*>(memory_),
            ++sent_};
}

const double* Mailbox::wait(cudaStream_t stream) {
    const auto* arrived = static_cast<volatile unsigned long long*>(memory_);
    for (int64_t spins = 1; *arrived != sent_; spins++) {
        if (spins % 4096) continue;
        const cudaError_t state = cudaStreamQuery(stream);
        if (state == cudaErrorNotReady) continue;
        BB_CHECK(state);
        if (*arrived != sent_) throw Failure(BB_CUDA, "a kernel ended without its answer");
    }
    __sync_synchronize();
    return static_cast<const double*>(memory_) + kHead;
}

}  // namespace bmrm
