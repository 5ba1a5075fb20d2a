// Dense rows on a device: some of them, and the largest value.
#pragma once
#include <stdint.h>

#include "runtime/device_memory.h"

namespace bmrm {

// to (count, d) = rows of the given numbers, in float64.
template <class T>
__global__ void gather_rows(const T* values, const int64_t* numbers, int64_t count, int64_t d, double* to) {
    BB_FOR (i, count * d) to[i] = double(values[numbers[i / d] * d + i % d]);
}

struct Extremes {
    unsigned long long largest;     // bits of the largest absolute value in float64; NaN is above all others
    unsigned long long not_finite;  // position of the first value that is not finite
};

template <class T>
__global__ void find_extremes(const T* values, int64_t size, Extremes* out) {
    unsigned long long largest = 0, not_finite = ~0ull;
    BB_FOR (i, size) {
        const unsigned long long bits = (unsigned long long)__double_as_longlong(fabs(double(values[i])));
        if (bits >= 0x7FF0000000000000ull && (unsigned long long)i < not_finite)
            not_finite = (unsigned long long)i;
        largest = bits > largest ? bits : largest;
    }
    if (largest) atomicMax(&out->largest, largest);
    if (~not_finite) atomicMin(&out->not_finite, not_finite);
}

}  // namespace bmrm
