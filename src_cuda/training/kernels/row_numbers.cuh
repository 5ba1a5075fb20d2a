// Labels and weights, one number per row, as they are stored on the device: as bytes or floats if that loses
// nothing.
#pragma once
#include <stdint.h>

namespace bmrm {

// Signed bytes, floats or doubles, by the bytes of a number; 0 bytes: every number is 1.
struct RowNumbers {
    const void* data;
    int32_t bytes;
};

constexpr int kAtOnce = 4;  // rows that a thread reads and writes together

// The numbers of consecutive rows, the first a multiple of kAtOnce; of type char, double, ...
template <class N>
struct alignas(kAtOnce * sizeof(N) < 16 ? kAtOnce * sizeof(N) : 16) Some {
    N at[kAtOnce];
};

template <class N>
__device__ __forceinline__ Some<N> read(const N* from, int64_t row, int64_t end) {
    if (row + kAtOnce <= end) return *reinterpret_cast<const Some<N>*>(from + row);
    Some<N> found = {};
#pragma unroll
    for (int j = 0; j < kAtOnce; j++)
        if (row + j < end) found.at[j] = from[row + j];
    return found;
}

template <class R, class N>
__device__ __forceinline__ Some<R> read_as(const void* from, int64_t row, int64_t end) {
    const Some<N> found = read(static_cast<const N*>(from), row, end);
    Some<R> out;
#pragma unroll
    for (int j = 0; j < kAtOnce; j++) out.at[j] = R(found.at[j]);
    return out;
}

template <class R>
__device__ __forceinline__ Some<R> numbers_at(const RowNumbers& numbers, int64_t row, int64_t end) {
    if (numbers.bytes == 1) return read_as<R, signed char>(numbers.data, row, end);
    if (numbers.bytes == 4) return read_as<R, float>(numbers.data, row, end);
    if (numbers.bytes == 8) return read_as<R, double>(numbers.data, row, end);
    Some<R> ones;
#pragma unroll
    for (R& one : ones.at) one = R(1);
    return ones;
}

__device__ __forceinline__ double number_at(const RowNumbers& numbers, int64_t row) {
    if (numbers.bytes == 1) return double(__ldg(static_cast<const signed char*>(numbers.data) + row));
    if (numbers.bytes == 4) return double(__ldg(static_cast<const float*>(numbers.data) + row));
    return numbers.bytes == 8 ? __ldg(static_cast<const double*>(numbers.data) + row) : 1.0;
}

}  // namespace bmrm
