// An EM step of a mixture of normal distributions in one pass, without a matrix of n x k shares.
//
// Rows are processed in panels, one row per lane. For each row the shares of the components are computed from
// logarithms, less the largest; then sums of w r, w r (x - m) and w r (x - m)(x - m)' are added per
// component, r being the share and m the mean that the step started from. Moments about m keep their digits
// if the data are far from 0; about 0 they would cancel. All is in float64. Each part of the rows has sums of
// its own (parts/parts.h).
//
// A. P. Dempster, N. M. Laird and D. B. Rubin, Maximum likelihood from incomplete data via the EM algorithm,
// J. Royal Statistical Society B 39 (1977).
#pragma once

#include <algorithm>
#include <cmath>

#include "common/integers.h"
#include "cpu/isa.h"

namespace bmrm {

/// Rows of a panel.
constexpr i64 kMixtureRows = 64;

/// A component: log density at x is constant - |root (x - mean)|^2 / 2. `root` is lower triangular (d x d) or
/// a diagonal (d).
struct MixtureComponent {
    const double* mean;
    const double* root;
    double constant;
    bool full;
};

/// A mixture and its rows.
struct Mixture {
    const void* X;
    int value_bytes;
    const double* weights;  // of rows, or null
    i64 n, d, k, total;     // total: rows of all ranks and blocks
    const double *means, *roots, *constants;
    bool full;

    i64 root_size() const { return full ? d * d : d; }
    MixtureComponent component(i64 j) const {
        return {means + j * d, roots + j * root_size(), constants[j], full};
    }
    /// Numbers of a component's sums: the weight, d first moments and the second moments.
    i64 moments() const { return 1 + d + root_size(); }
    void pack(i64 base, double* x) const {
        const i64 rows = std::min(kMixtureRows, n - base);
        for (i64 l = 0; l < kMixtureRows; ++l) {
            const i64 i = base + std::min(l, rows - 1);
            if (value_bytes == 4)
                for (i64 f = 0; f < d; ++f)
                    x[f * kMixtureRows + l] = static_cast<double>(static_cast<const float*>(X)[i * d + f]);
            else
                for (i64 f = 0; f < d; ++f)
                    x[f * kMixtureRows + l] = static_cast<const double*>(X)[i * d + f];
        }
    }
};

/// Numbers of the sums of all components, k x moments, and the weighted sum of the rows' log likelihoods.
inline i64 mixture_sums(i64 k, i64 d, bool full) { return k * (1 + d + (full ? d * d : d)) + 1; }

/// The passes of mixture_kernels.cpp.
struct MixtureKernels {
    void (*step)(const Mixture& m, double* sums, double* parts_out, int threads);
    void (*shares)(const Mixture& m, double* log_densities, double* shares, int threads);
};

BMRM_TABLES(MixtureKernels, mixture_kernels)

/// Adds the sums of all parts to `sums`; or leaves those of each in `parts_out`, if that is not null.
inline void mixture_step(const Mixture& m, double* sums, double* parts_out, int threads) {
    mixture_kernels().step(m, sums, parts_out, threads);
}

/// For each row the logarithm of its density and the shares of the components, n x k.
inline void mixture_shares(const Mixture& m, double* log_densities, double* shares, int threads) {
    mixture_kernels().shares(m, log_densities, shares, threads);
}

}  // namespace bmrm
