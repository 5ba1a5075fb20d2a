// Two areas on the device, to which what a product reads is copied in turn, on a stream of its own, while the
// kernels of the product use the other.
//
// Events are recorded and waited for within one product, so that it can be captured in a graph: the copies
// then are a branch of it.  tests/matrix/test_staging.py leaves out each wait.
#pragma once
#include "runtime/device_memory.h"

namespace bmrm {

class Staging {
  public:
    static constexpr int kAreas = 2;

    Staging() = default;
    ~Staging();
    Staging(const Staging&) = delete;
    Staging& operator=(const Staging&) = delete;

    void reserve(Memory& memory, int64_t bytes);  // per area
    unsigned char* area(int number) const { return areas_[number].data(); }

    // Makes copies wait for what is queued on the stream so far.
    void begin(cudaStream_t work);
    void send(int area, const void* from, int64_t bytes);  // from pinned memory
    // Makes the stream wait for the copy (await), and the next copy wait for the stream (release).
    void await(int area, cudaStream_t work);
    void release(int area, cudaStream_t work);

  private:
    Array<unsigned char> areas_[kAreas];
    cudaStream_t copies_ = nullptr;
    cudaEvent_t begin_ = nullptr, arrived_[kAreas] = {}, free_[kAreas] = {};
};

}  // namespace bmrm
