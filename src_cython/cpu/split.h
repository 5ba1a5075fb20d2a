// How work is split into tasks. No split depends on the number of threads, so no sum does: results are the
// same bit for bit for any number of threads.
#pragma once

#include <algorithm>
#include <vector>

#include "cpu/simd.h"

namespace bmrm {

/// Half-open range of rows, columns or entries.
struct Range {
    i64 begin, end;
};

/// Splits [first, last) into n ranges of about equal weight; `cumulative` ascends over [first, last].
template <class Cumulative>
std::vector<Range> split_evenly(i64 first, i64 last, i64 n, const Cumulative& cumulative) {
    std::vector<Range> parts;
    i64 base = cumulative(first), total = cumulative(last) - base, begin = first;
    for (i64 p = 1; p <= n; ++p) {
        i64 goal = base + static_cast<i64>(static_cast<double>(total) * static_cast<double>(p) /
                                           static_cast<double>(n));
        i64 lo = begin, hi = last;
        while (lo < hi) {
            i64 mid = lo + (hi - lo) / 2;
            if (cumulative(mid) < goal)
                lo = mid + 1;
            else
                hi = mid;
        }
        i64 end = p == n ? last : lo;
        parts.push_back({begin, end});
        begin = end;
    }
    return parts;
}

/// Target number of entries per task of a product with compressed rows.
constexpr i64 kTileEntries = 1 << 15;
/// Cost of a row besides that of its entries, in entries.
constexpr i64 kRowCost = 8;
/// Rows with more entries are summed in pieces of this many, which are added in order.
constexpr i64 kPieceEntries = 1 << 17;

/// Tasks of `rows . w`: tiles of whole rows, and the pieces of the rows too long for one task.
struct RowTiles {
    struct Piece {
        i64 row, begin, end;
    };
    std::vector<Range> tiles;
    std::vector<Piece> pieces;

    RowTiles() = default;
    RowTiles(const i64* ptr, i64 m) {
        i64 begin = 0;
        for (i64 i = next_long(ptr, 0, m); begin < m; i = next_long(ptr, begin, m)) {
            if (i > begin) {
                i64 weight = ptr[i] - ptr[begin] + kRowCost * (i - begin);
                auto parts = split_evenly(begin, i, weight / kTileEntries + 1,
                                          [&](i64 k) { return ptr[k] + kRowCost * k; });
                tiles.insert(tiles.end(), parts.begin(), parts.end());
            }
            if (i < m)
                for (i64 k = ptr[i]; k < ptr[i + 1]; k += kPieceEntries)
                    pieces.push_back({i, k, std::min(k + kPieceEntries, ptr[i + 1])});
            begin = i + 1;
        }
    }

  private:
    static i64 next_long(const i64* ptr, i64 i, i64 m) {
        while (i < m && ptr[i + 1] - ptr[i] <= kPieceEntries) ++i;
        return i;
    }
};

/// Minimum number of entries per partial sum, so that adding up the partial sums costs little.
constexpr i64 kEntriesPerSum = 32;

/// A part of one block of rows, with a partial sum of its own.
struct Group {
    i64 block;
    Range rows;
};

}  // namespace bmrm
