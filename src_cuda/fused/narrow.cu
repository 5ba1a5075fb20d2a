#include "formats/kernels/narrow.cuh"
#include "fused/kernels/loss.cuh"
#include "fused/narrow.h"

namespace bmrm {

FusedNarrow::FusedNarrow(Memory& memory, const Sliced& rows, const ValueArray& coding,
                         const bb_device& device)
    : Narrow(memory, rows, coding, device),
      fused_(launch_of(narrow_kernel<NARROW_FUSED, FusedInput>(coding, rows.widest), NARROW_FUSED, rows,
                       coding, device)) {}

void FusedNarrow::fused(const Sliced& rows, const ValueArray& coding, int loss, double parameter,
                        double scale, const void* w, bb_numbers labels, bb_numbers weights, void* margins,
                        void* gradient, double* risk) {
    FusedInput input = {loss, parameter, scale, labels, weights};
    start(fused_, rows, coding, &input, w, margins);
    finish(fused_, rows, coding, gradient, risk);
}

}  // namespace bmrm
