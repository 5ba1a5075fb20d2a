// X' diag(s) X of dense rows, summed up block by block.
#pragma once
#include <memory>

#include "matrix/row_block.h"

namespace bmrm {

class WeightedGram {
  public:
    // `blas` keeps cuBLAS's handle from one sum to the next; s: a number of at least 0 a row, on the host.
    WeightedGram(Memory& memory, std::shared_ptr<void>& blas, int64_t rows, int64_t cols, const double* s);
    // The rows of a block, from a row of X on.
    void add(RowBlock& block, int64_t first);
    // The sum so far, all of it.
    void to_host(double* gram);

  private:
    Memory& memory_;
    const std::shared_ptr<void> blas_;
    const int64_t cols_, step_;
    Array<double> weights_, chunk_, sum_;
};

}  // namespace bmrm
