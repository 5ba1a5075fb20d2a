// X' diag(s) X of dense rows, summed block by block.
#pragma once
#include <memory>

#include "matrix/row_block.h"

namespace bmrm {

class WeightedGram {
  public:
    // `blas` keeps cuBLAS's handle from one sum to the next; s: one number of at least 0 per row, on the
    // host.
    WeightedGram(Memory& memory, std::shared_ptr<void>& blas, int64_t rows, int64_t cols, const double* s);
    // Adds the rows of a block that begins at row `first` of X.
    void add(RowBlock& block, int64_t first);
    // Copies the sum to the host.
    void to_host(double* gram);

  private:
    Memory& memory_;
    const std::shared_ptr<void> blas_;
    const int64_t cols_, step_;
    Array<double> weights_, chunk_, sum_;
};

}  // namespace bmrm
