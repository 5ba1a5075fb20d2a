// Arrays of the host onto the device at the speed of the bus.
//
// The driver copies pageable memory through a buffer of its own, on one thread: a fraction of what the bus
// carries.  Here a few threads fill pinned pieces, each of which is on its way while its thread fills
// another. So a file that is mapped goes from the page cache to the device, and a part of the host's memory
// that is small and known is pinned for it.
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

    // Copies from the host or the device, queued on the stream; the source may go when the call returns.
    void copy(Memory& memory, void* to, const void* from, int64_t bytes);
    // Gives the pinned pieces back.
    void release() noexcept;

  private:
    struct Piece {
        unsigned char* memory = nullptr;
        cudaEvent_t sent = nullptr;
    };
    bool reserve();
    void copy_share(Memory& memory, int worker, unsigned char* to, const unsigned char* from, int64_t bytes);

    const int workers_;
    std::vector<Piece> pieces_;  // two a worker
    bool refused_ = false;       // there is no pinned memory to be had; the driver's way works without
};

}  // namespace bmrm
