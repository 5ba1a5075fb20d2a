// The product with V of a weighted step of multidimensional scaling.
#include "manifold/device_scaling.h"
#include "manifold/kernels/scaling_terms.cuh"

using namespace bmrm;

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
