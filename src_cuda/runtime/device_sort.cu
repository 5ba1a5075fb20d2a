#include <cub/device/device_radix_sort.cuh>

#include "runtime/device_sort.cuh"

namespace bmrm {

namespace {

__global__ void number(uint32_t* out, int64_t n) {
    BB_FOR (i, n) out[i] = uint32_t(i);
}

// Without scratch memory it sets `bytes` to what it takes.
template <class Key>
void sort(void* scratch, size_t& bytes, Key* (&keys)[2], uint32_t* (&places)[2], int64_t n, int bits,
          cudaStream_t stream) {
    cub::DoubleBuffer<Key> k(keys[0], keys[1]);
    cub::DoubleBuffer<uint32_t> p(places[0], places[1]);
    BB_CHECK(cub::DeviceRadixSort::SortPairs(scratch, bytes, k, p, n, 0, bits, stream));
    if (k.selector) std::swap(keys[0], keys[1]);
    if (p.selector) std::swap(places[0], places[1]);
}

}  // namespace

template <class Key>
int64_t sort_bytes(int64_t n, int bits, cudaStream_t stream) {
    Key* keys[2] = {};
    uint32_t* places[2] = {};
    size_t bytes = 0;
    sort(nullptr, bytes, keys, places, n, bits, stream);
    return int64_t(bytes);
}

template <class Key>
void sort_pairs(const AnyArray& scratch, Key* (&keys)[2], uint32_t* (&places)[2], int64_t n, int bits,
                cudaStream_t stream) {
    size_t bytes = size_t(scratch.bytes());
    sort(scratch.data(), bytes, keys, places, n, bits, stream);
}

template <class Key>
Array<uint32_t> sort_with_positions(Memory& memory, Array<Key>& keys, uint64_t key_values) {
    const int64_t n = keys.size();
    Array<uint32_t> positions(memory, n), other_positions(memory, n);
    Array<Key> other_keys(memory, n);
    if (n == 0) return positions;
    number<<<blocks_for(n), 256, 0, memory.stream>>>(positions.data(), n);
    BB_CHECK(cudaGetLastError());
    Key* k[2] = {keys.data(), other_keys.data()};
    uint32_t* p[2] = {positions.data(), other_positions.data()};
    const int bits = bits_for(key_values);
    const Array<unsigned char> scratch(memory, sort_bytes<Key>(n, bits, memory.stream));
    sort_pairs(scratch, k, p, n, bits, memory.stream);
    if (k[0] != keys.data()) std::swap(keys, other_keys);
    return p[0] == positions.data() ? std::move(positions) : std::move(other_positions);
}

void sort_keys(Memory& memory, Array<uint64_t>& keys, uint64_t key_values) {
    const int64_t n = keys.size();
    if (n == 0) return;
    Array<uint64_t> others(memory, n);
    cub::DoubleBuffer<uint64_t> both(keys.data(), others.data());
    const int bits = bits_for(key_values);
    size_t bytes = 0;
    BB_CHECK(cub::DeviceRadixSort::SortKeys(nullptr, bytes, both, n, 0, bits, memory.stream));
    const Array<unsigned char> scratch(memory, int64_t(bytes));
    BB_CHECK(cub::DeviceRadixSort::SortKeys(scratch.data(), bytes, both, n, 0, bits, memory.stream));
    if (both.Current() != keys.data()) std::swap(keys, others);
}

template Array<uint32_t> sort_with_positions(Memory&, Array<uint16_t>&, uint64_t);
template Array<uint32_t> sort_with_positions(Memory&, Array<uint32_t>&, uint64_t);
template Array<uint32_t> sort_with_positions(Memory&, Array<uint64_t>&, uint64_t);
template int64_t sort_bytes<uint32_t>(int64_t, int, cudaStream_t);
template int64_t sort_bytes<uint64_t>(int64_t, int, cudaStream_t);
template void sort_pairs(const AnyArray&, uint32_t* (&)[2], uint32_t* (&)[2], int64_t, int, cudaStream_t);
template void sort_pairs(const AnyArray&, uint64_t* (&)[2], uint32_t* (&)[2], int64_t, int, cudaStream_t);

}  // namespace bmrm
