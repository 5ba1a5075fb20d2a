#include "manifold/scaling.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace bmrm {

Pairs::Pairs(i64 n, const void* features, int bytes, i64 m, const PairValues& weights, int threads)
    : n_(n),
      m_(m),
      delta_{nullptr, 8, true},
      weights_(weights),
      missing_(false),
      weighted_(weights.values != nullptr),
      threads_(threads),
      panels_((n + kScalingPanel - 1) / kScalingPanel * kScalingPanel * m) {
    const i64 panels = (n + kScalingPanel - 1) / kScalingPanel;
    with_value_type(bytes, [&](auto type) {
        const auto* values = static_cast<const decltype(type)*>(features);
        for_each_task(panels, threads_for(n * m, threads_), [&](i64 panel) {
            double* to = panels_.get() + panel * kScalingPanel * m_;
            for (i64 l = 0; l < kScalingPanel; ++l) {
                const i64 i = std::min(panel * kScalingPanel + l, n_ - 1);
                for (i64 f = 0; f < m_; ++f)
                    to[f * kScalingPanel + l] = static_cast<double>(values[i * m_ + f]);
            }
        });
    });
}

PairCounts Pairs::descent(const double* X, i64 p, double* H) const {
    const Buffer<double> places = planar(X, p);
    const i64 size = stride() * p;
    const PairParts parts(n_, size);
    Buffer<double> all(parts.count() * size), total(size);
    std::vector<PairCounts> counts(parts.count());
    const ScalingKernels& kernels = scaling_kernels();
    for_each_task(parts.count(), threads_for(n_ * n_ * p, threads_), [&](i64 t) {
        double* sums = all.get() + t * size;
        std::fill_n(sums, size, 0.0);
        Buffer<double> scratch(kPairRows * p * kernels.lanes), row_sums(kPairRows * p);
        PairCounts found{};
        for_rows(kernels, kPairRows, parts.begin(t), parts.end(t),
                 [&](int rows, bool weighted, const Block& b) {
                     std::fill_n(row_sums.get(), rows * p, 0.0);
                     const bool together = kernels.descent[rows - 1][known_axes(p)][weighted](
                         X + b.i * p, places.get() + b.j, stride(), p, b.count, b.delta, b.weights,
                         sums + b.j, row_sums.get(), scratch.get(), &found.stress, &found.squares);
                     for (int r = 0; r < rows; ++r)
                         for (i64 k = 0; k < p; ++k) sums[k * stride() + b.i + r] += row_sums[r * p + k];
                     if (together)
                         for (int r = 0; r < rows; ++r) part_points(X, p, b, r, sums, found);
                 });
        counts[t] = found;
    });
    add_parts(all, parts.count(), size, total.get(), threads_);
    for (i64 i = 0; i < n_; ++i)
        for (i64 k = 0; k < p; ++k) H[i * p + k] = total[k * stride() + i];
    PairCounts found{};
    for (const PairCounts& one : counts) {
        found.stress += one.stress;
        found.squares += one.squares;
        found.together += one.together;
    }
    return found;
}

void Pairs::laplacian(const double* Y, i64 T, double* out) const {
    single_rows(Y, T, T, out,
                [&](const ScalingKernels& kernels, const Row& row, const double* Y_planar, double* H,
                    double* row_sums, double*) {
                    kernels.differences(row.own, Y_planar + row.j, stride(), T, row.count, row.weights,
                                        H + row.j, row_sums);
                });
}

void Pairs::pulls(const double* X, i64 p, double* out) const {
    single_rows(X, p, 1, out,
                [&](const ScalingKernels&, const Row& row, const double* places, double* H, double* row_sums,
                    double*) {
                    for (i64 l = 0; l < row.valid; ++l) {
                        double square = 0.0;
                        for (i64 k = 0; k < p; ++k) {
                            const double u = row.own[k] - places[k * stride() + row.j + l];
                            square += u * u;
                        }
                        if (square < kLeastSquare) continue;
                        const double pull = row.weights[l] * row.delta[l] / std::sqrt(square);
                        row_sums[0] += pull;
                        H[row.j + l] += pull;
                    }
                });
}

void Pairs::squared(const double* Y, i64 T, double unknown, double* out) const {
    single_rows(Y, T, T, out,
                [&](const ScalingKernels& kernels, const Row& row, const double* Y_planar, double* H,
                    double* row_sums, double*) {
                    alignas(64) double filled[kSegment];
                    const double* delta = row.delta;
                    if (missing_) {
                        for (i64 l = 0; l < row.count; ++l)
                            filled[l] = row.weights[l] == 0.0 && l < row.valid ? unknown : row.delta[l];
                        delta = filled;
                    }
                    kernels.squared(row.own, Y_planar + row.j, stride(), T, row.count, delta, H + row.j,
                                    row_sums);
                });
}

void Pairs::curvature(const double* X, i64 p, const double* Y, i64 T, double* out) const {
    const Buffer<double> places = planar(X, p);
    Buffer<double> joined(n_ * T * p);
    for (i64 t = 0; t < T; ++t)
        for (i64 i = 0; i < n_; ++i) std::copy_n(Y + (t * n_ + i) * p, p, joined.get() + (i * T + t) * p);
    Buffer<double> found(n_ * T * p);
    single_rows(joined.get(), T * p, T * p, found.get(),
                [&](const ScalingKernels& kernels, const Row& row, const double* Y_planar, double* H,
                    double* row_sums, double* scratch) {
                    kernels.curvature(X + row.i * p, places.get() + row.j, stride(), p, row.own,
                                      Y_planar + row.j, T, row.count, row.delta, row.weights, H + row.j,
                                      row_sums, scratch);
                });
    for (i64 t = 0; t < T; ++t)
        for (i64 i = 0; i < n_; ++i) std::copy_n(found.get() + (i * T + t) * p, p, out + (t * n_ + i) * p);
}

void Pairs::summary(double* degrees, double* weighted_squares, double* squares, i64* known) const {
    const i64 size = n_ + 3;
    const PairParts parts(n_, size);
    Buffer<double> all(parts.count() * size), total(size);
    std::fill_n(all.get(), parts.count() * size, 0.0);
    const ScalingKernels& kernels = scaling_kernels();
    for_each_task(parts.count(), threads_for(n_ * n_ / 2, threads_), [&](i64 t) {
        double* sums = all.get() + t * size;
        for_rows(kernels, 1, parts.begin(t), parts.end(t), [&](int, bool, const Block& b) {
            for (i64 l = 0; l < b.valid; ++l) {
                const double w = b.weights[0] ? b.weights[0][l] : 1.0, value = b.delta[0][l];
                sums[b.i] += w;
                sums[b.j + l] += w;
                sums[n_] += w * value * value;
                const bool counts = !missing_ || w > 0.0 || value > 0.0;
                sums[n_ + 1] += value * value;
                sums[n_ + 2] += counts ? 1.0 : 0.0;
            }
        });
    });
    add_parts(all, parts.count(), size, total.get(), threads_);
    std::copy_n(total.get(), n_, degrees);
    *weighted_squares = total[n_];
    *squares = total[n_ + 1];
    *known = static_cast<i64>(total[n_ + 2]);
}

void Pairs::distances(const double* X, i64 p, double* out) const {
    const Buffer<double> places = planar(X, p);
    const PairParts parts(n_, 1);
    const ScalingKernels& kernels = scaling_kernels();
    for_each_task(parts.count(), threads_for(n_ * n_ / 2 * p, threads_), [&](i64 t) {
        alignas(64) double rest[kScalingPad];
        for (i64 i = parts.begin(t); i < parts.end(t); ++i) {
            const i64 count = n_ - 1 - i, whole = count / kernels.lanes * kernels.lanes;
            double* to = out + PairValues{nullptr, 8, false}.begin(i, n_);
            const double* from = places.get() + i + 1;
            kernels.distances(X + i * p, from, stride(), p, whole, to);
            if (whole < count) {
                kernels.distances(X + i * p, from + whole, stride(), p, kernels.lanes, rest);
                std::copy_n(rest, count - whole, to + whole);
            }
        }
    });
}

PairDefect Pairs::inspect(i64 n, const PairValues& given, bool nan_allowed, double diagonal, double tolerance,
                          int threads, double* largest, bool* missing) {
    constexpr i64 kTile = 64;
    const i64 tiles = (n + kTile - 1) / kTile;
    std::vector<PairDefect> found(tiles);
    std::vector<double> most(tiles);
    std::vector<char> nan(tiles);
    with_value_type(given.bytes, [&](auto type) {
        const auto* values = static_cast<const decltype(type)*>(given.values);
        for_each_task(tiles, threads_for(n * n, threads), [&](i64 t) {
            PairDefect defect{};
            const auto note = [&](int kind, i64 i, i64 j, double a, double b) {
                if (!defect.kind || i < defect.row || (i == defect.row && j < defect.column))
                    defect = {kind, i, j, a, b};
            };
            const i64 end = std::min(n, (t + 1) * kTile);
            for (i64 base = t * kTile; base < n; base += kTile)
                for (i64 i = t * kTile; i < end; ++i) {
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
                for (i64 i = t * kTile; i < end; ++i) {
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

void Pairs::place(const double* X, i64 p, const double* delta, i64 count, double* Z, double* stress,
                  i64 max_iter) const {
    constexpr double kRelaxed = 1.5;      // of a step, at most 2 (Borg and Groenen, section 8.2)
    constexpr double kLeastMove = 1e-12;  // relative to the distances
    const Buffer<double> places = planar(X, p);
    const i64 padded = (n_ + 7) / 8 * 8;
    const ScalingKernels& kernels = scaling_kernels();
    for_each_task(count, threads_for(count * n_ * p * 20, threads_), [&](i64 q) {
        Buffer<double> known(padded), weights(padded), scratch(p * kernels.lanes), h(p);
        std::fill_n(known.get() + n_, padded - n_, 0.0);
        std::fill_n(weights.get() + n_, padded - n_, 0.0);
        kernels.clean(delta + q * n_, static_cast<const double*>(nullptr), n_, known.get(), weights.get());
        double weight = 0.0;
        for (i64 j = 0; j < n_; ++j) weight += weights[j];
        double* z = Z + q * p;
        const double *own_delta = known.get(), *own_weights = weights.get();
        double squares = 0.0;
        for (i64 step = 0; step <= max_iter; ++step) {
            stress[q] = squares = 0.0;
            std::fill_n(h.get(), p, 0.0);
            const bool together = kernels.own_descent[known_axes(p)](
                z, places.get(), stride(), p, padded, &own_delta, &own_weights, nullptr, h.get(),
                scratch.get(), &stress[q], &squares);
            if (together)
                for (i64 j = 0; j < n_; ++j)
                    if (known[j] > 0.0 && at_one_place(z, X + j * p, p)) h[parting_axis(q, j, p)] += known[j];
            double move = 0.0;
            for (i64 k = 0; k < p; ++k) move += h[k] * h[k];
            if (step == max_iter || weight == 0.0 ||
                std::sqrt(move) <= kLeastMove * std::sqrt(weight * squares))
                break;
            for (i64 k = 0; k < p; ++k) z[k] += kRelaxed * h[k] / weight;
        }
    });
}

Buffer<double> Pairs::planar(const double* X, i64 p) const {
    Buffer<double> out(stride() * p);
    for (i64 k = 0; k < p; ++k) {
        for (i64 i = 0; i < n_; ++i) out[k * stride() + i] = X[i * p + k];
        std::fill_n(out.get() + k * stride() + n_, kScalingPad, 0.0);
    }
    return out;
}

void Pairs::fetch(const ScalingKernels& kernels, int rows, i64 i, i64 j, i64 end, Staging& staging,
                  const double** delta, const double** weights) const {
    const i64 count = end - j, base = j / kSegment * kSegment;
    if (m_ >= 0) {
        double* out[kPairRows];
        for (i64 from = j / kScalingPanel * kScalingPanel; from < end; from += kScalingPanel) {
            for (int r = 0; r < rows; ++r) out[r] = staging.delta[r] + (from - base);
            kernels.panel_distances[rows - 1](staging.features.get(), panels_.get() + from * m_, m_, out);
        }
        for (int r = 0; r < rows; ++r) delta[r] = staging.delta[r] + (j - base);
    }
    for (int r = 0; r < rows; ++r) {
        const i64 at = delta_.begin(i + r, n_) + j - (i + r) - 1;
        const i64 at_weight = weights_.begin(i + r, n_) + j - (i + r) - 1;
        weights[r] = nullptr;
        if (m_ < 0 && !missing_) {
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

void Pairs::take_features(i64 i, int rows, Staging& staging) const {
    if (m_ < 0) return;
    for (int r = 0; r < rows; ++r) {
        const double* from =
            panels_.get() + (i + r) / kScalingPanel * kScalingPanel * m_ + (i + r) % kScalingPanel;
        for (i64 f = 0; f < m_; ++f) staging.features[r * m_ + f] = from[f * kScalingPanel];
    }
}

template <class Use>
void Pairs::for_rows(const ScalingKernels& kernels, int together, i64 begin, i64 end, const Use& use) const {
    Staging staging;
    if (m_ >= 0) staging.features = Buffer<double>(std::max<i64>(1, kPairRows * m_));
    const auto columns = [&](int rows, i64 i, i64 from, i64 to) {
        take_features(i, rows, staging);
        for (i64 j = from; j < to;) {
            const i64 last = std::min(to, (j / kSegment + 1) * kSegment), count = last - j;
            const i64 whole = count / kernels.lanes * kernels.lanes;
            Block block{i, j, whole, whole, {}, {}};
            fetch(kernels, rows, i, j, last, staging, block.delta, block.weights);
            if (whole) use(rows, weighted_, block);
            if (whole < count) {
                Block tail{i, j + whole, kernels.lanes, count - whole, {}, {}};
                for (int r = 0; r < rows; ++r) {
                    for (i64 l = 0; l < kernels.lanes; ++l) {
                        const bool valid = whole + l < count;
                        staging.rest[r][l] = valid ? block.delta[r][whole + l] : 0.0;
                        staging.rest_weights[r][l] = !valid      ? 0.0
                                                     : weighted_ ? block.weights[r][whole + l]
                                                                 : 1.0;
                    }
                    tail.delta[r] = staging.rest[r];
                    tail.weights[r] = staging.rest_weights[r];
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

bool Pairs::at_one_place(const double* a, const double* b, i64 p) {
    double square = 0.0;
    for (i64 k = 0; k < p; ++k) square += (a[k] - b[k]) * (a[k] - b[k]);
    return square < kLeastSquare;
}

void Pairs::part_points(const double* X, i64 p, const Block& b, int r, double* sums,
                        PairCounts& found) const {
    const i64 i = b.i + r;
    for (i64 l = 0; l < b.valid; ++l) {
        const double pull = (b.weights[r] ? b.weights[r][l] : 1.0) * b.delta[r][l];
        if (!(pull > 0.0) || !at_one_place(X + i * p, X + (b.j + l) * p, p)) continue;
        ++found.together;
        const i64 axis = parting_axis(i, b.j + l, p);
        sums[axis * stride() + i] += pull;
        sums[axis * stride() + b.j + l] -= pull;
    }
}

template <class Use>
void Pairs::single_rows(const double* Y, i64 T, i64 added, double* out, const Use& use) const {
    const Buffer<double> numbers = planar(Y, T);
    const i64 size = stride() * added;
    const PairParts parts(n_, size);
    Buffer<double> all(parts.count() * size), total(size);
    const std::vector<double> ones(kSegment, 1.0);
    const ScalingKernels& kernels = scaling_kernels();
    for_each_task(parts.count(), threads_for(n_ * n_ / 2 * T, threads_), [&](i64 t) {
        double* sums = all.get() + t * size;
        std::fill_n(sums, size, 0.0);
        Buffer<double> scratch(added * kernels.lanes), row_sums(added);
        for_rows(kernels, 1, parts.begin(t), parts.end(t), [&](int, bool, const Block& b) {
            std::fill_n(row_sums.get(), added, 0.0);
            const Row row{b.i,        b.j,        b.count,
                          b.valid,    b.delta[0], b.weights[0] ? b.weights[0] : ones.data(),
                          Y + b.i * T};
            use(kernels, row, numbers.get(), sums, row_sums.get(), scratch.get());
            for (i64 k = 0; k < added; ++k) sums[k * stride() + b.i] += row_sums[k];
        });
    });
    add_parts(all, parts.count(), size, total.get(), threads_);
    for (i64 i = 0; i < n_; ++i)
        for (i64 k = 0; k < added; ++k) out[i * added + k] = total[k * stride() + i];
}

}  // namespace bmrm
