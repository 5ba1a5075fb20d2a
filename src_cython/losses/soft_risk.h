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

// Numbers that a pass adds up: level, slope along the line, K sums and perhaps K x K second derivatives.
inline int64_t soft_width(const SoftRows& rows) { return 2 + rows.K + (rows.hessian ? rows.K * rows.K : 0); }

// Adds up all rows; `sums` has `soft_width` numbers.
void soft_pass(SoftKind kind, const SoftRows& rows, int64_t m, int threads, double* sums);

}  // namespace bmrm
