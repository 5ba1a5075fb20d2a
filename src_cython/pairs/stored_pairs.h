// Dissimilarities and weights of all pairs of points, or features whose distances they are, read by some rows
// against a segment of columns at a time, as float64 or as float32.
//
// `Kernels` has the loops that depend on the instruction set: lanes_of, widen, narrow, clean and
// panel_distances.
#pragma once

#include <algorithm>
#include <type_traits>

#include "pairs/pair_parts.h"
#include "pairs/pair_values.h"

namespace bmrm {

/// Columns of features that are packed together.
constexpr i64 kPairPanel = 64;
/// Columns of a segment: dissimilarities of two rows stay in the first cache.
constexpr i64 kSegment = 512;
/// Numbers after the end of a planar axis that registers may touch.
constexpr i64 kPairPad = 16;

class StoredPairs {
  public:
    /// Dissimilarities given; weights may have null values: all are 1.
    StoredPairs(i64 n, const PairValues& delta, const PairValues& weights, bool missing, int threads)
        : n_(n),
          delta_(delta),
          weights_(weights),
          missing_(missing),
          weighted_(weights.values || missing),
          threads_(threads) {}

    /// Dissimilarities are the distances of n rows of m features.
    StoredPairs(i64 n, const void* features, int bytes, i64 m, const PairValues& weights, int threads);

    i64 rows() const { return n_; }
    i64 bytes() const { return panels_.bytes(); }

  protected:
    /// Some rows from i on against columns from j on: `count` of them, a multiple of the lanes, of which
    /// `valid` exist. The others have weight 0.
    template <class Real>
    struct Block {
        i64 i, j, count, valid;
        const Real* delta[kPairRows];
        const double* weights[kPairRows];
    };

    /// Buffers of a thread.
    struct Staging {
        alignas(64) double delta[kPairRows][kSegment], weights[kPairRows][kSegment];
        alignas(64) float narrow[kPairRows][kSegment];
        Buffer<double> features;
    };

    /// What is left of a segment after whole registers.
    template <class Real>
    struct Rest {
        alignas(64) Real delta[kPairRows][kPairPad];
        alignas(64) double weights[kPairRows][kPairPad];
    };

    /// Points at the dissimilarities, if they are wanted, and weights of some rows from i on, columns j to
    /// end, all of one segment.
    template <class Kernels>
    void fetch(const Kernels& kernels, int rows, i64 i, i64 j, i64 end, Staging& staging,
               const double** delta, const double** weights) const;
    template <class Kernels>
    void fetch(const Kernels& kernels, int rows, i64 i, i64 j, i64 end, Staging& staging, const float** delta,
               const double** weights) const;

    void take_features(i64 i, int rows, Staging& staging) const;

    /// Calls use(number of rows, whether weights count, block) for all pairs of rows begin to end with later
    /// rows, at most `together` rows at once. The order is fixed.
    template <class Real, class Kernels, class Use>
    void for_rows(const Kernels& kernels, int together, i64 begin, i64 end, const Use& use) const;

    i64 n_, m_ = -1;
    PairValues delta_, weights_;
    bool missing_, weighted_;
    int threads_;
    Buffer<double> panels_;
};

inline StoredPairs::StoredPairs(i64 n, const void* features, int bytes, i64 m, const PairValues& weights,
                                int threads)
    : n_(n),
      m_(m),
      delta_{nullptr, 8, true},
      weights_(weights),
      missing_(false),
      weighted_(weights.values != nullptr),
      threads_(threads),
      panels_((n + kPairPanel - 1) / kPairPanel * kPairPanel * m) {
    const i64 panels = (n + kPairPanel - 1) / kPairPanel;
    with_value_type(bytes, [&](auto type) {
        const auto* values = static_cast<const decltype(type)*>(features);
        for_each_task(panels, threads_for(n * m, threads_), [&](i64 panel) {
            double* to = panels_.get() + panel * kPairPanel * m_;
            for (i64 l = 0; l < kPairPanel; ++l) {
                const i64 i = std::min(panel * kPairPanel + l, n_ - 1);
                for (i64 f = 0; f < m_; ++f) to[f * kPairPanel + l] = static_cast<double>(values[i * m_ + f]);
            }
        });
    });
}

template <class Kernels>
void StoredPairs::fetch(const Kernels& kernels, int rows, i64 i, i64 j, i64 end, Staging& staging,
                        const double** delta, const double** weights) const {
    const i64 count = end - j, base = j / kSegment * kSegment;
    if (m_ >= 0 && delta) {
        double* out[kPairRows];
        for (i64 from = j / kPairPanel * kPairPanel; from < end; from += kPairPanel) {
            for (int r = 0; r < rows; ++r) out[r] = staging.delta[r] + (from - base);
            kernels.panel_distances[rows - 1](staging.features.get(), panels_.get() + from * m_, m_, out);
        }
        for (int r = 0; r < rows; ++r) delta[r] = staging.delta[r] + (j - base);
    }
    for (int r = 0; r < rows; ++r) {
        const i64 at = delta_.begin(i + r, n_) + j - (i + r) - 1;
        const i64 at_weight = weights_.begin(i + r, n_) + j - (i + r) - 1;
        weights[r] = nullptr;
        if (m_ < 0 && !missing_ && delta) {
            with_value_type(delta_.bytes, [&](auto type) {
                const auto* from = static_cast<const decltype(type)*>(delta_.values) + at;
                if constexpr (std::is_same_v<decltype(type), double>) {
                    delta[r] = from;
                } else {
                    kernels.widen(from, count, staging.delta[r]);
                    delta[r] = staging.delta[r];
                }
            });
        }
        if (!weighted_) continue;
        weights[r] = staging.weights[r];
        if (!missing_) {
            with_value_type(weights_.bytes, [&](auto type) {
                kernels.widen(static_cast<const decltype(type)*>(weights_.values) + at_weight, count,
                              staging.weights[r]);
            });
            continue;
        }
        delta[r] = staging.delta[r];
        with_value_type(delta_.bytes, [&](auto type) {
            with_value_type(weights_.bytes, [&](auto weight) {
                const auto* w = static_cast<const decltype(weight)*>(weights_.values);
                kernels.clean(static_cast<const decltype(type)*>(delta_.values) + at,
                              w ? w + at_weight : nullptr, count, staging.delta[r], staging.weights[r]);
            });
        });
    }
}

template <class Kernels>
void StoredPairs::fetch(const Kernels& kernels, int rows, i64 i, i64 j, i64 end, Staging& staging,
                        const float** delta, const double** weights) const {
    const bool in_place = m_ < 0 && !missing_ && delta_.bytes == 4;
    const double* wide[kPairRows];
    fetch(kernels, rows, i, j, end, staging, in_place ? nullptr : wide, weights);
    for (int r = 0; r < rows; ++r) {
        if (in_place) {
            delta[r] = static_cast<const float*>(delta_.values) + delta_.begin(i + r, n_) + j - (i + r) - 1;
        } else {
            kernels.narrow(wide[r], end - j, staging.narrow[r]);
            delta[r] = staging.narrow[r];
        }
    }
}

inline void StoredPairs::take_features(i64 i, int rows, Staging& staging) const {
    if (m_ < 0) return;
    for (int r = 0; r < rows; ++r) {
        const double* from = panels_.get() + (i + r) / kPairPanel * kPairPanel * m_ + (i + r) % kPairPanel;
        for (i64 f = 0; f < m_; ++f) staging.features[r * m_ + f] = from[f * kPairPanel];
    }
}

template <class Real, class Kernels, class Use>
void StoredPairs::for_rows(const Kernels& kernels, int together, i64 begin, i64 end, const Use& use) const {
    Staging staging;
    Rest<Real> rest;
    const i64 lanes = kernels.template lanes_of<Real>();
    if (m_ >= 0) staging.features = Buffer<double>(std::max<i64>(1, kPairRows * m_));
    const auto columns = [&](int rows, i64 i, i64 from, i64 to) {
        take_features(i, rows, staging);
        for (i64 j = from; j < to;) {
            const i64 last = std::min(to, (j / kSegment + 1) * kSegment), count = last - j;
            const i64 whole = count / lanes * lanes;
            Block<Real> block{i, j, whole, whole, {}, {}};
            fetch(kernels, rows, i, j, last, staging, block.delta, block.weights);
            if (whole) use(rows, weighted_, block);
            if (whole < count) {
                Block<Real> tail{i, j + whole, lanes, count - whole, {}, {}};
                for (int r = 0; r < rows; ++r) {
                    for (i64 l = 0; l < lanes; ++l) {
                        const bool valid = whole + l < count;
                        rest.delta[r][l] = valid ? block.delta[r][whole + l] : Real{0};
                        rest.weights[r][l] = !valid ? 0.0 : weighted_ ? block.weights[r][whole + l] : 1.0;
                    }
                    tail.delta[r] = rest.delta[r];
                    tail.weights[r] = rest.weights[r];
                }
                use(rows, true, tail);
            }
            j = last;
        }
    };
    i64 i = begin;
    if (together == 2) {
        for (; i + 1 < end; i += 2) {
            columns(1, i, i + 1, i + 2);
            columns(2, i, i + 2, n_);
        }
    }
    for (; i < end; ++i) columns(1, i, i + 1, n_);
}

}  // namespace bmrm
