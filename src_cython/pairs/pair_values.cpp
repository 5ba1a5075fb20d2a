#include "pairs/pair_values.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace bmrm {

PairDefect inspect_pairs(i64 n, i64 begin, i64 stop, const PairValues& given, bool nan_allowed,
                         double diagonal, double tolerance, int threads, double* largest, bool* missing) {
    constexpr i64 kTile = kInspectedRows;
    const i64 tiles = (stop - begin + kTile - 1) / kTile;
    std::vector<PairDefect> found(tiles);
    std::vector<double> most(tiles);
    std::vector<char> nan(tiles);
    with_value_type(given.bytes, [&](auto type) {
        const auto* values = static_cast<const decltype(type)*>(given.values);
        for_each_task(tiles, threads_for((stop - begin) * n, threads), [&](i64 t) {
            PairDefect defect{};
            const auto note = [&](int kind, i64 i, i64 j, double a, double b) {
                if (!defect.kind || i < defect.row || (i == defect.row && j < defect.column))
                    defect = {kind, i, j, a, b};
            };
            const i64 own = begin + t * kTile, end = std::min(stop, own + kTile);
            for (i64 base = own; base < n; base += kTile)
                for (i64 i = own; i < end; ++i) {
                    const i64 first = std::max(i + 1, base), last = std::min(n, base + kTile);
                    const i64 at = given.begin(i, n) - i - 1;
                    for (i64 j = first; j < last; ++j) {
                        const double a = static_cast<double>(values[at + j]);
                        most[t] = a > most[t] ? a : most[t];
                        if (a < 0.0) note(1, i, j, a, a);
                        if (a == std::numeric_limits<double>::infinity()) note(2, i, j, a, a);
                        if (a != a) {
                            nan[t] = 1;
                            if (!nan_allowed) note(5, i, j, a, a);
                        }
                        if (given.square) {
                            const double b = static_cast<double>(values[j * n + i]);
                            const bool same = a == b || (a != a && b != b);
                            if (!same && !(std::fabs(a - b) <= tolerance)) note(3, i, j, a, b);
                        }
                    }
                }
            if (given.square && diagonal >= 0.0)
                for (i64 i = own; i < end; ++i) {
                    const double a = static_cast<double>(values[i * n + i]);
                    if (!(std::fabs(a) <= diagonal)) note(4, i, i, a, a);
                }
            found[t] = defect;
        });
    });
    *largest = 0.0;
    *missing = false;
    PairDefect first{};
    for (i64 t = 0; t < tiles; ++t) {
        *largest = std::max(*largest, most[t]);
        *missing |= nan[t] != 0;
        if (!first.kind) first = found[t];
    }
    return first;
}

}  // namespace bmrm
