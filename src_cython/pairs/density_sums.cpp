#include "pairs/density_sums.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

namespace bmrm {

namespace {

/// A factor that covers the rounding of squared distances, of boxes and of pairs, in up to 10,000 axes.
constexpr double kBelow = 1.0 - 1e-11;

/// Exponents above this need no look at kLeastExponent.
constexpr double kNearExponent = -590.0;

double exponent(const Smoothing& smoothing, double square, double offset) {
    return smoothing.shape == Shape::gaussian
               ? endless_exponent<Shape::gaussian>(square, smoothing, offset)
               : endless_exponent<Shape::exponential>(square, smoothing, offset);
}

/// At least the term of every pair whose squared distance is at least `square`.
double largest_term(const Smoothing& smoothing, double square, double offset) {
    if (square >= smoothing.end) return 0.0;
    if (!is_endless(smoothing.shape)) return 1.0;
    return std::min(1.0, std::exp(exponent(smoothing, square, offset)) * (1.0 + 1e-12));
}

/// The least and the largest of some numbers.
std::pair<double, double> range_of(const double* x, i64 count) {
    const auto [low, high] = std::minmax_element(x, x + count);
    return {*low, *high};
}

}  // namespace

/// Points x next to each other, and their box.
struct DensitySums::Group {
    const double* x;
    i64 stride, first, count;
    const double *low, *high;
};

DensitySums::DensitySums(const double* y, i64 m, int axes, const double* weights, bool light)
    : tiles_((m + kDensityTile - 1) / kDensityTile),
      axes_(axes),
      weighted_(std::any_of(weights, weights + m, [](double weight) { return weight != 1.0; })),
      y_(axes * padded()),
      weights_(padded()),
      low_(tiles_ * axes),
      high_(tiles_ * axes),
      tile_weights_(tiles_) {
    for (i64 k = 0; k < axes; ++k) {
        double* const to = std::copy_n(y + k * m, m, y_.get() + k * padded());
        std::fill(to, y_.get() + (k + 1) * padded(), std::numeric_limits<double>::infinity());
    }
    std::fill(std::copy_n(weights, m, weights_.get()), weights_.get() + padded(), 0.0);
    for (i64 t = 0; t < tiles_; ++t) {
        const i64 first = t * kDensityTile;
        for (i64 k = 0; k < axes; ++k)
            std::tie(low_[t * axes + k], high_[t * axes + k]) =
                range_of(y_.get() + k * padded() + first, std::min<i64>(kDensityTile, m - first));
        for (i64 j = 0; j < kDensityTile; ++j) tile_weights_[t] += weights_[first + j];
    }
    if (!light) return;
    light_ = Buffer<float>(axes * padded());
    light_weights_ = Buffer<float>(padded());
    std::copy_n(y_.get(), light_.size(), light_.get());
    std::copy_n(weights_.get(), padded(), light_weights_.get());
}

template <class Use>
void DensitySums::for_groups(const double* x, i64 n, int threads, const Use& use) const {
    const i64 groups = (n + kDensityGroup - 1) / kDensityGroup;
    std::vector<double> low(groups * axes_), high(groups * axes_);
    for_each_task(groups, threads, [&](i64 g) {
        const i64 first = g * kDensityGroup, count = std::min(kDensityGroup, n - first);
        double *const from = low.data() + g * axes_, *const to = high.data() + g * axes_;
        for (i64 k = 0; k < axes_; ++k) std::tie(from[k], to[k]) = range_of(x + k * n + first, count);
        use(Group{x + first, n, first, count, from, to});
    });
}

double DensitySums::least_square(const Group& group, i64 tile) const {
    double square = 0.0;
    for (i64 k = 0; k < axes_; ++k) {
        const double below = low_[tile * axes_ + k] - group.high[k];
        const double above = group.low[k] - high_[tile * axes_ + k];
        const double apart = std::max({below, above, 0.0});
        square += apart * apart;
    }
    return square * kBelow;
}

double DensitySums::largest_square(const Group& group, i64 tile) const {
    double square = y_[(tile + 1) * kDensityTile - 1];  // infinite if the tile is not full
    square = std::isinf(square) ? square : 0.0;
    for (i64 k = 0; k < axes_; ++k) {
        const double apart =
            std::max(high_[tile * axes_ + k] - group.low[k], group.high[k] - low_[tile * axes_ + k]);
        square += apart * apart;
    }
    return square / kBelow;
}

/// Calls add(tile) for the tiles that may change a sum: in their order, or with a tolerance the nearest
/// first, until all that are left together are within it for each sum.
template <class Add>
void DensitySums::add_tiles(const Group& group, const Smoothing& smoothing, double offset, double tolerance,
                            const double* sums, double* cuts, const Add& add) const {
    std::fill_n(cuts, group.count, 0.0);
    if (!(tolerance > 0.0)) {
        for (i64 t = 0; t < tiles_; ++t)
            if (least_square(group, t) < smoothing.end) add(t);
        return;
    }
    std::vector<std::pair<double, i64>> near(tiles_);
    for (i64 t = 0; t < tiles_; ++t) near[t] = {least_square(group, t), t};
    std::sort(near.begin(), near.end());
    std::vector<double> left(tiles_ + 1);
    for (i64 i = tiles_ - 1; i >= 0; --i)
        left[i] =
            left[i + 1] + tile_weights_[near[i].second] * largest_term(smoothing, near[i].first, offset);
    for (i64 i = 0; i < tiles_; ++i) {
        // Sums of positive terms only grow: one that is too small now may be large enough later.
        if (left[i] <= tolerance * *std::min_element(sums, sums + group.count)) {
            std::fill_n(cuts, group.count, left[i]);
            return;
        }
        add(near[i].second);
    }
}

void DensitySums::nearest(const double* x, i64 n, int threads, double* squares) const {
    const DensityKernels& kernels = density_kernels();
    for_groups(x, n, threads, [&](const Group& group) {
        double* const least = squares + group.first;
        std::fill_n(least, group.count, std::numeric_limits<double>::infinity());
        std::vector<std::pair<double, i64>> near(tiles_);
        for (i64 t = 0; t < tiles_; ++t) near[t] = {least_square(group, t), t};
        std::sort(near.begin(), near.end());
        for (const auto& [square, t] : near) {
            if (square > *std::max_element(least, least + group.count)) return;
            kernels.nearest(
                {group.x, y_.get() + t * kDensityTile, nullptr, group.stride, padded(), group.count, axes_},
                least);
        }
    });
}

void DensitySums::sums(const double* x, i64 n, const Smoothing& smoothing, const double* offsets,
                       double tolerance, int threads, double* sums, double* inside, double* cuts) const {
    const DensityKernels& kernels = density_kernels();
    const bool gaussian = smoothing.shape == Shape::gaussian;
    const auto& endless = gaussian ? kernels.gaussian[weighted_] : kernels.exponential[weighted_];
    const auto bounded = kernels.bounded[static_cast<int>(smoothing.shape)];
    std::fill_n(sums, n, 0.0);
    std::fill_n(inside, n, 0.0);
    for_groups(x, n, threads, [&](const Group& group) {
        double zeros[kDensityGroup] = {};
        const double* const own = offsets ? offsets + group.first : zeros;
        const auto [least, largest] = range_of(own, group.count);
        add_tiles(group, smoothing, largest, tolerance, sums + group.first, cuts + group.first, [&](i64 t) {
            const DensityBlock<double> block{group.x,
                                             y_.get() + t * kDensityTile,
                                             weights_.get() + t * kDensityTile,
                                             group.stride,
                                             padded(),
                                             group.count,
                                             axes_};
            if (bounded) return bounded(block, smoothing, sums + group.first, inside + group.first);
            const bool far = !(exponent(smoothing, largest_square(group, t), least) > kNearExponent);
            endless[far](block, smoothing, own, sums + group.first);
        });
    });
}

void DensitySums::light_sums(const double* x, i64 n, const Smoothing& smoothing, float scale, float most,
                             double tolerance, int threads, double* sums, double* moments,
                             double* cuts) const {
    const auto& add = density_kernels().light[weighted_];
    std::fill_n(sums, n, 0.0);
    std::fill_n(moments, n, 0.0);
    for_groups(x, n, threads, [&](const Group& group) {
        std::vector<float> own(axes_ * group.count);
        for (i64 k = 0; k < axes_; ++k)
            std::copy_n(group.x + k * n, group.count, own.data() + k * group.count);
        add_tiles(group, smoothing, 0.0, tolerance, sums + group.first, cuts + group.first, [&](i64 t) {
            add[!(largest_square(group, t) < most)](
                {own.data(), light_.get() + t * kDensityTile, light_weights_.get() + t * kDensityTile,
                 group.count, padded(), group.count, axes_},
                scale, most, sums + group.first, moments + group.first);
        });
    });
}

}  // namespace bmrm
