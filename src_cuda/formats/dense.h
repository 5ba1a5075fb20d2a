// A dense matrix on the device, row-major, stored once for both products.
#pragma once
#include "formats/csr.h"
#include "runtime/upload.h"

namespace bmrm {

constexpr int kLoadBytes = 16;  // of the widest load

class Dense {
  public:
    Dense() = default;
    Dense(Memory& memory, int64_t rows, int64_t cols, bb_type type, const bb_device& device);

    void upload(Uploader& uploader, const void* values);
    void expect_finite();
    // Adds the squares of each column to `sums`.
    void add_squares(double* sums);
    // Writes some rows times the square root of their s, in float64.
    void scale_rows_to(const double* s, int64_t first, int64_t count, double* to);
    void normal(const void* x, void* y);
    void transposed(const void* r, void* y);
    const void* values() const { return values_.data(); }
    int64_t bytes() const { return rows_ * cols_ * bytes_of(type_); }
    // Calls f(array, whether products write it) for the arrays of X; the rest is small.
    template <class F>
    void each_array(F&& f) {
        f(values_, false);
    }
    // Frees the working memory of products, until the next one.
    void release() {
        sums_.reset();
        shifted_.reset();
    }
    explicit operator bool() const { return memory_ != nullptr; }

  private:
    template <class T, int VEC, bool SHIFTED>
    void normal_by(const T* x, int64_t padded, T* y);

    Memory* memory_ = nullptr;
    int64_t rows_ = 0, cols_ = 0;
    bb_type type_ = BB_FLOAT32;
    bb_device device_ = {};
    Array<unsigned char> values_;   // and the bytes past the end that a load of the last row reads
    Array<double> sums_;            // partial sums of blocks
    Array<unsigned char> shifted_;  // copies of the input, for rows that start at any address
};

}  // namespace bmrm
