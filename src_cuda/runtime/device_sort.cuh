// The CUB algorithms that preparation uses, with their scratch memory.
#pragma once
#include <thrust/iterator/counting_iterator.h>

#include <cub/cub.cuh>

#include "runtime/device_memory.h"

namespace bmrm {

inline int bits_for(uint64_t values) {
    int bits = 1;
    while (bits < 64 && values > (uint64_t(1) << bits)) bits++;
    return bits;
}

// Sorts `keys`, all below `key_values`, stably and in place; returns the original positions of the sorted
// keys.
template <class Key>
Array<uint32_t> sort_with_positions(Memory& memory, Array<Key>& keys, uint64_t key_values);

// Returns the positions of the set flags, in order.
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
    BB_FOR (i, n) out[i] = uint32_t(i);
}

template <class T>
__global__ void pick(const T* from, const uint32_t* position, int64_t n, T* to) {
    BB_FOR (i, n) to[i] = from[position[i]];
}

// Returns the elements of `from` at `position`.
template <class T>
Array<T> picked(Memory& memory, const Array<T>& from, const Array<uint32_t>& position) {
    Array<T> to(memory, position.size());
    pick<<<blocks_for(to.size()), 256, 0, memory.stream>>>(from.data(), position.data(), to.size(),
                                                           to.data());
    BB_CHECK(cudaGetLastError());
    return to;
}

// For sorted keys below `values`: where each value begins, and where the last one ends.
template <class Key, class Place>
__global__ void first_of_each(const Key* sorted, int64_t n, int64_t values, Place* first) {
    BB_FOR (i, n + 1) {
        const int64_t from = i == 0 ? 0 : int64_t(sorted[i - 1]) + 1, to = i == n ? values : sorted[i];
        for (int64_t v = from; v <= to; v++) first[v] = Place(i);
    }
}

template <class Place, class Key>
Array<Place> firsts_of(Memory& memory, const Array<Key>& sorted, int64_t values) {
    Array<Place> first(memory, values + 1);
    first_of_each<<<blocks_for(sorted.size() + 1), 256, 0, memory.stream>>>(sorted.data(), sorted.size(),
                                                                            values, first.data());
    BB_CHECK(cudaGetLastError());
    return first;
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

// Returns the exclusive prefix sums of `counts`, followed by the total.
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
