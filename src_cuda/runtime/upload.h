// Uploads arrays of the host at the speed of the bus.
//
// The driver copies pageable memory through a buffer of its own, on one thread, which reaches a fraction of
// the bus's bandwidth.  Here a few threads fill pinned pieces, each of which is copied while its thread fills
// another. A mapped file thus goes from the page cache to the device, and only a small, known part of host
// memory is pinned.
#pragma once
#include <cuda_runtime.h>

#include <thread>
#include <vector>

#include "runtime/device_memory.h"

namespace bmrm {

class Uploader {
  public:
    explicit Uploader(int threads);
    ~Uploader();
    Uploader(const Uploader&) = delete;
    Uploader& operator=(const Uploader&) = delete;

    // Copies from the host or the device, queued on the stream; the source may be freed when the call
    // returns.
    void copy(Memory& memory, void* to, const void* from, int64_t bytes);
    // Frees the pinned pieces once they are sent.
    void release() noexcept;

  private:
    struct Piece {
        unsigned char* memory = nullptr;
        cudaEvent_t sent = nullptr;
    };
    bool reserve();
    void copy_share(Memory& memory, int worker, unsigned char* to, const unsigned char* from, int64_t bytes);

    const int workers_;
    std::vector<Piece> pieces_;  // two per worker
    bool refused_ = false;  // no pinned memory could be allocated; the driver's own copy works without it
};

}  // namespace bmrm
