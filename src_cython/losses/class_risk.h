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

#pragma GCC diagnostic ignored "-Wpsabi"  // vectors are passed only between inlined functions

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

// Number of rows per chunk.
inline int64_t class_chunk(const int64_t K) { return 8192 / K > 16 ? 8192 / K : 16; }
// Minimum number of chunks that pays for a team of threads.
constexpr int64_t class_chunks_per_team = 8;

inline void class_slope(const int loss, const ClassRows& rows, const int64_t m, const int threads,
                        double* sums) {
    const int64_t starts[2] = {0, m};
    for_blocks(class_kernels_for(loss).slope, rows, starts, 1, threads, sums, class_chunk(rows.K),
               class_chunks_per_team);
    sums[0] *= rows.scale;
}

inline void class_cut(const int loss, const ClassRows& rows, const int64_t* starts, const int64_t blocks,
                      const int threads, double* sums) {
    for_blocks(class_kernels_for(loss).cut, rows, starts, blocks, threads, sums, class_chunk(rows.K),
               class_chunks_per_team);
}

}  // namespace bmrm
