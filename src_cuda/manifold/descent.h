// The pass of each step of multidimensional scaling.
#pragma once
#include "manifold/device_scaling.h"
#include "manifold/kernels/scaling_terms.cuh"

template <bool WEIGHTED, class Real>
const double* bb_scaling::descend(int p, const double* X, double* direction) {
    const double* found = nullptr;
    with_source([&](const auto& source) {
        bmrm::with_axes<2, 3, 4, 8, 16>(p, [&](auto axes) {
            using Adds = std::conditional_t<WEIGHTED, double, Real>;
            using Term = bmrm::DescentTerm<decltype(axes)::value, Real, Adds>;
            Term term;
            term.points = {X, p};
            found = run<Term, WEIGHTED>(source, weights(), term, p, direction);
        });
    });
    return found;
}
