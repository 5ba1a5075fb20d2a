#include "pairs/placed_points.h"

#include <limits>

#include "common/team.h"

namespace bmrm {

PlacedPoints::PlacedPoints(const double* coordinates, i64 n, int axes, const double* box, const i64* order)
    : PlacedPoints(n, std::vector<double>(box, box + axes)) {
    copy(coordinates, n, order, 1);
}

PlacedPoints PlacedPoints::by_rows(const double* rows, i64 n, int axes, const double* box) {
    constexpr i64 kTogether = 64;  // rows that stay in the first cache
    PlacedPoints points(n, std::vector<double>(box, box + axes));
    for (i64 first = 0; first < n; first += kTogether)
        for (int k = 0; k < axes; ++k) {
            double* const to = points.values_.get() + k * points.stride();
            for (i64 i = first; i < std::min(first + kTogether, n); ++i) to[i] = rows[i * axes + k];
        }
    points.end_axes();
    return points;
}

PlacedPoints PlacedPoints::in_order(const i64* order, int threads) const {
    PlacedPoints sorted(n_, box_);
    sorted.copy(values_.get(), stride(), order, threads);
    return sorted;
}

void PlacedPoints::copy(const double* from, i64 stride, const i64* order, int threads) {
    constexpr i64 kPiece = i64{1} << 14;
    const i64 pieces = (n_ + kPiece - 1) / kPiece;
    for_each_task(axes() * pieces, threads, [&](i64 task) {
        const i64 k = task / pieces, first = task % pieces * kPiece;
        const double* const x = from + k * stride;
        double* const to = values_.get() + k * this->stride();
        for (i64 i = first, end = std::min(first + kPiece, n_); i < end; ++i) to[i] = x[order ? order[i] : i];
    });
    end_axes();
}

void PlacedPoints::end_axes() {
    for (int k = 0; k < axes(); ++k)
        std::fill_n(values_.get() + k * stride() + n_, kPointPad, std::numeric_limits<double>::quiet_NaN());
}

std::pair<double, double> PlacedPoints::range(int k, i64 first, i64 last) const {
    constexpr int kChains = 8;  // the compiler makes them registers
    const double* x = axis(k);
    double low[kChains], high[kChains];
    for (int c = 0; c < kChains; ++c) low[c] = high[c] = x[first];
    i64 i = first;
    for (; i + kChains <= last; i += kChains)
        for (int c = 0; c < kChains; ++c) {
            low[c] = std::min(low[c], x[i + c]);
            high[c] = std::max(high[c], x[i + c]);
        }
    for (; i < last; ++i) {
        low[0] = std::min(low[0], x[i]);
        high[0] = std::max(high[0], x[i]);
    }
    return {*std::min_element(low, low + kChains), *std::max_element(high, high + kChains)};
}

}  // namespace bmrm
