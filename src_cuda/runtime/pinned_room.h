// Where passes put what goes to a device and what comes back.
#pragma once
#include <stdint.h>

#include "runtime/status.h"

namespace bmrm {

// Page-locked memory of the host, which copies reach without a detour.
class PinnedRoom {
  public:
    PinnedRoom() = default;
    ~PinnedRoom() {
        if (data_) cudaFreeHost(data_);
    }
    PinnedRoom(const PinnedRoom&) = delete;
    PinnedRoom& operator=(const PinnedRoom&) = delete;

    int64_t capacity() const { return capacity_; }
    // Returns room for `count` doubles; what was there is lost.
    double* reserve(int64_t count) {
        if (count <= capacity_) return static_cast<double*>(data_);
        if (data_) cudaFreeHost(data_);
        data_ = nullptr;
        capacity_ = 0;
        BB_CHECK(cudaHostAlloc(&data_, size_t(count) * sizeof(double), cudaHostAllocPortable));
        capacity_ = count;
        return static_cast<double*>(data_);
    }

  private:
    void* data_ = nullptr;
    int64_t capacity_ = 0;
};

}  // namespace bmrm
