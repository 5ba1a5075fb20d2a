// A small X for the fused pass: stretches of rows, each a block's (kernels/paired.cuh).
#pragma once
#include <vector>

#include "formats/csr.h"

namespace bmrm {

class Paired {
  public:
    Paired() = default;
    // Of X and its transpose.  Nothing is kept where they do not suit: rows that repeat a column or are too
    // long, or stretches that do not all find room at once.
    Paired(Memory& memory, const Csr& rows, const Csr& columns, const ValueArray& coding,
           const bb_device& device);

    void fused(const ValueArray& coding, int loss, double parameter, double scale, const void* w,
               bb_numbers labels, bb_numbers weights, void* margins, void* gradient, double* risk);
    // Calls f(array, whether products write it) for each array.
    template <class F>
    void each_array(F&& f) {
        f(image_, false);
        f(block_sums_, true);
        f(block_risks_, true);
    }
    explicit operator bool() const { return kernel_ != nullptr; }

  private:
    Memory* memory_ = nullptr;
    const void* kernel_ = nullptr;
    int64_t rows_ = 0, columns_ = 0, stretch_ = 0, shared_bytes_ = 0;
    uint32_t vectors_at_ = 0;
    int blocks_ = 0, threads_ = 0;
    std::vector<uint32_t> first_;  // of each stretch within the image, in units of 16 bytes; and its end
    Array<uint4> image_;
    Array<unsigned char> block_sums_;  // of gradients
    Array<double> block_risks_;
};

}  // namespace bmrm
