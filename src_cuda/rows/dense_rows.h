// Dense rows on a device: in place if they are there already, else uploaded.
#pragma once
#include <memory>

#include "api/blackbox.h"
#include "runtime/upload.h"

namespace bmrm {

class DenseRows {
  public:
    // values: (n, d) of the type, by rows, on the host or on the device.
    DenseRows(Memory& memory, bb_type type, int64_t n, int64_t d, const void* values, int threads)
        : type(type), n(n), d(d), threads_(threads) {
        cudaPointerAttributes where = {};
        if (cudaPointerGetAttributes(&where, values) != cudaSuccess) cudaGetLastError();
        if (where.type == cudaMemoryTypeDevice && where.device == memory.device) {
            values_ = values;
            return;
        }
        own_ = Array<unsigned char>(memory, bytes());
        Uploader uploader(threads);
        uploader.copy(memory, own_.data(), values, bytes());
        BB_CHECK(cudaStreamSynchronize(memory.stream));  // its pinned pieces have been read
        values_ = own_.data();
    }

    bool is_own() const { return bool(own_); }
    // Replaces rows that were uploaded by others on the host, no more than there were at first, and waits.
    void load(Memory& memory, int64_t count, const void* values) {
        if (!uploader_) uploader_ = std::make_unique<Uploader>(threads_);
        n = count;
        uploader_->copy(memory, own_.data(), values, bytes());
        BB_CHECK(cudaStreamSynchronize(memory.stream));
    }

    int64_t bytes() const { return n * d * (type == BB_FLOAT32 ? 4 : 8); }

    // Calls use(pointer to the values, of their type).
    template <class Use>
    void with(Use&& use) const {
        if (type == BB_FLOAT32)
            use(static_cast<const float*>(values_));
        else
            use(static_cast<const double*>(values_));
    }

    const bb_type type;
    int64_t n;
    const int64_t d;

  private:
    Array<unsigned char> own_;
    const void* values_ = nullptr;
    const int threads_;
    std::unique_ptr<Uploader> uploader_;  // of `load`, whose pinned pieces are kept
};

}  // namespace bmrm
