// The C interface of a solve on a device: the risk of a loss over the rows of a resident matrix, the vectors
// of its iterations and its cutting planes, all of which stay there.  The host sees a few numbers per call.
// Failures as in blackbox.h.
//
// The outer loop is the solver's; here are its steps.  A *line* is given by the margins z of a point and the
// direction dz from them to the margins of another point.  Weights and sums are float64; margins, derivatives
// and the gradients of cuts have the matrix's type.  A call that returns numbers waits for them; the others
// return at once.  All work is queued on the stream of the matrix.
//
// z, dz, w and end are vectors of bb_vector_take.  dz may be NULL if t is 0.  b is the intercept.
#pragma once
#include "api/ranks.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bb_problem bb_problem;

typedef enum { BB_WEIGHTS = 0, BB_MARGINS = 1 } bb_vector;

// A line search: the minimum of t -> p t + q t^2 / 2 + R(z + t dz) on 0 <= t <= longest.
typedef struct {
    double p, q;             // of the quadratic term
    double first;            // the step to try first
    double longest;          // maximum step
    double accuracy;         // of the step
    double farthest, reach;  // see `cut`
    int64_t cut;             // if not negative, cut number `cut` at step + min(farthest, reach * step) is
                             // made ahead, without another wait: it will most likely be asked for
} bb_search_request;

typedef struct {
    double step;     // where the search ended
    double risk;     // there
    int32_t passes;  // over the rows
} bb_search_answer;

// Newton's point: the minimum of lam/2 |v|^2 + <g, v - w> + (v - w)' X' S X (v - w) / 2, where S has the
// second derivatives of the risk at the margins of w and an intercept, and g is a sum of cuts.
typedef struct {
    double lam;                  // strength of the l2 penalty
    double intercept;            // where S is taken
    double forcing;              // conjugate gradients stop when the slope is this share of its first value
    int64_t cut;                 // number of the first cut of g
    int32_t cuts;                // the number of cuts of g
    int32_t steps;               // maximum number of steps of conjugate gradients
    int32_t profile;             // 1: the risk is minimised over the intercept
    const double* mean_squares;  // of the columns, on the host: the preconditioner
} bb_newton_request;

#define BB_PYTHON_LOSS (-1)
// Creates a problem on a matrix.
// loss: position in BMRM_LOSSES, or BB_PYTHON_LOSS if the caller evaluates it (python_loss.h); parameter: of
// the loss; scale: factor of the risk; labels: a double per row, on the host; weights: likewise, NULL for 1;
// constant: value of one more feature, 0 for none; in_rows: 1 if the weights and cuts below are in the space
// of rows (bmrm/linear/backends/host/row_space.py): coefficients of rows and of the start, then products with
// them, each as many numbers as there are rows and one, rounded up to a multiple of 4, with one cut per pass;
// out: is set to the problem, which bb_problem_destroy frees before its matrix.
BB_API bb_status bb_problem_create(bb_matrix* matrix, int32_t loss, double parameter, double scale,
                                   const double* labels, const double* weights, double constant,
                                   int32_t in_rows, bb_problem** out);
// Sets numbers that are added to the margins: X w means X w + offsets below, wherever it is set to a vector.
// offsets: a double per row, on the host.  It precedes all calls below.
BB_API bb_status bb_problem_set_offsets(bb_problem* problem, const double* offsets);
// Frees a problem; NULL is allowed.
BB_API void bb_problem_destroy(bb_problem* problem);
// Declares that the rows are those of one rank of several: from now on every number and every gradient covers
// all their rows, and is the same on each of them.  Blocks of rows may be empty here.
// ranks: copied, but its context must outlive the problem; nccl: may be NULL, must outlive the problem.
BB_API bb_status bb_problem_share(bb_problem* problem, const bb_ranks* ranks, bb_nccl* nccl);
// Makes searches, slopes, derivatives, cuts and Newton's points use the risk with smoothed kinks (rounded.h).
// Values of the risk remain those of the risk itself.
// width: of the smoothing, 0 for none.
BB_API bb_status bb_round_kinks(bb_problem* problem, double width);
// Returns the seconds of all products that are known to be complete.
BB_API double bb_problem_product_seconds(bb_problem* problem);
// Returns the number of products so far, with X or with X'.
BB_API int64_t bb_problem_products(bb_problem* problem);

// --- vectors; those given back are kept for the next request

// Takes a vector of a kind; its values are undefined.
// out: is set to its address on the device.
BB_API bb_status bb_vector_take(bb_problem* problem, bb_vector kind, void** out);
// Gives a vector back.
BB_API void bb_vector_give(bb_problem* problem, bb_vector kind, void* vector);
// w: is set to the weights of all columns at `source`, on the host; to 0 if source is NULL.  In the space of
// rows this sets the start of a solve: points are combinations of rows and of the start.
BB_API bb_status bb_weights_set(bb_problem* problem, void* w, const double* source);
// target: on the host, is set to the weights of all columns.
BB_API bb_status bb_weights_get(bb_problem* problem, const void* w, double* target);
// target: a double per row, on the host, is set to the margins z.
BB_API bb_status bb_margins_get(bb_problem* problem, const void* z, double* target);
// target: weights, is set to w + t (end - w).
BB_API bb_status bb_weights_between(bb_problem* problem, const void* w, const void* end, double t,
                                    void* target);

// --- the risk

// z: is set to X w.
BB_API bb_status bb_margins(bb_problem* problem, const void* w, void* z);
// In the space of rows: recomputes z and the products in w from new products; square: is set to |w|^2.
BB_API bb_status bb_renew(bb_problem* problem, void* w, void* z, double* square);
// z: is set to scale X w, by a product of its own with scale w, whose rounding differs from that of X w.
BB_API bb_status bb_rescaled(bb_problem* problem, const void* w, double scale, void* z);
// end: the margins of the far end of a line, is set to the direction end - z.
BB_API bb_status bb_direction(bb_problem* problem, const void* z, void* end);
// Searches along a line.
// end: the margins of its far end w_end, replaced by the direction dz; moved: is set to z + step dz; w,
// w_end: the points; answer: is set.
BB_API bb_status bb_search(bb_problem* problem, const void* z, void* end, void* moved, const void* w,
                           const void* w_end, const bb_search_request* request, bb_search_answer* answer);
// slopes: is set to the derivatives of R(z + t dz + b) in t and in b.
BB_API bb_status bb_slope(bb_problem* problem, const void* z, const void* dz, double t, double b,
                          double slopes[2]);
// moved: is set to z + t dz unless it is NULL; risk: is set to the risk at z + t dz + b.
BB_API bb_status bb_risk_at(bb_problem* problem, const void* z, const void* dz, double t, double b,
                            void* moved, double* risk);
// Stores the derivatives of the rows at z + t dz + b.
// which: 0 or 1, the set that they are stored in; sums: is set to the risk and the sum of the derivatives.
BB_API bb_status bb_derivatives(bb_problem* problem, const void* z, const void* dz, double t, double b,
                                int32_t which, double sums[2]);
// Sets the first set of derivatives, for a cut of blocks of rows.
// r: a double per row, on the host; starts: blocks + 1 first rows, the last one past the end.
BB_API bb_status bb_set_derivatives(bb_problem* problem, const double* r, const int64_t* starts,
                                    int32_t blocks);
// Sets the first set of derivatives to share times itself plus 1 - share times the second set.
BB_API bb_status bb_mix_derivatives(bb_problem* problem, double share);

// --- cutting planes, by number

// Makes room for `capacity` cuts.
BB_API bb_status bb_cuts_reserve(bb_problem* problem, int64_t capacity);
// Makes cuts number size to size + blocks - 1: the gradients of the blocks of rows at z + t dz, the margins
// of w + t (end - w); if z is NULL, those of the first set of derivatives as it is. size: the number of cuts
// in use; starts: blocks + 1 first rows, the last one past the end; sums: (blocks, 2), is set to the risk and
// the sum of derivatives per block (undefined if z is NULL); dots: (blocks, size + blocks + 1), is set to the
// products of each new gradient with all cuts and with the weights.
BB_API bb_status bb_cut(bb_problem* problem, int64_t size, const int64_t* starts, int32_t blocks,
                        const void* z, const void* dz, const void* w, const void* end, double t, double* sums,
                        double* dots);
// Combines the first `count` cuts.
// weights: of the cuts; w: is set to factor sum_k weights[k] cut[k]; z: is set to X w, by a product that is
// queued or, in the space of rows, from the cuts; from: weights to compare with; sums: is set to |w|^2,
// from . (w - from), |w - from|^2.
BB_API bb_status bb_cuts_combine(bb_problem* problem, int64_t count, const double* weights, double factor,
                                 const void* from, void* w, void* z, double sums[3]);
// Finds Newton's point, for a smooth loss or smoothed kinks, and weights of columns.
// w, z: where it starts, and the margins there; to: is set to the point; to_margins: is set to X to, by a
// product that is queued; sums: as for bb_cuts_combine; steps: is set to the number of steps of conjugate
// gradients, 0 if there is no such point.
BB_API bb_status bb_newton_point(bb_problem* problem, const void* w, const void* z,
                                 const bb_newton_request* request, void* to, void* to_margins, double sums[3],
                                 int32_t* steps);
// Starts ascent in the dual, for a loss with a simple conjugate, no constant and all rows on this device.
// from_derivatives: 1 to start at the first set of derivatives, 0 to start at 0.
BB_API bb_status bb_ascent_begin(bb_problem* problem, int32_t from_derivatives);
// Takes steps of ascent, each a product with X' and one with X, and leaves the first set of derivatives at
// the dual point, for a cut. lam: strength of the l2 penalty; steps: the number of steps; conjugate: is set
// to the sum over the rows of the conjugates of their losses there.
BB_API bb_status bb_ascent_climb(bb_problem* problem, double lam, int32_t steps, double* conjugate);
// Copies cut number `from` to number `to`.
BB_API bb_status bb_cuts_move(bb_problem* problem, int64_t to, int64_t from);
// Sets cut[i] to share cut[i] + (1 - share) cut[j].
BB_API bb_status bb_cuts_merge(bb_problem* problem, int64_t i, int64_t j, double share);
// target: on the host, is set to the gradients of `count` cuts from number `first` on, one after the other.
BB_API bb_status bb_cuts_get(bb_problem* problem, int64_t first, int64_t count, double* target);
// Sets the gradients of `count` cuts from number `first` on from `source`, on the host.
BB_API bb_status bb_cuts_set(bb_problem* problem, int64_t first, int64_t count, const double* source);

#ifdef __cplusplus
}
#endif
