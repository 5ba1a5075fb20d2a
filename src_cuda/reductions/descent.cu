// The pass of each step of multidimensional scaling, and the product with V of a weighted step.
#include "reductions/device_pairs.h"
#include "reductions/kernels/scaling_terms.cuh"

using namespace bmrm;

const double* bb_scaling::descent(int p, const double* X, double* direction) {
    const double* found = nullptr;
    with_source([&](const auto& source) {
        with_axes<2, 3, 4, 8, 16>(p, [&](auto axes) {
            using Term = DescentTerm<decltype(axes)::value>;
            Term term;
            term.points = {X, p};
            found = weighted() ? run<Term, true>(source, weights(), term, p, direction)
                               : run<Term, false>(source, weights(), term, p, direction);
        });
    });
    return found;
}

void bb_scaling::laplacian(int p, const double* Y, double* to) {
    const auto multiply = [&](const auto& source) {
        with_axes<2, 4, 8, 16>(p, [&](auto axes) {
            using Term = LaplacianTerm<decltype(axes)::value>;
            Term term;
            term.points = {Y, p};
            run<Term, true>(source, weights(), term, p, to);
        });
    };
    if (!missing())
        multiply(NoPairs{});
    else
        with_source([&](const auto& source) {
            if constexpr (!std::is_same_v<std::decay_t<decltype(source)>, FeaturePairs>) multiply(source);
        });
}
