// Dense rows on a device: in place if they are there already, else uploaded.
#pragma once
#include "api/blackbox.h"
#include "runtime/upload.h"

namespace bmrm {

class DenseRows {
  public:
    // values: (n, d) of the type, by rows, on the host or on the device.
    DenseRows(Memory& memory, bb_type type, int64_t n, int64_t d, const void* values, int threads)
        : type(type), n(n), d(d) {
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

    int64_t bytes() const { return n * d * (type == BB_FLOAT32 ? 4 : 8); }

    // Calls use(pointer to the values, of their type).
    template <class Use>
    void with(Use&& use) const {
        if (type == BB_FLOAT32)
            use(static_cast<const float*>(values_));
        else
            use(static_cast<const double*>(values_));
    }

    const float* as_float() const { return static_cast<const float*>(values_); }

    const bb_type type;
    const int64_t n, d;

  private:
    Array<unsigned char> own_;
    const void* values_ = nullptr;
};

}  // namespace bmrm
