// Device memory of one matrix: a pool of its own, so that all of it is returned with the matrix, a limit that
// is checked before each allocation, and arrays that free themselves.
//
// The order of work.  The host runs ahead of the device, so an object may go while the device still uses it:
// - A handle has one stream, that of its memory.  Launches, copies, allocations and frees are all queued
//   there.  An array can thus be freed or reserved anew once its last use is queued.
// - Another stream (of staging.h, of graph/peers.h, of a caller's loss) uses an array only from an event of
//   the handle's stream on, and until an event of its own for which that stream waits before the array is
//   written again or freed.  A stream that is new to a handle first waits for the old one.
// - What one handle lends another is not written while a call on the other runs, and such calls wait for
//   what they have queued.
// - Pinned memory is written or freed by the host only after an event, a letter (mailbox.h) or a wait that
//   comes after its last copy: cudaFreeHost promises no wait.  Calls that fail wait too (handle.h), so that
//   the next one finds its buffers free; so do those that end a handle.
// The emulator of the tests frees at once, poisons what is freed or not yet allocated, and runs streams in
// two orders (tests/emulator/streams.h).
#pragma once
#include <cuda_runtime.h>
#include <stdint.h>

#include <utility>
#include <vector>

#include "runtime/status.h"

namespace bmrm {

// Makes `device` current in a scope.
class OnDevice {
  public:
    explicit OnDevice(int device) {
        BB_CHECK(cudaGetDevice(&before_));
        if (before_ != device) BB_CHECK(cudaSetDevice(device));
        changed_ = before_ != device;
    }
    ~OnDevice() {
        if (changed_) cudaSetDevice(before_);
    }
    OnDevice(const OnDevice&) = delete;
    OnDevice& operator=(const OnDevice&) = delete;

  private:
    int before_ = 0;
    bool changed_ = false;
};

class Memory {
  public:
    explicit Memory(int device);
    ~Memory();
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;

    void* take(int64_t bytes);
    void give(void* pointer, int64_t bytes) noexcept;
    void set_limit(int64_t limit) { limit_ = limit; }
    int64_t limit() const { return limit_; }  // 0: what the device has
    // Returns unused memory of the pool to the device.
    void trim() noexcept;
    // Waits for all work on the device and returns to the matrix's own stream: a caller's stream may no
    // longer exist when arrays are freed.
    void settle() noexcept;
    int64_t used() const { return used_; }
    int64_t peak() const { return peak_; }  // maximum number of bytes in use at any time

    const int device;
    cudaStream_t stream = nullptr;  // all work is queued here; a caller may set a stream of its own
    // Whether launches may begin before the one before them ends (chain.cuh): within a product (chains), and
    // the first launch of a product, if its matrix is already resident (overlaps).
    bool chains = false, overlaps = false;

  private:
    cudaMemPool_t pool_ = nullptr;
    cudaStream_t own_ = nullptr;
    int64_t used_ = 0, peak_ = 0, limit_ = 0;
};

// An array on the device, whatever its type.
class AnyArray {
  public:
    AnyArray() = default;
    AnyArray(Memory& memory, int64_t bytes) : memory_(&memory), data_(memory.take(bytes)), bytes_(bytes) {}
    ~AnyArray() { reset(); }
    AnyArray(AnyArray&& other) noexcept { swap(other); }
    AnyArray& operator=(AnyArray&& other) noexcept {
        swap(other);
        return *this;
    }
    AnyArray(const AnyArray&) = delete;
    AnyArray& operator=(const AnyArray&) = delete;

    void reset() noexcept {
        if (data_ && !lent_) memory_->give(data_, bytes_);
        data_ = nullptr;
        bytes_ = 0;
        lent_ = false;
    }
    // Frees the elements, and uses as many at a place that another object owns; null if there are none for
    // now.
    void lie_at(void* place) noexcept {
        if (data_ && !lent_) memory_->give(data_, bytes_);
        data_ = place;
        lent_ = true;
    }
    // Allocates elements of its own again; their values are undefined.
    void own() {
        data_ = memory_->take(bytes_);
        lent_ = false;
    }
    void* data() const { return data_; }
    int64_t bytes() const { return bytes_; }
    explicit operator bool() const { return data_ != nullptr; }

  protected:
    Memory* memory_ = nullptr;
    void* data_ = nullptr;
    int64_t bytes_ = 0;

  private:
    void swap(AnyArray& other) noexcept {
        std::swap(memory_, other.memory_);
        std::swap(data_, other.data_);
        std::swap(bytes_, other.bytes_);
        std::swap(lent_, other.lent_);
    }
    bool lent_ = false;
};

// `size` elements on the device.
template <class T>
class Array : public AnyArray {
  public:
    Array() = default;
    Array(Memory& memory, int64_t size) : AnyArray(memory, size * int64_t(sizeof(T))) {}

    T* data() const { return static_cast<T*>(data_); }
    int64_t size() const { return bytes_ / int64_t(sizeof(T)); }

    void fill_bytes(int value) { BB_CHECK(cudaMemsetAsync(data_, value, size_t(bytes_), memory_->stream)); }
    void from_host(const T* source, int64_t count) {
        BB_CHECK(
            cudaMemcpyAsync(data_, source, size_t(count) * sizeof(T), cudaMemcpyDefault, memory_->stream));
    }
    std::vector<T> to_host() const {
        std::vector<T> out(static_cast<size_t>(size()));
        BB_CHECK(cudaMemcpyAsync(out.data(), data_, size_t(bytes_), cudaMemcpyDefault, memory_->stream));
        BB_CHECK(cudaStreamSynchronize(memory_->stream));
        return out;
    }
    T at(int64_t position) const {
        T out;
        BB_CHECK(cudaMemcpyAsync(&out, data() + position, sizeof(T), cudaMemcpyDefault, memory_->stream));
        BB_CHECK(cudaStreamSynchronize(memory_->stream));
        return out;
    }
};

// Enlarges an array that has fewer than `size` elements; its values are lost.
template <class T>
void reserve(Memory& memory, Array<T>& array, int64_t size) {
    if (array.size() >= size) return;
    array.reset();
    array = Array<T>(memory, size);
}

template <class T>
Array<T> on_device(Memory& memory, const std::vector<T>& source) {
    Array<T> out(memory, int64_t(source.size()));
    if (!source.empty()) out.from_host(source.data(), int64_t(source.size()));
    BB_CHECK(cudaStreamSynchronize(memory.stream));
    return out;
}

// A kernel's loop over [0, n): each thread takes every n-th index, n being the number of threads in the grid.
#define BB_FOR(i, n)                                                                 \
    for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < int64_t(n); \
         i += int64_t(gridDim.x) * blockDim.x)

// Returns the number of blocks of `threads` threads that cover `count`, within the limit of one grid
// dimension; kernels loop over the rest.
inline unsigned blocks_for(int64_t count, int threads = 256) {
    const int64_t blocks = (count + threads - 1) / threads;
    return unsigned(blocks < 1 ? 1 : blocks > 0x7FFFFFF ? 0x7FFFFFF : blocks);
}

}  // namespace bmrm
