// The pass of each step of multidimensional scaling if all pairs count the same, and the product with V of a
// weighted step.
#include "reductions/descent.h"

using namespace bmrm;

template const double* bb_scaling::descend<false>(int, const double*, double*);

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
