#include "manifold/scaling.h"

#include <algorithm>
#include <cmath>

namespace bmrm {

namespace {

/// Squared distances below this count as 0.
template <class Real>
constexpr Real least_square() {
    return std::is_same_v<Real, float> ? static_cast<Real>(kLeastFloatSquare)
                                       : static_cast<Real>(kLeastSquare);
}

template <class Real>
bool at_one_place(const Real* a, const Real* b, i64 p) {
    Real square = 0;
    for (i64 k = 0; k < p; ++k) square += (a[k] - b[k]) * (a[k] - b[k]);
    return square < least_square<Real>();
}

}  // namespace

template <class Real>
void Pairs::descent(const double* X, i64 p, double* parts) const {
    Buffer<Real> own(n_ * p);
    std::copy_n(X, n_ * p, own.get());
    const Buffer<Real> places = planar(own.get(), p);
    const i64 size = stride() * p;
    const ScalingKernels& kernels = scaling_kernels();
    for_parts(size, size + kPartTotals, n_ * n_ * p, parts, [&](i64 begin, i64 end, double* sums) {
        Buffer<double> scratch(kPairRows * p * kernels.lanes), row_sums(kPairRows * p);
        double* totals = sums + size;
        for_rows<Real>(kernels, kPairRows, begin, end, [&](int rows, bool weighted, const Block<Real>& b) {
            std::fill_n(row_sums.get(), rows * p, 0.0);
            const bool together = kernels.descents<Real>().of[rows - 1][known_axes(p)][weighted](
                own.get() + b.i * p, places.get() + b.j, stride(), p, b.count, b.delta, b.weights, sums + b.j,
                row_sums.get(), scratch.get(), &totals[0], &totals[1]);
            for (int r = 0; r < rows; ++r)
                for (i64 k = 0; k < p; ++k) sums[k * stride() + b.i + r] += row_sums[r * p + k];
            if (together)
                for (int r = 0; r < rows; ++r) part_points(own.get(), p, b, r, sums, totals);
        });
    });
}

template void Pairs::descent<float>(const double*, i64, double*) const;
template void Pairs::descent<double>(const double*, i64, double*) const;

void Pairs::laplacian(const double* Y, i64 T, double* parts) const {
    single_rows(Y, T, T, parts,
                [&](const ScalingKernels& kernels, const Row& row, const double* Y_planar, double* H,
                    double* row_sums, double*) {
                    kernels.differences(row.own, Y_planar + row.j, stride(), T, row.count, row.weights,
                                        H + row.j, row_sums);
                });
}

void Pairs::pulls(const double* X, i64 p, double* parts) const {
    single_rows(X, p, 1, parts,
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

void Pairs::squared(const double* Y, i64 T, double unknown, double* parts) const {
    single_rows(Y, T, T, parts,
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

void Pairs::curvature(const double* X, i64 p, const double* Y, i64 T, double* parts) const {
    const Buffer<double> places = planar(X, p);
    single_rows(Y, T * p, T * p, parts,
                [&](const ScalingKernels& kernels, const Row& row, const double* Y_planar, double* H,
                    double* row_sums, double* scratch) {
                    kernels.curvature(X + row.i * p, places.get() + row.j, stride(), p, row.own,
                                      Y_planar + row.j, T, row.count, row.delta, row.weights, H + row.j,
                                      row_sums, scratch);
                });
}

void Pairs::summary(double* parts) const {
    const i64 size = n_ + kPartTotals;
    const ScalingKernels& kernels = scaling_kernels();
    for_parts(size, size, n_ * n_ / 2, parts, [&](i64 begin, i64 end, double* sums) {
        for_rows<double>(kernels, 1, begin, end, [&](int, bool, const Block<double>& b) {
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

template <class Real>
Buffer<Real> Pairs::planar(const Real* X, i64 p) const {
    Buffer<Real> out(stride() * p);
    for (i64 k = 0; k < p; ++k) {
        for (i64 i = 0; i < n_; ++i) out[k * stride() + i] = X[i * p + k];
        std::fill_n(out.get() + k * stride() + n_, kPairPad, Real{0});
    }
    return out;
}

template <class Use>
void Pairs::for_parts(i64 sums, i64 size, i64 work, double* parts, const Use& use) const {
    const PairParts all(n_, sums);
    const i64 first = first_part(all.count(), rank_), last = first_part(all.count(), rank_ + 1);
    for_each_task(last - first, threads_for(work, threads_), [&](i64 t) {
        std::fill_n(parts + t * size, size, 0.0);
        use(all.begin(first + t), all.end(first + t), parts + t * size);
    });
}

template <class Real>
void Pairs::part_points(const Real* X, i64 p, const Block<Real>& b, int r, double* sums,
                        double* totals) const {
    const i64 i = b.i + r;
    for (i64 l = 0; l < b.valid; ++l) {
        const double pull = (b.weights[r] ? b.weights[r][l] : 1.0) * static_cast<double>(b.delta[r][l]);
        if (!(pull > 0.0) || !at_one_place(X + i * p, X + (b.j + l) * p, p)) continue;
        totals[2] += 1.0;
        const i64 axis = parting_axis(i, b.j + l, p);
        sums[axis * stride() + i] += pull;
        sums[axis * stride() + b.j + l] -= pull;
    }
}

template <class Use>
void Pairs::single_rows(const double* Y, i64 T, i64 added, double* parts, const Use& use) const {
    const Buffer<double> numbers = planar(Y, T);
    const i64 size = stride() * added;
    const std::vector<double> ones(kSegment, 1.0);
    const ScalingKernels& kernels = scaling_kernels();
    for_parts(size, size, n_ * n_ / 2 * T, parts, [&](i64 begin, i64 end, double* sums) {
        Buffer<double> scratch(added * kernels.lanes), row_sums(added);
        for_rows<double>(kernels, 1, begin, end, [&](int, bool, const Block<double>& b) {
            std::fill_n(row_sums.get(), added, 0.0);
            const Row row{b.i,        b.j,        b.count,
                          b.valid,    b.delta[0], b.weights[0] ? b.weights[0] : ones.data(),
                          Y + b.i * T};
            use(kernels, row, numbers.get(), sums, row_sums.get(), scratch.get());
            for (i64 k = 0; k < added; ++k) sums[k * stride() + b.i] += row_sums[k];
        });
    });
}

}  // namespace bmrm
