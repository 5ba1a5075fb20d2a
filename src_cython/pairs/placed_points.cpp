#include "pairs/placed_points.h"

#include <limits>

namespace bmrm {

PlacedPoints::PlacedPoints(const double* coordinates, i64 n, int axes, const double* box, const i64* order)
    : n_(n), box_(box, box + axes), values_(axes * (n + kPointPad)) {
    for (int k = 0; k < axes; ++k) {
        const double* from = coordinates + k * n;
        double* to = values_.get() + k * stride();
        for (i64 i = 0; i < n; ++i) to[i] = from[order ? order[i] : i];
        std::fill_n(to + n, kPointPad, std::numeric_limits<double>::quiet_NaN());
    }
}

std::pair<double, double> PlacedPoints::range(int k, i64 first, i64 last) const {
    const auto found = std::minmax_element(axis(k) + first, axis(k) + last);
    return {*found.first, *found.second};
}

}  // namespace bmrm
