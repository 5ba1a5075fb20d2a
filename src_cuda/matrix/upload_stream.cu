// An upload stream: a ring of pinned slots, and the arrays on the device that they are copied to.
#include <unistd.h>

#include <memory>
#include <vector>

#include "api/upload_stream.h"
#include "formats/csr.h"

using namespace bmrm;

namespace {

template <class T>
__global__ void fill_ones(T* values, int64_t count) {
    BB_FOR (i, count) values[i] = T(1);
}

__global__ void shift_indices(int32_t* indices, int64_t count, int32_t by) {
    BB_FOR (i, count) indices[i] += by;
}

// Slots of pinned memory, each with its values followed by its indices.
class Ring {
  public:
    Ring(int slots, int64_t values, int64_t indices)
        : values_(values), each_((values + indices + 7) / 8 * 8) {
        try {
            BB_CHECK(cudaMallocHost(reinterpret_cast<void**>(&memory_), size_t(slots * each_)));
            for (int slot = 0; slot < slots; slot++) {
                sent_.push_back(nullptr);
                BB_CHECK(cudaEventCreateWithFlags(&sent_.back(), cudaEventDisableTiming));
            }
        } catch (...) {
            release();
            throw;
        }
    }
    ~Ring() { release(); }
    Ring(const Ring&) = delete;
    Ring& operator=(const Ring&) = delete;

    cudaEvent_t sent(int slot) const { return sent_[size_t(slot)]; }
    void* values(int slot) const { return memory_ + slot * each_; }
    int32_t* indices(int slot) const { return reinterpret_cast<int32_t*>(memory_ + slot * each_ + values_); }

  private:
    void release() noexcept {
        for (cudaEvent_t event : sent_)
            if (event) cudaEventDestroy(event);
        if (memory_) cudaFreeHost(memory_);
    }

    const int64_t values_, each_;  // bytes
    unsigned char* memory_ = nullptr;
    std::vector<cudaEvent_t> sent_;
};

}  // namespace

struct bb_upload_stream {
    bb_upload_stream(int device, int64_t nonzeros, bb_type type, int slots, int64_t each)
        : memory(device),
          type(type),
          indices(memory, nonzeros),
          values(memory, nonzeros * bytes_of(type)),
          ring(std::make_unique<Ring>(slots, each * bytes_of(type), each * int64_t(sizeof(int32_t)))) {
        by_type(type, [&](auto t) {
            fill_ones<<<blocks_for(nonzeros), 256, 0, memory.stream>>>(
                reinterpret_cast<decltype(t)*>(values.data()), nonzeros);
        });
    }
    ~bb_upload_stream() { cudaStreamSynchronize(memory.stream); }

    const pid_t process = getpid();
    Memory memory;  // declared before what is freed into it
    const bb_type type;
    Array<int32_t> indices;
    Array<unsigned char> values;
    std::unique_ptr<Ring> ring;
};

namespace {

template <class Body>
bb_status on_stream(bb_upload_stream* upload, Body&& body) noexcept {
    return guarded([&] {
        const OnDevice scope(upload->memory.device);
        body();
    });
}

}  // namespace

extern "C" {

int64_t bb_upload_stream_bytes(int64_t rows, int64_t nonzeros, bb_type type) {
    const int64_t bytes = bytes_of(type);
    return nonzeros * (int64_t(sizeof(int32_t)) + bytes) +
           bb_prepare_bytes(rows, 1, nonzeros, int32_t(bytes), 1);
}

bb_status bb_upload_stream_open(int32_t device, int64_t nonzeros, bb_type type, int32_t slots, int64_t each,
                                bb_upload_stream** out) {
    return guarded([&] {
        const OnDevice scope(device);
        *out = new bb_upload_stream(device, nonzeros, type, slots, each);
    });
}

bb_status bb_upload_stream_lend(bb_upload_stream* upload, int32_t slot, int32_t** indices, void** values) {
    return on_stream(upload, [&] {
        BB_CHECK(cudaEventSynchronize(upload->ring->sent(slot)));
        *indices = upload->ring->indices(slot);
        *values = upload->ring->values(slot);
    });
}

bb_status bb_upload_stream_send(bb_upload_stream* upload, int32_t slot, int64_t first, int64_t count,
                                int32_t ones) {
    return on_stream(upload, [&] {
        const Ring& ring = *upload->ring;
        const cudaStream_t stream = upload->memory.stream;
        const int64_t bytes = bytes_of(upload->type);
        if (first + count > upload->indices.size()) throw Failure(BB_INVALID, "more nonzeros than announced");
        BB_CHECK(cudaMemcpyAsync(upload->indices.data() + first, ring.indices(slot),
                                 size_t(count) * sizeof(int32_t), cudaMemcpyHostToDevice, stream));
        if (!ones)
            BB_CHECK(cudaMemcpyAsync(upload->values.data() + first * bytes, ring.values(slot),
                                     size_t(count * bytes), cudaMemcpyHostToDevice, stream));
        BB_CHECK(cudaEventRecord(ring.sent(slot), stream));
    });
}

bb_status bb_upload_stream_settle(bb_upload_stream* upload, int64_t count, int32_t shift,
                                  const int32_t** indices, const void** values) {
    return on_stream(upload, [&] {
        const cudaStream_t stream = upload->memory.stream;
        if (shift) {
            shift_indices<<<blocks_for(count), 256, 0, stream>>>(upload->indices.data(), count, shift);
            BB_CHECK(cudaGetLastError());
        }
        BB_CHECK(cudaStreamSynchronize(stream));
        upload->ring.reset();
        *indices = upload->indices.data();
        *values = upload->values.data();
    });
}

void bb_upload_stream_close(bb_upload_stream* upload) {
    // In a forked child there is nothing to free: the parent owns it all.
    if (upload && getpid() == upload->process) {
        on_stream(upload, [&] { delete upload; });
    }
}

}  // extern "C"
