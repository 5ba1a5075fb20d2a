#include <tuple>

#include "matrix/streamed.h"

namespace bmrm {

namespace {

constexpr int64_t kAlignment = 256;

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// Calls f(array, offset) for the arrays of a storage in the order of their places: first those that are
// copied, then those that products write.  Returns where each of the two parts ends.
template <class F>
std::pair<int64_t, int64_t> lay_out(RowBlock& block, int storage, F&& f) {
    int64_t at = 0, copied = 0;
    for (const bool scratch : {false, true}) {
        block.each_array(storage, [&](AnyArray& array, bool written) {
            if (written != scratch || array.bytes() == 0) return;
            f(array, at);
            at += aligned(array.bytes());
        });
        if (!scratch) copied = at;
    }
    return {copied, at};
}

}  // namespace

Packed::Packed(Memory& memory, RowBlock& block, int storage) {
    std::tie(copied_, bytes_) = lay_out(block, storage, [](AnyArray&, int64_t) {});
    if (copied_ == 0) return;
    if (cudaMallocHost(reinterpret_cast<void**>(&host_), size_t(copied_)) != cudaSuccess) {
        cudaGetLastError();
        host_ = nullptr;
        throw Failure(BB_MEMORY,
                      "no " + size_text(double(copied_)) +
                          " more of pinned host memory for the rows that do not fit on the device");
    }
    try {
        lay_out(block, storage, [&](AnyArray& array, int64_t at) {
            if (at < copied_)
                BB_CHECK(cudaMemcpyAsync(host_ + at, array.data(), size_t(array.bytes()), cudaMemcpyDefault,
                                         memory.stream));
        });
        BB_CHECK(cudaStreamSynchronize(memory.stream));
    } catch (...) {
        cudaFreeHost(host_);
        throw;
    }
    place(block, storage, nullptr);
}

Packed::~Packed() {
    if (host_) cudaFreeHost(host_);
}

void Packed::place(RowBlock& block, int storage, unsigned char* area) const {
    lay_out(block, storage, [&](AnyArray& array, int64_t at) { array.lie_at(area ? area + at : nullptr); });
}

void Packed::restore(Memory& memory, RowBlock& block, int storage) const {
    lay_out(block, storage, [&](AnyArray& array, int64_t at) {
        array.own();
        if (at < copied_)
            BB_CHECK(cudaMemcpyAsync(array.data(), host_ + at, size_t(array.bytes()), cudaMemcpyDefault,
                                     memory.stream));
    });
    BB_CHECK(cudaStreamSynchronize(memory.stream));  // the copy on the host is freed next
}

}  // namespace bmrm
