// The algorithms of CUB that preparation uses, with their scratch memory.  They are compiled once, for the
// types that callers have (device_sort.cu, device_scan.cu): CUB takes longer to read than any file that uses
// it.
#pragma once
#include "runtime/device_memory.h"

namespace bmrm {

inline int bits_for(uint64_t values) {
    int bits = 1;
    while (bits < 64 && values > (uint64_t(1) << bits)) bits++;
    return bits;
}

// Bytes of scratch memory that `sort_pairs` takes.
template <class Key>
int64_t sort_bytes(int64_t n, int bits, cudaStream_t stream);

// Sorts keys[0] by their lowest bits, stably, and places[0] with them; keys[1] and places[1] are room for as
// many.  Afterwards the first of each are those that are sorted.
template <class Key>
void sort_pairs(const AnyArray& scratch, Key* (&keys)[2], uint32_t* (&places)[2], int64_t n, int bits,
                cudaStream_t stream);

// Sorts `keys`, all below `key_values`, stably and in place; returns the original positions of the sorted
// keys.
template <class Key>
Array<uint32_t> sort_with_positions(Memory& memory, Array<Key>& keys, uint64_t key_values);

// Sorts `keys`, all below `key_values`, in place.
void sort_keys(Memory& memory, Array<uint64_t>& keys, uint64_t key_values);

// Returns the positions of the set flags, in order.
Array<uint32_t> positions_of(Memory& memory, const Array<uint8_t>& flags);

// Returns the exclusive prefix sums of `counts`, followed by the total.
template <class Count>
Array<Count> offsets_of(Memory& memory, const Array<Count>& counts);

// Sets to[i] to the maximum of the numbers up to number i.
void running_maximum(Memory& memory, const Array<uint32_t>& numbers, Array<uint32_t>& to);

// Sets the distinct ones of sorted keys, and how often each occurs; returns how many there are.
int64_t count_runs(Memory& memory, const Array<uint64_t>& keys, Array<uint64_t>& distinct,
                   Array<uint32_t>& counts);

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

}  // namespace bmrm
