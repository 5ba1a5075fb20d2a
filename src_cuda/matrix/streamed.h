// Row blocks that do not fit on the device.  What their products read is packed in pinned host memory, and
// copied for each product, on a stream of its own, to one of two staging areas, while the block before uses
// the other.
//
// An array that is packed away keeps its size and, from then on, its place within a staging area, so that a
// block's kernels are launched as usual once its copy is queued.
#pragma once
#include "matrix/row_block.h"
#include "runtime/staging.h"

namespace bmrm {

// What one storage of a block (RowBlock::each_array) takes, in pinned host memory.
class Packed {
  public:
    Packed() = default;
    // Copies the arrays of a storage that is on the device.
    Packed(Memory& memory, RowBlock& block, int storage);
    ~Packed();
    Packed(Packed&& other) noexcept { swap(other); }
    Packed& operator=(Packed&& other) noexcept {
        swap(other);
        return *this;
    }
    Packed(const Packed&) = delete;
    Packed& operator=(const Packed&) = delete;

    // Moves the arrays to a staging area.
    void place(RowBlock& block, int storage, unsigned char* area) const;
    // Restores the arrays on the device.
    void restore(Memory& memory, RowBlock& block, int storage) const;

    const unsigned char* data() const { return host_; }
    int64_t copied() const { return copied_; }  // bytes, at the start of an area
    int64_t bytes() const { return bytes_; }    // of an area, including what products write

  private:
    void swap(Packed& other) noexcept {
        std::swap(host_, other.host_);
        std::swap(copied_, other.copied_);
        std::swap(bytes_, other.bytes_);
    }
    unsigned char* host_ = nullptr;
    int64_t copied_ = 0, bytes_ = 0;
};

}  // namespace bmrm
