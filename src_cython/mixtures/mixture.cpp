#include "mixtures/mixture.h"

#include <algorithm>

#include "parts/parts.h"

namespace bmrm {
namespace {

/// Calls use(kernels, first row, rows, packed rows, shares, log sums, scratch) for each panel of a part of
/// the rows.
template <class Use>
void for_mixture_panels(const Mixture& m, const Parts& parts, int threads, const Use& use) {
    const MixtureKernels& kernels = mixture_kernels();
    for_each_task(parts.count, threads_for(m.n * m.k * m.root_size(), threads), [&](i64 p) {
        Buffer<double> x(m.d * kMixtureRows), e(m.d * kMixtureRows), q(m.k * kMixtureRows);
        double log_sum[kMixtureRows];
        for (i64 base = parts.begin(p); base < parts.end(p); base += kMixtureRows) {
            m.pack(base, x.get());
            for (i64 j = 0; j < m.k; ++j)
                kernels.log_density(x.get(), m.d, m.component(j), e.get(), q.get() + j * kMixtureRows);
            kernels.shares(q.get(), m.k, log_sum);
            use(kernels, p, base, std::min(kMixtureRows, m.n - base), x.get(), q.get(), log_sum, e.get());
        }
    });
}

}  // namespace

void mixture_step(const Mixture& m, double* sums, double* parts_out, int threads) {
    const i64 size = mixture_sums(m.k, m.d, m.full);
    const Parts parts(m.n, size, m.total);
    Buffer<double> own(parts_out ? 0 : parts.count * size);
    double* all = parts_out ? parts_out : own.get();
    std::fill_n(all, parts.count * size, 0.0);
    for_mixture_panels(m, parts, threads,
                       [&](const MixtureKernels& kernels, i64 p, i64 base, i64 rows, const double* x,
                           double* q, const double* log_sum, double* e) {
                           double* part = all + p * size;
                           double row_weights[kMixtureRows] = {};
                           double likelihood = 0.0;
                           for (i64 l = 0; l < rows; ++l) {
                               row_weights[l] = m.weights ? m.weights[base + l] : 1.0;
                               likelihood += row_weights[l] * log_sum[l];
                           }
                           part[size - 1] += likelihood;
                           for (i64 j = 0; j < m.k; ++j) {
                               double* share = q + j * kMixtureRows;
                               for (i64 l = 0; l < kMixtureRows; ++l) share[l] *= row_weights[l];
                               kernels.add_moments(x, m.d, m.component(j), share, e, part + j * m.moments());
                           }
                       });
    if (!parts_out) accumulate_parts(all, parts.count, size, size, sums, threads);
}

void mixture_shares(const Mixture& m, double* log_densities, double* shares, int threads) {
    for_mixture_panels(m, Parts(m.n, 1, m.total), threads,
                       [&](const MixtureKernels&, i64, i64 base, i64 rows, const double*, double* q,
                           const double* log_sum, double*) {
                           for (i64 l = 0; l < rows; ++l) {
                               log_densities[base + l] = log_sum[l];
                               for (i64 j = 0; j < m.k; ++j)
                                   shares[(base + l) * m.k + j] = q[j * kMixtureRows + l];
                           }
                       });
}

}  // namespace bmrm
