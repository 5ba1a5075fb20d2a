// Blocks of pairs as the kernels of count_kernels.h get them.
#pragma once

#include "cpu/isa.h"
#include "pairs/decision.h"
#include "pairs/placed_points.h"
#include "pairs/tally.h"

namespace bmrm {

/// Points begin to end.
struct PointRange {
    i64 begin, end;

    i64 size() const { return end - begin; }
};

/// What decides a pair in float64.
struct ExactPairs {
    const PlacedPoints &a, &b;

    double squared(i64 i, i64 j) const {
        return squared_distance(a.axis(0) + i, a.stride(), b.axis(0) + j, b.stride(), a.box(), a.axes());
    }
};

/// Scaled coordinates in float32 by axis, relative to a point near the rows. Three axes if there are fewer.
struct ScaledPoints {
    const float* at;
    i64 stride, count;
};

struct PairBlock {
    ScaledPoints rows, columns;  // followed by points at kNowhere, as many as the kernels touch
    int axes;                    // 3 or more
    const float* sides;          // periodic: scaled lengths, infinite if open; null if no pair wraps
    BinScale scale;
    const ExactPairs* exact;
};

/// All pairs of rows first_row + i and columns first_column + j of a block; of one set, those with a column
/// after the row.
struct BruteBlock : PairBlock {
    i64 first_row, first_column;
    bool one_set;
};

/// Pairs of rows first_row + i and columns whose points are `ids`; of one set, columns from i + 1 - skipped
/// on.
struct CellBlock : PairBlock {
    i64 first_row;
    const i64* ids;
    i64 skipped;
    bool one_set;
};

/// Maximum numbers of rows and columns of a block.
constexpr i64 kBlockRows = 256, kBlockColumns = 1024;
/// Points at kNowhere after rows and columns.
constexpr i64 kBlockPad = 16;

struct CountKernels {
    /// Coordinates of an axis relative to a centre, the nearest images if period > 0, times a unit, in
    /// float32: those of some ranges of points, one after the other. Returns the largest size before scaling.
    /// Reads and writes up to kBlockPad more.
    double (*scale)(const double* x, const PointRange* ranges, i64 count, double centre, double period,
                    double unit, float* out);
    void (*brute[kTableKinds])(const BruteBlock& block, Tally& tally);
    void (*cells[kTableKinds])(const CellBlock& block, Tally& tally);
};

BMRM_TABLES(CountKernels, count_kernels)

}  // namespace bmrm
