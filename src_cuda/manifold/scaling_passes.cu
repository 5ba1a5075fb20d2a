// Passes of multidimensional scaling that are not part of a step.
#include "manifold/device_scaling.h"
#include "manifold/kernels/scaling_terms.cuh"

using namespace bmrm;

void bb_scaling::squared(int p, const double* Y, double unknown, double* to) {
    using Term = SquaredTerm<BB_SCALING_SQUARED>;
    if (p < 1 || p > BB_SCALING_SQUARED) throw Failure(BB_INVALID, "p: expected 1 to 8 numbers of a point");
    Term term;
    term.points = {Y, p};
    const PairWeights none{PairTable{}, missing(), unknown};
    with_source([&](const auto& source) { run<Term, true>(source, none, term, p, to); });
}

void bb_scaling::pulls(int p, const double* X, double* to) {
    with_source([&](const auto& source) {
        with_axes<2, 4, 8, 16>(p, [&](auto axes) {
            using Term = PullTerm<decltype(axes)::value>;
            Term term;
            term.points = {X, p};
            run<Term, true>(source, weights(), term, 1, to);
        });
    });
}

void bb_scaling::curvature(int p, const double* X, const double* direction, double* to) {
    with_source([&](const auto& source) {
        with_axes<2, 4, 8, 16>(p, [&](auto axes) {
            using Term = CurvatureTerm<decltype(axes)::value>;
            Term term;
            term.points = {X, p};
            term.direction = {direction, p};
            run<Term, true>(source, weights(), term, p, to);
        });
    });
}

const double* bb_scaling::summary(double* degrees) {
    const double* found = nullptr;
    with_source([&](const auto& source) {
        found = run<SummaryTerm, true>(source, weights(), SummaryTerm{}, 1, degrees);
    });
    return found;
}
