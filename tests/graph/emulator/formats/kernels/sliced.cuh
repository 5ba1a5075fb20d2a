// What formats/kernels/columns.cuh needs of the sliced kernels, with plain loads.
#pragma once
#include "api/blackbox.h"
#include "formats/sliced.h"
#include "formats/tuning.h"

namespace bmrm {

struct SlicedView {
    const Item* items;
    const uint32_t* dest;
    const void* local;
    const uint32_t* far;
    const void* values;
    const void* dictionary;
    const uint32_t* tile_item;
    const BlockShare* shares;
    uint64_t shared_elements;
    int64_t tile;
    int32_t shared;
};

template <class T>
struct Output {
    T* y;
    T* partial;
};

template <class T>
T add_chunk(T sum, uint32_t log2) {
    for (uint32_t apart = (1u << log2) >> 1; apart; apart >>= 1) sum += __shfl_xor_sync(~0u, sum, int(apart));
    return sum;
}

enum Use { ONCE, AGAIN };

template <class T, int CODING, class Index, Use USE>
struct Elements {
    const Index* index;
    const T* stored;

    Elements(const Index* index, const void* values, uint64_t first_index, uint64_t first_value, const T*)
        : index(index + first_index), stored(static_cast<const T*>(values) + first_value) {}
    Index one_index(int i) const { return index[i]; }
    T one_value(int i) const { return stored[i]; }
    T value(T v) const { return v; }
    T at(uint64_t i) const { return CODING == BB_ONES ? T(1) : stored[i]; }
};

}  // namespace bmrm
