// The narrow format of X with the fused pass.
#pragma once
#include "formats/products.h"

namespace bmrm {

class FusedNarrow : public Narrow {
  public:
    FusedNarrow() = default;
    FusedNarrow(Memory& memory, const Sliced& rows, const ValueArray& coding, const bb_device& device);

    void fused(const Sliced& rows, const ValueArray& coding, int loss, double parameter, double scale,
               const void* w, bb_numbers labels, bb_numbers weights, void* margins, void* gradient,
               double* risk);

  private:
    Launch fused_ = {};
};

}  // namespace bmrm
