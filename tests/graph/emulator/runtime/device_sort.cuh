// The algorithms of runtime/device_sort.cuh that src_cuda/graph uses.
#pragma once
#include <algorithm>

#include "runtime/device_memory.h"

namespace bmrm {

inline Array<uint32_t> positions_of(Memory& memory, const Array<uint8_t>& flags) {
    std::vector<uint32_t> found;
    for (int64_t i = 0; i < flags.size(); i++)
        if (flags.data()[i]) found.push_back(uint32_t(i));
    return on_device(memory, found);
}

template <class T>
Array<T> picked(Memory& memory, const Array<T>& from, const Array<uint32_t>& position) {
    Array<T> to(memory, position.size());
    for (int64_t i = 0; i < to.size(); i++) to.data()[i] = from.data()[position.data()[i]];
    return to;
}

template <class Key>
Array<uint32_t> sort_with_positions(Memory& memory, Array<Key>& keys, uint64_t) {
    const std::vector<Key> before = keys.to_host();
    std::vector<uint32_t> order(before.size());
    for (size_t i = 0; i < order.size(); i++) order[i] = uint32_t(i);
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return before[a] < before[b]; });
    for (size_t i = 0; i < order.size(); i++) keys.data()[i] = before[order[i]];
    return on_device(memory, order);
}

}  // namespace bmrm
