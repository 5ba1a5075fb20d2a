// Two vector kernels for the small dense algebra of the inner QP.  Sums run over eight fixed lanes, so a
// compiler may use SIMD without reordering: the result does not depend on the instruction set's width.
#pragma once
#include <cstddef>

#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__clang__)
#define BMRM_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define BMRM_CLONES
#endif

namespace bmrm {

BMRM_CLONES static double dot(const size_t n, const double* x, const double* y) {
    double lane[8] = {0.0};
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (size_t k = 0; k < 8; ++k) lane[k] += x[i + k] * y[i + k];
    for (size_t k = 0; i + k < n; ++k) lane[k] += x[i + k] * y[i + k];
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

// y += c x
BMRM_CLONES static void axpy(const size_t n, const double c, const double* x, double* y) {
    for (size_t i = 0; i < n; ++i) y[i] += c * x[i];
}

}  // namespace bmrm
