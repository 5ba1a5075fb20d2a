#include "manifold/scaling.h"

#include <algorithm>
#include <cmath>

namespace bmrm {

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
        alignas(64) double rest[kPairPad];
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
        std::fill_n(out.get() + k * stride() + n_, kPairPad, 0.0);
    }
    return out;
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
