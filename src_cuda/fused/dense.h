// A dense matrix with the fused pass.
#pragma once
#include "formats/dense.h"

namespace bmrm {

class FusedDense : public Dense {
  public:
    FusedDense() = default;
    FusedDense(Memory& memory, int64_t rows, int64_t cols, bb_type type, const bb_device& device);

    bool can_fuse() const;
    void fused(int loss, double parameter, double scale, const void* w, bb_numbers labels, bb_numbers weights,
               void* margins, void* gradient, double* risk);

  private:
    Array<uint32_t> ticket_;
};

}  // namespace bmrm
