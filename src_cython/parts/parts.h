// Parts of the rows of a pass, and the sums of the parts.
//
// Rows are split into parts that depend on the sizes only, and the sums of the parts are added in their
// order: the same bits for any number of threads. The rows may be some of a larger number that decides about
// the parts: those of a rank, or of a block of a file. Their sums are then added to those of the rows before,
// or are left for the ranks to add up in turn.
#pragma once

#include <algorithm>

#include "common/memory.h"

namespace bmrm {

/// Maximum number of parts of rows; there are at least half as many, unless they would be too small.
constexpr i64 kMaxRowParts = 128;
/// Minimum number of rows of a part, so that adding up the parts costs little; a power of two.
constexpr i64 kMinPartRows = 2048;
/// Limit on the sums of all parts, in numbers. Kept sums and their references take twice as much.
constexpr i64 kMaxPartSums = i64{1} << 23;

/// Rows of a part of `total` rows that has so many sums: a power of two, so that blocks of rows which begin
/// at a multiple of a large one have whole parts.
inline i64 part_rows(i64 total, i64 sums) {
    const i64 most = std::min(kMaxRowParts, std::max<i64>(1, kMaxPartSums / std::max<i64>(1, sums)));
    i64 each = kMinPartRows;
    while (each * most < total) each *= 2;
    return each;
}

/// Half-open ranges of rows, some of `total`, a fixed number for given sizes; each begins at a multiple of
/// kMinPartRows.
struct Parts {
    i64 n, count, each;

    Parts(i64 rows, i64 sums, i64 total) : n(rows), count(0), each(part_rows(total, sums)) {
        count = (rows + each - 1) / each;
    }
    i64 begin(i64 p) const { return p * each; }
    i64 end(i64 p) const { return std::min(n, (p + 1) * each); }
};

/// Adds the parts' sums to what is there, in their order; those of the next part are `stride` numbers on.
inline void accumulate_parts(const double* parts, i64 count, i64 size, i64 stride, double* out, int threads) {
    constexpr i64 kChunk = 4096;
    for_each_task((size + kChunk - 1) / kChunk, threads_for(count * size, threads), [&](i64 t) {
        const i64 end = std::min(size, (t + 1) * kChunk);
        for (i64 s = t * kChunk; s < end; ++s) {
            double sum = out[s];
            for (i64 p = 0; p < count; ++p) sum += parts[p * stride + s];
            out[s] = sum;
        }
    });
}

/// Adds up the parts' sums in their order.
inline void add_parts(const Buffer<double>& parts, i64 count, i64 size, double* out, int threads) {
    std::fill_n(out, size, 0.0);
    accumulate_parts(parts.get(), count, size, size, out, threads);
}

/// The sums of every `each` of `count` numbers, added in order.
inline void add_in_order(const double* values, i64 count, i64 each, double* sums) {
    for (i64 first = 0; first < count; first += each) {
        double sum = 0;
        for (i64 i = first; i < std::min(count, first + each); ++i) sum += values[i];
        *sums++ = sum;
    }
}

}  // namespace bmrm
