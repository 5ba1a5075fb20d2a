// The risk of losses in K margins per row with an intercept per class, softened so that it is smooth.
//
// The intercepts are minimised out by Newton's method, for which the risk must bend. A loss that is the
// largest of some lines is softened to width * log sum exp(line / width), at most width * log(lines) above
// it. The derivatives are shares of the lines. Any shares that are at least 0 and add up to 1 make a plane
// that bounds the loss as it is from below: its level is their mean of the lines. So a plane may come from
// shares that are moved a little, as far as their sums over all rows need (`move`), and stays exact. The
// softmax loss is its own softened form of width 1.
//
// Rows are split into parts that depend only on their number and on K. So results are bit-identical for any
// number of threads.
//
// Source of the softened maximum: Nesterov, Math. Programming 103 (2005) 127, section 4.
#pragma once
#include "losses/class_risk.h"

namespace bmrm {

enum SoftKind { soft_kind_classes, soft_kind_labels, soft_kind_separation };

struct SoftRows {
    const double* z;
    const double* dz;
    const int32_t* y;          // the class of each row, 0 to K - 1; null for labels and separation
    const double* labels;      // -1 or +1 per row and label; null for classes
    const double* costs;       // as in ClassRows
    const double* unit_costs;  // likewise
    const double* s;           // weights, or null for equal ones
    const double* b;           // the intercepts, K
    const double* move;        // how far shares are moved, as by these changes of b, K; or null
    double* r;                 // out, the derivatives; or null
    int64_t K;
    double t;
    double scale;  // 1 / sum of weights
    double width;
    bool entropy;  // the loss is that softened over 1: the level is that of the softened loss
    bool hessian;  // add up second derivatives in the intercepts
};

using SoftKernel = void (*)(const SoftRows&, int64_t, int64_t, double*);

#define BMRM_LANES 2
namespace baseline {
#include "losses/soft_kernels.inl"
}
#undef BMRM_LANES

#ifdef BMRM_X86_LEVELS
#pragma GCC push_options
#pragma GCC target("arch=x86-64-v3")
#define BMRM_LANES 4
namespace level3 {
#include "losses/soft_kernels.inl"
}
#undef BMRM_LANES
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("arch=x86-64-v4,prefer-vector-width=512")
#define BMRM_LANES 8
namespace level4 {
#include "losses/soft_kernels.inl"
}
#undef BMRM_LANES
#pragma GCC pop_options
#endif

inline SoftKernel soft_kernel_for(const SoftKind kind) {
#ifdef BMRM_X86_LEVELS
    if (level() == 4) return level4::soft_kernels[kind];
    if (level() == 3) return level3::soft_kernels[kind];
#endif
    return baseline::soft_kernels[kind];
}

constexpr int64_t soft_chunk = 256;  // rows whose sums are added up before they are added to others
constexpr int64_t soft_parts = 64;   // maximum number of parts of the rows
constexpr int64_t soft_numbers =
    1 << 21;  // maximum number of sums that all parts may have, if there are several

// Numbers that a pass adds up: level, slope along the line, K sums and perhaps K x K second derivatives.
inline int64_t soft_width(const SoftRows& rows) { return 2 + rows.K + (rows.hessian ? rows.K * rows.K : 0); }

// Adds up all rows; `sums` has `soft_width` numbers.
inline void soft_pass(const SoftKind kind, const SoftRows& rows, const int64_t m, const int threads,
                      double* sums) {
    const SoftKernel kernel = soft_kernel_for(kind);
    const int64_t width = soft_width(rows), chunks = (m + soft_chunk - 1) / soft_chunk;
    int64_t parts = soft_numbers / width;
    if (parts > soft_parts) parts = soft_parts;
    if (parts > chunks) parts = chunks;
    if (parts < 1) parts = 1;
    std::vector<double> found(size_t(parts * width), 0.0), scratch(size_t(parts * width));
    const int team = m * rows.K < worth_a_team * chunk_rows ? 1 : threads;
    for_each_task(parts, team, [&](const int64_t part) {
        double *total = &found[size_t(part * width)], *here = &scratch[size_t(part * width)];
        for (int64_t c = chunks * part / parts; c < chunks * (part + 1) / parts; ++c) {
            for (int64_t k = 0; k < width; ++k) here[k] = 0.0;
            const int64_t from = c * soft_chunk, to = from + soft_chunk < m ? from + soft_chunk : m;
            kernel(rows, from, to, here);
            for (int64_t k = 0; k < width; ++k) total[k] += here[k];
        }
    });
    for (int64_t k = 0; k < width; ++k) sums[k] = 0.0;
    for (int64_t part = 0; part < parts; ++part)
        for (int64_t k = 0; k < width; ++k) sums[k] += found[size_t(part * width + k)];
    if (!rows.hessian) return;
    double* hessian = sums + 2 + rows.K;
    for (int64_t c = 0; c < rows.K; ++c)
        for (int64_t k = 0; k < c; ++k) hessian[k * rows.K + c] = hessian[c * rows.K + k];
}

}  // namespace bmrm
