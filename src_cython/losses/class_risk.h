// The empirical risk of losses in K margins per row, one per class, on the CPU.
//
// The passes are those of risk.h: the slope along a line of margins, and a cut. z, dz and r have K numbers
// per row, one row after the other. Chunks hold about as many margins as those of risk.h. Their bounds depend
// only on K and on the blocks, so results are bit-identical for any number of threads.
//
// Sources: Crammer, Singer, JMLR 2 (2001) 265 (winner takes all); Tsochantaridis, Joachims, Hofmann, Altun,
// JMLR 6 (2005) 1453 (its costs as a margin to rescale); Elisseeff, Weston, NIPS 14 (2001) 681 (separation of
// labels).
#pragma once
#include "losses/risk.h"

namespace bmrm {

struct ClassRows {
    const double* z;
    const double* dz;
    const int32_t* y;          // the class of each row, 0 to K - 1
    const double* labels;      // separation only: -1 or +1 per row and label
    const double* costs;       // K x K: cost of a class instead of the row's; null for 1 if they differ
    const double* unit_costs;  // 2 K ones except a zero at K: row y of the unit costs begins at K - y
    const double* s;           // weights, or null for equal ones
    double* r;                 // cut only: out, the derivatives
    int64_t K;
    double t;
    double scale;  // 1 / sum of weights
};

using ClassKernel = void (*)(const ClassRows&, int64_t, int64_t, double*);

struct ClassKernels {
    ClassKernel slope, cut;
};

void class_slope(int loss, const ClassRows& rows, int64_t m, int threads, double* sums);

void class_cut(int loss, const ClassRows& rows, const int64_t* starts, int64_t blocks, int threads,
               double* sums);

}  // namespace bmrm
