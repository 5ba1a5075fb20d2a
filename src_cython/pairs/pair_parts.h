// Rows of the upper triangle of all pairs, in parts of about the same number of pairs.
#pragma once

#include <algorithm>
#include <vector>

#include "parts/parts.h"

namespace bmrm {

/// Rows that are processed together.
constexpr int kPairRows = 2;
/// Maximum number of parts of a pass.
constexpr i64 kMaxPairParts = 64;
/// Minimum number of pairs of a part, so that adding up the parts costs little.
constexpr i64 kMinPartPairs = i64{1} << 16;

/// Rows split by their number alone into parts of about the same number of pairs; each begins at a multiple
/// of kPairRows.
struct PairParts {
    std::vector<i64> ends;

    PairParts(i64 n, i64 sums) {
        const i64 pairs = n * (n - 1) / 2;
        const i64 count = std::max<i64>(
            1, std::min({pairs / kMinPartPairs, kMaxPairParts, kMaxPartSums / std::max<i64>(1, sums)}));
        i64 done = 0, row = 0;
        for (i64 p = 1; p <= count; ++p) {
            while (row < n && (p == count || done < pairs / count * p)) {
                for (int r = 0; r < kPairRows && row < n; ++r, ++row) done += n - 1 - row;
            }
            ends.push_back(row);
        }
    }
    i64 count() const { return static_cast<i64>(ends.size()); }
    i64 begin(i64 p) const { return p ? ends[p - 1] : 0; }
    i64 end(i64 p) const { return ends[p]; }
};

}  // namespace bmrm
