// How work is split into tasks. No split depends on the number of threads, so no sum does: results are the
// same bit for bit for any number of threads.
#pragma once

#include <algorithm>
#include <vector>

#include "common/memory.h"
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

/// Maximum share of the groups of eight short rows that may be too unlike in length for one loop. Above it,
/// each tile is visited by length.
constexpr double kMaxUnlikeGroups = 0.1;

/// The rows of each tile, counted from its first, by length within windows of so many rows: those of up to
/// kShortRow entries, then the others. Empty if the lengths of neighbours are alike, or if few rows are
/// short.
inline Buffer<std::uint16_t> order_by_length(const i64* ptr, i64 m, i64 window, const RowTiles& tiles) {
    const auto class_of = [&](i64 i) { return std::min(ptr[i + 1] - ptr[i], kShortRow + 1); };
    i64 unlike = 0, groups = 0, shorter = 0;
    for (i64 i = 0; i + 8 <= m; i += 8) {
        i64 longest = 0, total = ptr[i + 8] - ptr[i];
        for (i64 l = i; l < i + 8; ++l) {
            longest = std::max(longest, ptr[l + 1] - ptr[l]);
            shorter += class_of(l) <= kShortRow;
        }
        unlike += total > 0 && longest * 8 > total + total / 4 + 8;
        ++groups;
    }
    if (static_cast<double>(unlike) <= kMaxUnlikeGroups * static_cast<double>(groups)) return {};
    if (4 * shorter < 8 * groups) return {};
    Buffer<std::uint16_t> order(m);
    for (const Range tile : tiles.tiles) {
        if (tile.end - tile.begin > (1 << 16)) return {};
        for (i64 first = tile.begin; first < tile.end; first += window) {
            const i64 last = std::min(tile.end, first + window);
            i64 place[kShortRow + 3] = {};
            for (i64 i = first; i < last; ++i) ++place[class_of(i) + 1];
            for (i64 c = 1; c < kShortRow + 3; ++c) place[c] += place[c - 1];
            for (i64 i = first; i < last; ++i)
                order[first + place[class_of(i)]++] = static_cast<std::uint16_t>(i - tile.begin);
        }
    }
    return order;
}

/// Minimum number of entries per partial sum, so that adding up the partial sums costs little.
constexpr i64 kEntriesPerSum = 32;

/// A part of one block of rows, with a partial sum of its own.
struct Group {
    i64 block;
    Range rows;
};

}  // namespace bmrm
