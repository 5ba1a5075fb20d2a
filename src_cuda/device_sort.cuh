// The two CUB algorithms of the preparation, with their scratch memory.
#pragma once
#include <thrust/iterator/counting_iterator.h>

#include <cub/cub.cuh>

#include "device_memory.h"

namespace bmrm {

inline int bits_for(uint64_t values) {
    int bits = 1;
    while (bits < 64 && values > (uint64_t(1) << bits)) bits++;
    return bits;
}

// Stable sort of `keys` (below `key_values`) with their original positions; `keys` holds the sorted keys
// after.
template <class Key>
Array<uint32_t> sort_with_positions(Memory& memory, Array<Key>& keys, uint64_t key_values);

// Positions of the set flags, in order.
inline Array<uint32_t> positions_of(Memory& memory, const Array<uint8_t>& flags) {
    const int64_t n = flags.size();
    Array<uint32_t> out(memory, n);
    Array<int64_t> count(memory, 1);
    size_t bytes = 0;
    const thrust::counting_iterator<uint32_t> all(0);
    BB_CHECK(cub::DeviceSelect::Flagged(nullptr, bytes, all, flags.data(), out.data(), count.data(), n,
                                        memory.stream));
    Array<unsigned char> scratch(memory, int64_t(bytes));
    BB_CHECK(cub::DeviceSelect::Flagged(scratch.data(), bytes, all, flags.data(), out.data(), count.data(), n,
                                        memory.stream));
    Array<uint32_t> found(memory, count.at(0));
    BB_CHECK(cudaMemcpyAsync(found.data(), out.data(), size_t(found.bytes()), cudaMemcpyDeviceToDevice,
                             memory.stream));
    return found;
}

static __global__ void number(uint32_t* out, int64_t n) {
    for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < n;
         i += int64_t(gridDim.x) * blockDim.x)
        out[i] = uint32_t(i);
}

template <class Key>
Array<uint32_t> sort_with_positions(Memory& memory, Array<Key>& keys, uint64_t key_values) {
    const int64_t n = keys.size();
    Array<uint32_t> positions(memory, n), other_positions(memory, n);
    Array<Key> other_keys(memory, n);
    if (n == 0) return positions;
    number<<<blocks_for(n), 256, 0, memory.stream>>>(positions.data(), n);
    BB_CHECK(cudaGetLastError());
    cub::DoubleBuffer<Key> k(keys.data(), other_keys.data());
    cub::DoubleBuffer<uint32_t> p(positions.data(), other_positions.data());
    size_t bytes = 0;
    const int bits = bits_for(key_values);
    BB_CHECK(cub::DeviceRadixSort::SortPairs(nullptr, bytes, k, p, n, 0, bits, memory.stream));
    Array<unsigned char> scratch(memory, int64_t(bytes));
    BB_CHECK(cub::DeviceRadixSort::SortPairs(scratch.data(), bytes, k, p, n, 0, bits, memory.stream));
    if (k.Current() != keys.data()) std::swap(keys, other_keys);
    return p.Current() == positions.data() ? std::move(positions) : std::move(other_positions);
}

// Exclusive sums of `counts`, with the total as one more element.
template <class Count>
Array<Count> offsets_of(Memory& memory, const Array<Count>& counts) {
    const int64_t n = counts.size();
    Array<Count> out(memory, n + 1);
    BB_CHECK(cudaMemsetAsync(out.data(), 0, sizeof(Count), memory.stream));
    if (n == 0) return out;
    size_t bytes = 0;
    BB_CHECK(cub::DeviceScan::InclusiveSum(nullptr, bytes, counts.data(), out.data() + 1, n, memory.stream));
    Array<unsigned char> scratch(memory, int64_t(bytes));
    BB_CHECK(cub::DeviceScan::InclusiveSum(scratch.data(), bytes, counts.data(), out.data() + 1, n,
                                           memory.stream));
    return out;
}

}  // namespace bmrm
