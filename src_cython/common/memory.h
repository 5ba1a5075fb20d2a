// Large uninitialised arrays, and the number of threads of a loop.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <new>
#include <utility>
#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "common/integers.h"
#include "common/team.h"

namespace bmrm {

/// Uninitialised array of a trivial type T. Large ones ask for huge pages, which save the gathers TLB misses.
template <class T>
class Buffer {
  public:
    Buffer() = default;
    explicit Buffer(i64 n) : size_(n) {
        constexpr std::size_t page = std::size_t{2} << 20;
        if (static_cast<std::uint64_t>(n) > std::numeric_limits<i64>::max() / 2 / sizeof(T))
            throw std::bad_alloc();
        std::size_t bytes = static_cast<std::size_t>(n) * sizeof(T);
        std::size_t alignment = bytes >= 2 * page ? page : 64;
        bytes = (bytes + alignment) / alignment * alignment;
        data_ = static_cast<T*>(std::aligned_alloc(alignment, bytes));
        if (!data_) throw std::bad_alloc();
#if defined(__linux__)
        if (alignment == page) madvise(data_, bytes, MADV_HUGEPAGE);
#endif
    }
    Buffer(Buffer&& other) noexcept { swap(other); }
    Buffer& operator=(Buffer&& other) noexcept {
        swap(other);
        return *this;
    }
    ~Buffer() { std::free(data_); }

    T* get() { return data_; }
    const T* get() const { return data_; }
    T& operator[](i64 i) { return data_[i]; }
    const T& operator[](i64 i) const { return data_[i]; }
    i64 size() const { return size_; }
    i64 bytes() const { return size_ * static_cast<i64>(sizeof(T)); }

  private:
    void swap(Buffer& other) {
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
    }
    T* data_ = nullptr;
    i64 size_ = 0;
};

/// Maximum size of the array that `Scratch` keeps, in bytes.
constexpr i64 kMaxScratchBytes = i64{1} << 26;

/// An array that is kept from one product to the next. If it were returned to the system, it would come back
/// as zeroed pages, which takes a tenth of the time of a product with several columns.
class Scratch {
  public:
    /// An array of at least n numbers with arbitrary content. Callers who ask before it is kept again get one
    /// of their own.
    Buffer<double> take(i64 n) {
        std::lock_guard<std::mutex> hold(busy_);
        Buffer<double> found = std::move(kept_);
        return found.size() < n ? Buffer<double>(n) : std::move(found);
    }
    void keep(Buffer<double> array) {
        std::lock_guard<std::mutex> hold(busy_);
        if (array.size() > kept_.size() && array.bytes() <= kMaxScratchBytes) kept_ = std::move(array);
    }

  private:
    std::mutex busy_;
    Buffer<double> kept_;
};

/// Multiply-adds that pay for one more thread: waking it takes about 5 us.
constexpr i64 kWorkPerThread = 100000;

/// The number of threads worth using, at most `threads`.
inline int threads_for(i64 work, int threads) {
    i64 n = work / kWorkPerThread;
    return n < 1 ? 1 : n < threads ? static_cast<int>(n) : threads;
}

}  // namespace bmrm
