// The losses of src_common/losses.h inside a kernel, by their number in BMRM_LOSSES.
#pragma once
#include "formats/kernels/row_numbers.cuh"
#include "losses.h"

namespace bmrm {

struct FusedInput {
    int32_t loss;
    double parameter, scale;
    bb_numbers labels, weights;

    static __device__ __forceinline__ double weighted(double factor, double what) {
        return with_weight(factor, what);
    }
};

__device__ __forceinline__ void loss_at(const FusedInput& f, double u, double y, double& value,
                                        double& slope) {
    int number = 0;
#define BMRM_CASE(name, Loss)                                  \
    if (f.loss == number++) {                                  \
        value = Loss::value(u, y, LossParameter{f.parameter}); \
        slope = Loss::slope(u, y, LossParameter{f.parameter}); \
        return;                                                \
    }
    BMRM_LOSSES(BMRM_CASE)
#undef BMRM_CASE
}

}  // namespace bmrm
