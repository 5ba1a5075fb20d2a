// Blocks of rows that follow each other, as one matrix: a GPU's products call it for the rows that stay in
// main memory (src_cuda/matrix/host_rows.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <new>
#include <vector>

#include "cpu/matrix.h"

namespace bmrm {

class ConsecutiveRows {
  public:
    explicit ConsecutiveRows(i64 columns) : columns_(columns) {}
    void add(Matrix* rows, i64 count) {
        matrices_.push_back(rows);
        bounds_.push_back(bounds_.back() + count);
    }
    /// out = X x, for K vectors side by side.
    void multiply(const double* x, i64 K, double* out) const {
        for (std::size_t m = 0; m < matrices_.size(); ++m) {
            double* const to = out + bounds_[m] * K;
            if (K == 1)
                matrices_[m]->matvec(x, to);
            else
                matrices_[m]->matmat({columns_of(x, K).data(), K}, K, {columns_of(to, K).data(), K});
        }
    }
    /// out[p] = X[starts[p]:starts[p+1]]' r, the sum over the matrices in their order.
    void transposed(const double* r, i64 K, const i64* starts, i64 blocks, double* out) const {
        const i64 size = blocks * columns_ * K;
        std::vector<double> one(matrices_.size() > 1 ? size : 0);
        for (std::size_t m = 0; m < matrices_.size(); ++m) {
            const i64 begin = bounds_[m], end = bounds_[m + 1];
            std::vector<i64> here(blocks + 1);
            for (i64 p = 0; p <= blocks; ++p) here[p] = std::clamp(starts[p], begin, end) - begin;
            double* const to = m ? one.data() : out;
            if (K == 1)
                matrices_[m]->rmatvec_blocks(r + begin, here.data(), blocks, to);
            else
                matrices_[m]->rmatmat_blocks({columns_of(r + begin * K, K).data(), K}, K, here.data(), blocks,
                                             {columns_of(to, K).data(), K});
            for (i64 i = 0; m && i < size; ++i) out[i] += one[i];
        }
    }

  private:
    template <class T>
    static std::vector<T*> columns_of(T* first, i64 K) {
        std::vector<T*> found(K);
        for (i64 c = 0; c < K; ++c) found[c] = first + c;
        return found;
    }

    const i64 columns_;
    std::vector<Matrix*> matrices_;
    std::vector<i64> bounds_{0};
};

/// Both, as a GPU calls them: returns 0, or 1 if memory is full.
inline std::int32_t multiply_rows(void* rows, bool transposed, i64 K, const i64* starts, i64 blocks,
                                  const double* x, double* out) noexcept {
    try {
        const auto& of = *static_cast<const ConsecutiveRows*>(rows);
        if (transposed)
            of.transposed(x, K, starts, blocks, out);
        else
            of.multiply(x, K, out);
        return 0;
    } catch (const std::bad_alloc&) {
        return 1;
    }
}

}  // namespace bmrm
