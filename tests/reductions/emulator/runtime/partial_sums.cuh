// Sums of parts, in order.
#pragma once
#include "runtime/chain.cuh"
#include "runtime/device_memory.h"

namespace bmrm {

inline void add_up(const double* sums, int64_t parts, int64_t stride, int64_t count, double* y, cudaStream_t,
                   bool) {
    for (int64_t i = 0; i < count; i++) {
        y[i] = 0;
        for (int64_t p = 0; p < parts; p++) y[i] += sums[p * stride + i];
    }
}

}  // namespace bmrm
