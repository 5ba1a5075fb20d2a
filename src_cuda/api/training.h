// The C interface of a solve on a device: the risk of a loss over the rows of a resident matrix, the vectors
// of its iterations and its cutting planes, all of which stay there.  The host sees a few numbers a call.
//
// The outer loop is the solver's; what is here are its steps.  A *line* is the margins z of a point and the
// direction dz from them to another's.  Weights and sums are float64; margins, derivatives and the gradients
// of cuts are of the matrix's type.  Calls return once the numbers that they give are there, those that
// give none at once; all work is queued on the stream of the matrix.
#pragma once
#include "api/ranks.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bb_problem bb_problem;

typedef enum { BB_WEIGHTS = 0, BB_MARGINS = 1 } bb_vector;

// What a search along a line is to find: the minimum of t -> p t + q t^2 / 2 + R(z + t dz) on 0 <= t <=
// longest, to within `accuracy`.  The cut number `cut`, if that is not negative, will most likely be asked
// for at step + min(farthest, reach * step): it is made ahead, without another wait.
typedef struct {
    double p, q, first, longest, accuracy, farthest, reach;
    int64_t cut;
} bb_search_request;

typedef struct {
    double step, risk;  // where it ended, and the risk there
    int32_t passes;     // over the rows
} bb_search_answer;

// Newton's point: the minimum of lam/2 |v|^2 + <g, v - w> + (v - w)' X' S X (v - w) / 2, S the second
// derivatives of the risk at the margins of w and an intercept, g the sum of `cuts` cuts from number `cut`
// on, by at most `steps` steps of conjugate gradients, or until the slope is `forcing` of what it was.
typedef struct {
    double lam, intercept, forcing;
    int64_t cut;
    int32_t cuts, steps;
    int32_t profile;             // the risk is that minimised over the intercept
    const double* mean_squares;  // of the columns, on the host: what the steps are scaled by
} bb_newton_request;

#define BB_PYTHON_LOSS (-1)
// loss: position in BMRM_LOSSES, or BB_PYTHON_LOSS where the caller evaluates it (python_loss.h); weights may
// be NULL; constant: value of one more feature, 0 for none. in_rows: what follows as weights and cuts is in
// the space of rows (bmrm/row_space.py): coefficients of rows and of the start, then products with them, each
// as many numbers as there are rows and one, filled up to a multiple of 4.  One cut a pass.
BB_API bb_status bb_problem_create(bb_matrix* matrix, int32_t loss, double parameter, double scale,
                                   const double* labels, const double* weights, double constant,
                                   int32_t in_rows, bb_problem** out);
BB_API void bb_problem_destroy(bb_problem* problem);
// The rows are one rank's of several: from now on every number and every gradient is that of all their rows,
// and the same on each of them.  Blocks of rows may be empty here.  nccl may be NULL; both stay the caller's.
BB_API bb_status bb_problem_share(bb_problem* problem, const bb_ranks* ranks, bb_nccl* nccl);
// Searches, slopes, derivatives, cuts and Newton's points are from now on those of the risk with its kinks
// rounded over a width (rounded.h), of the risk itself for 0; what the risk is told to be is always that.
BB_API bb_status bb_round_kinks(bb_problem* problem, double width);
// Seconds of the products so far that an answer has shown to be complete.
BB_API double bb_problem_product_seconds(bb_problem* problem);
BB_API int64_t bb_problem_products(bb_problem* problem);  // products so far, with X or with X'

// --- vectors, which are kept for the next who asks when they are given back
BB_API bb_status bb_vector_take(bb_problem* problem, bb_vector kind, void** out);
BB_API void bb_vector_give(bb_problem* problem, bb_vector kind, void* vector);
// Takes weights of all columns in, 0 where source is NULL, and gives them out.  In the space of rows they are
// taken in where a solve starts: points are combinations of rows and of these.
BB_API bb_status bb_weights_set(bb_problem* problem, void* w, const double* source);
BB_API bb_status bb_weights_get(bb_problem* problem, const void* w, double* target);
BB_API bb_status bb_margins_get(bb_problem* problem, const void* z, double* target);
// target = w + t (end - w)
BB_API bb_status bb_weights_between(bb_problem* problem, const void* w, const void* end, double t,
                                    void* target);

// --- the risk
BB_API bb_status bb_margins(bb_problem* problem, const void* w, void* z);  // z = X w
// In the space of rows: the same from new products, also those in w, and |w|^2.
BB_API bb_status bb_renew(bb_problem* problem, void* w, void* z, double* square);
// z = X (scale w), from a product of its own, which rounds elsewhere than that of w.
BB_API bb_status bb_rescaled(bb_problem* problem, const void* w, double scale, void* z);
BB_API bb_status bb_direction(bb_problem* problem, const void* z, void* end);  // end = end - z
// end: margins of the line's far end w_end, replaced by the direction; moved = z + step dz.
BB_API bb_status bb_search(bb_problem* problem, const void* z, void* end, void* moved, const void* w,
                           const void* w_end, const bb_search_request* request, bb_search_answer* answer);
// Derivatives of R(z + t dz + b) in t and in b.
BB_API bb_status bb_slope(bb_problem* problem, const void* z, const void* dz, double t, double b,
                          double slopes[2]);
// moved = z + t dz, and the risk at moved + b; dz may be NULL for t = 0, and moved where nobody needs it.
BB_API bb_status bb_risk_at(bb_problem* problem, const void* z, const void* dz, double t, double b,
                            void* moved, double* risk);
// Keeps the rows' derivatives at z + t dz + b as the `which`-th of two; sums: risk and sum of derivatives.
BB_API bb_status bb_derivatives(bb_problem* problem, const void* z, const void* dz, double t, double b,
                                int32_t which, double sums[2]);
// The first derivatives become these, on the host, for a cut of the blocks of rows from starts[k] to
// starts[k + 1].
BB_API bb_status bb_set_derivatives(bb_problem* problem, const double* r, const int64_t* starts,
                                    int32_t blocks);
// The first derivatives become share times themselves plus 1 - share times the second ones.
BB_API bb_status bb_mix_derivatives(bb_problem* problem, double share);

// --- cutting planes, by number; the first `size` are in use
BB_API bb_status bb_cuts_reserve(bb_problem* problem, int64_t capacity);
// Makes the gradients of the blocks of rows at z + t dz, the margins of w + t (end - w), cuts number size to
// size + blocks - 1; without z, those of the first derivatives as they are.  dots: (blocks, size + blocks +
// 1), products of each new gradient with all cuts and with the weights; sums: (blocks, 2), risk and sum of
// derivatives of each block, which nobody knows without z.
BB_API bb_status bb_cut(bb_problem* problem, int64_t size, const int64_t* starts, int32_t blocks,
                        const void* z, const void* dz, const void* w, const void* end, double t, double* sums,
                        double* dots);
// w = factor sum_k weights[k] cut[k], and z = X w, by a product that is queued or, in the space of rows, from
// the cuts; sums: |w|^2, from . (w - from),
// |w - from|^2.
BB_API bb_status bb_cuts_combine(bb_problem* problem, int64_t count, const double* weights, double factor,
                                 const void* from, void* w, void* z, double sums[3]);
// to = Newton's point near w, with margins z there; to_margins = X to, by a product that is queued.  sums as
// bb_cuts_combine has them; steps: what it took, 0 where there is no such point.  For a smooth loss or
// rounded kinks, and weights of columns.
BB_API bb_status bb_newton_point(bb_problem* problem, const void* w, const void* z,
                                 const bb_newton_request* request, void* to, void* to_margins, double sums[3],
                                 int32_t* steps);
// Ascent in the dual, for a loss with a simple conjugate, no constant and all rows here: begins at the first
// derivatives, or at 0.
BB_API bb_status bb_ascent_begin(bb_problem* problem, int32_t from_derivatives);
// Goes up by so many steps of a product with X' and one with X, and leaves the first derivatives there, for a
// cut.  conjugate: the sum over the rows of the conjugates of their losses at these.
BB_API bb_status bb_ascent_climb(bb_problem* problem, double lam, int32_t steps, double* conjugate);
BB_API bb_status bb_cuts_move(bb_problem* problem, int64_t to, int64_t from);
// cut[i] = share cut[i] + (1 - share) cut[j]
BB_API bb_status bb_cuts_merge(bb_problem* problem, int64_t i, int64_t j, double share);
BB_API bb_status bb_cuts_get(bb_problem* problem, int64_t first, int64_t count, double* target);
BB_API bb_status bb_cuts_set(bb_problem* problem, int64_t first, int64_t count, const double* source);

#ifdef __cplusplus
}
#endif
