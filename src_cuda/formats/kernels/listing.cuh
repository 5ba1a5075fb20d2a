// What kernels need that list the elements of a format.
#pragma once
#include "formats/listing.h"
#include "runtime/device_memory.h"

namespace bmrm {

template <class T>
__device__ __forceinline__ void put_element(const Listing& to, uint64_t i, uint64_t row, uint32_t column,
                                            T value) {
    to.keys[i] = row << 32 | column;
    if (to.values) static_cast<T*>(to.values)[i] = value;
}

// Returns the last one of `low` to `high` that begins at or before a place; begin[low] does.
template <class Place>
__device__ __forceinline__ int64_t last_begun(const Place* __restrict__ begin, int64_t low, int64_t high,
                                              int64_t place) {
    while (low < high) {
        const int64_t middle = (low + high + 1) / 2;
        if (int64_t(begin[middle]) <= place)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

}  // namespace bmrm
