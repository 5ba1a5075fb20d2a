// Numbers from a kernel to the host without a driver call: the kernel writes them into mapped host memory,
// then writes a sequence number for which the host waits.  This takes about two microseconds; a copy and a
// synchronisation take ten.
#pragma once
#include <cuda_runtime.h>
#include <stdint.h>

namespace bmrm {

// What a kernel needs to send a letter: where to write, and what to write last.
struct Letter {
    double* values;
    volatile unsigned long long* arrived;  // null if a later kernel closes the letter
    unsigned long long number;
};

class Mailbox {
  public:
    Mailbox() = default;
    ~Mailbox();
    Mailbox(const Mailbox&) = delete;
    Mailbox& operator=(const Mailbox&) = delete;

    // Makes room for `count` numbers in the next letter; may wait for the last one.
    void reserve(int64_t count, cudaStream_t stream);
    Letter next();
    // Sequence number of the last letter.
    unsigned long long sent() const { return sent_; }
    // Waits for the last letter and returns its numbers.  Throws if the stream has failed.
    const double* wait(cudaStream_t stream);

  private:
    // Doubles before the numbers, so that the flag has a cache line of its own.
    static constexpr int64_t kHead = 16;
    void* memory_ = nullptr;
    int64_t capacity_ = 0;
    unsigned long long sent_ = 0;
};

#ifdef __CUDACC__
// Marks the letter as complete, for the host; called by one thread, after every writer's
// __threadfence_system() and a barrier.
__device__ __forceinline__ void close_letter(const Letter& letter) {
    if (letter.arrived) *letter.arrived = letter.number;
}

// The same for a letter that only this thread has written.
__device__ __forceinline__ void send(const Letter& letter) {
    __threadfence_system();
    close_letter(letter);
}
#endif

}  // namespace bmrm
