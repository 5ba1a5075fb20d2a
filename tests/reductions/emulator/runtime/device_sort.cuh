// The algorithms of runtime/device_sort.cuh that src_cuda/clusters uses.
#pragma once
#include "../../../graph/emulator/runtime/device_sort.cuh"

namespace bmrm {

template <class Place, class Key>
Array<Place> firsts_of(Memory& memory, const Array<Key>& sorted, int64_t values) {
    std::vector<Place> firsts(size_t(values) + 1, Place(sorted.size()));
    for (int64_t v = 0; v <= values; v++)
        firsts[size_t(v)] =
            Place(std::lower_bound(sorted.data(), sorted.data() + sorted.size(), Key(v)) - sorted.data());
    return on_device(memory, firsts);
}

template <class Count>
Array<Count> offsets_of(Memory& memory, const Array<Count>& counts) {
    std::vector<Count> out(size_t(counts.size()) + 1, 0);
    for (size_t i = 1; i < out.size(); i++) out[i] = out[i - 1] + counts.data()[i - 1];
    return on_device(memory, out);
}

}  // namespace bmrm
