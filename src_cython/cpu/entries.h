// A checksum of the entries of a matrix: the sum, modulo 2^64, of a hash of each nonzero entry's row, column
// and value as a double. So it depends only on the matrix: not on the order of rows or columns in memory, on
// stored zeros, on the type of the values, on the number of threads, nor on how the rows are distributed over
// processes, whose sums add up. It detects mistakes and damage, not malice.
#pragma once

#include <atomic>
#include <cstring>
#include <type_traits>

#include "common/hash.h"
#include "common/memory.h"
#include "cpu/simd.h"

namespace bmrm {

/// Keys of rows and columns differ, so that a matrix and its transpose have different checksums.
inline std::uint64_t key_of_row(std::uint64_t row) { return mixed(2 * row + 1); }
inline std::uint64_t key_of_column(std::uint64_t column) { return mixed(2 * column + 2); }

/// The hash of an entry, 0 if its value is 0: both halves of a product, folded as in wyhash.
inline std::uint64_t entry(std::uint64_t row_key, std::uint64_t column_key, double value) {
    std::uint64_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    const auto product = static_cast<unsigned __int128>(bits ^ row_key) * column_key;
    const std::uint64_t folded =
        static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
    return value != 0 ? folded : 0;
}

/// Target number of entries per task.
constexpr i64 kEntriesPerTask = 1 << 16;

/// The sum over m rows that have `entries` entries in all; rows(begin, end) returns the sum of some.
template <class Rows>
std::uint64_t sum_of_rows(i64 m, i64 entries, int threads, const Rows& rows) {
    const i64 each = std::max<i64>(1, kEntriesPerTask / std::max<i64>(1, entries / std::max<i64>(1, m)));
    std::atomic<std::uint64_t> sum{0};
    for_each_task((m + each - 1) / each, threads_for(entries, threads),
                  [&](i64 t) { sum += rows(t * each, std::min(m, (t + 1) * each)); });
    return sum;
}

/// The sum of dense rows, numbered from `first`; `keys` has the key of each column.
template <class V>
std::uint64_t sum_of_dense(const V* X, i64 m, i64 d, std::uint64_t first, const std::uint64_t* keys,
                           int threads) {
    return sum_of_rows(m, m * d, threads, [=](i64 begin, i64 end) {
        std::uint64_t sum = 0;
        for (i64 i = begin; i < end; ++i) {
            const std::uint64_t key = key_of_row(first + static_cast<std::uint64_t>(i));
            for (i64 j = 0; j < d; ++j) sum += entry(key, keys[j], static_cast<double>(X[i * d + j]));
        }
        return sum;
    });
}

}  // namespace bmrm
