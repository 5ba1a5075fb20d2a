// Products whose inputs are float16, for walks (graph/kernels/walk.cuh): twice as many inputs fit into shared
// memory, into a sector and into L1.  Sums and outputs are float32, and every value is 1.
#pragma once
#include <cuda_fp16.h>

#include "formats/csr.h"

namespace bmrm {

// As with_values, with the type of inputs.
template <class F>
void with_inputs(const ValueArray& coding, F&& f) {
    if (coding.half_inputs) return f(Kind<float, BB_ONES, __half>());
    with_values(coding.type, coding.coding, f);
}

}  // namespace bmrm
