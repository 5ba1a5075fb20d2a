// One number per pair of points, as users pass them, and what may be wrong with such numbers.
#pragma once

#include "common/memory.h"

namespace bmrm {

/// Calls use(type) with float or double by the number of bytes of a value.
template <class Use>
void with_value_type(int bytes, const Use& use) {
    if (bytes == 4)
        use(float{});
    else
        use(double{});
}

/// One number per pair: a square matrix, of which the upper triangle counts, or that triangle row by row.
struct PairValues {
    const void* values;
    int bytes;  // 4 or 8
    bool square;

    /// The place of pair (i, i + 1); those of the other columns follow.
    i64 begin(i64 i, i64 n) const { return square ? i * n + i + 1 : i * (2 * n - i - 1) / 2; }
};

/// What `inspect_pairs` finds in a square matrix or its triangle.
struct PairDefect {
    int kind;  // 0: none; 1: negative; 2: infinite; 3: not symmetric; 4: diagonal; 5: NaN
    i64 row, column;
    double value, other;
};

/// Looks for what makes dissimilarities or weights invalid; `tolerance` bounds |a_ij - a_ji|, and `diagonal`
/// numbers on the diagonal, which are not looked at if it is negative. Writes the largest value, and whether
/// some are NaN. Of a square matrix or triangle it looks at the pairs of rows `first` to before `last` with
/// later ones; `first` is a multiple of kInspectedRows.
constexpr i64 kInspectedRows = 64;
PairDefect inspect_pairs(i64 n, i64 first, i64 last, const PairValues& given, bool nan_allowed,
                         double diagonal, double tolerance, int threads, double* largest, bool* missing);

}  // namespace bmrm
