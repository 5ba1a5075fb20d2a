// The empirical risk of losses that take a row's K margins together, one for each class, on the CPU.
//
// The passes are those of risk.h: the slope along a line of margins, and a cut; z, dz and r have K numbers a
// row, one row after the other.  Chunks hold about as many margins as those of risk.h, so their bounds depend
// on K and on the blocks alone, and results are bit-identical for any number of threads.
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
    const double* labels;      // separation only: -1 or +1 for each label of each row
    const double* costs;       // K x K, of the class in place of the row's; null for 1 where they differ
    const double* unit_costs;  // 2 K ones but for a zero at K: row y of such costs begins at K - y
    const double* s;           // weights, or null for equal ones
    double* r;                 // cut only: the derivatives
    int64_t K;
    double t;
    double scale;  // 1 / sum of weights
};

using ClassKernel = void (*)(const ClassRows&, int64_t, int64_t, double*);

struct ClassKernels {
    ClassKernel slope, cut;
};

#pragma GCC diagnostic ignored "-Wpsabi"  // vectors pass between inlined functions alone

#define BMRM_LANES 2
namespace baseline {
#include "losses/class_kernels.inl"
}
#undef BMRM_LANES

#ifdef BMRM_X86_LEVELS
#pragma GCC push_options
#pragma GCC target("arch=x86-64-v3")
#define BMRM_LANES 4
namespace level3 {
#include "losses/class_kernels.inl"
}
#undef BMRM_LANES
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("arch=x86-64-v4,prefer-vector-width=512")
#define BMRM_LANES 8
namespace level4 {
#include "losses/class_kernels.inl"
}
#undef BMRM_LANES
#pragma GCC pop_options
#endif

inline const ClassKernels& class_kernels_for(const int loss) {
#ifdef BMRM_X86_LEVELS
    if (level() == 4) return level4::class_kernels[loss];
    if (level() == 3) return level3::class_kernels[loss];
#endif
    return baseline::class_kernels[loss];
}

// Rows of a chunk, and the chunks that make a team of threads worth while.
inline int64_t class_chunk(const int64_t K) { return 8192 / K > 16 ? 8192 / K : 16; }
constexpr int64_t classes_worth_a_team = 8;

inline void class_slope(const int loss, const ClassRows& rows, const int64_t m, const int threads,
                        double* sums) {
    const int64_t starts[2] = {0, m};
    for_blocks(class_kernels_for(loss).slope, rows, starts, 1, threads, sums, class_chunk(rows.K),
               classes_worth_a_team);
    sums[0] *= rows.scale;
}

inline void class_cut(const int loss, const ClassRows& rows, const int64_t* starts, const int64_t blocks,
                      const int threads, double* sums) {
    for_blocks(class_kernels_for(loss).cut, rows, starts, blocks, threads, sums, class_chunk(rows.K),
               classes_worth_a_team);
}

}  // namespace bmrm
