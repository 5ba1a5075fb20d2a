// Passes over the pairs of points for multidimensional scaling, each pair once.
//
// The half descent direction of the stress sum w (delta - d)^2 at row i is the sum over j of
// w (delta / d - 1) (x_i - x_j). A pair adds it to both its rows, so a pass reads the upper triangle only,
// and takes one root per pair. Dissimilarities are a square matrix, its upper triangle row by row, or the
// Euclidean distances of rows of features, which each pass computes again, so that nothing of size n^2 is
// stored. All arithmetic is in float64, or of the descent the terms are in float32: places and
// dissimilarities are rounded to it, what a pair adds is computed in it, and up to kRun of such terms are
// added in it. All other sums, and products with weights, are in float64;
// bmrm/unsupervised/manifold/rounding.py bounds the errors.
//
// Rows are split into parts that depend on n and the size of the sums only. A pass writes the sums of its
// parts, which are added in their order: the same bits for any number of threads, and of ranks, of which each
// has some of the parts.
//
// J. de Leeuw, Applications of convex analysis to multidimensional scaling, in Recent Developments in
// Statistics (1977). I. Borg and P. Groenen, Modern Multidimensional Scaling (2005), chapter 8.
#pragma once

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

#include "coincident_points.h"
#include "cpu/isa.h"
#include "device_limits.h"
#include "pairs/stored_pairs.h"

namespace bmrm {

/// Loops over values V.
template <class V>
struct WideningKernels {
    void (*widen)(const V* from, i64 count, double* out);
    void (*clean_floats)(const V* delta, const float* weights, i64 count, double* out, double* out_weights);
    void (*clean_doubles)(const V* delta, const double* weights, i64 count, double* out, double* out_weights);
};

/// Terms that are added in float32, at most; a power of two.
constexpr i64 kRun = 8;
static_assert(kRun <= kMostFloatTerms);

/// Adds the pairs of some rows with a segment of columns, in Real; returns whether some are at one place.
template <class Real>
using DescentLoop = bool(const Real* rows, const Real* X, i64 stride, i64 p, i64 count,
                         const Real* const* delta, const double* const* weights, double* H, double* row_sums,
                         double* scratch, double* stress, double* squares);

/// For 1 and 2 rows; p from 1 to 3 or, at 0, any; without and with weights.
template <class Real>
struct DescentLoops {
    DescentLoop<Real>* of[2][4][2];
};

/// The loops of scaling_kernels.cpp.
struct ScalingKernels {
    /// Columns are processed by so many, at most kPairPad.
    i64 lanes, float_lanes;
    DescentLoops<double> doubles;
    DescentLoops<float> floats;
    /// For one row with weights, of which alone the direction is found.
    DescentLoop<double>* own_descent[4];
    void (*differences)(const double* row, const double* Y, i64 stride, i64 T, i64 count,
                        const double* weights, double* H, double* row_sums);
    void (*squared)(const double* row, const double* Y, i64 stride, i64 T, i64 count, const double* delta,
                    double* H, double* row_sums);
    void (*curvature)(const double* row, const double* X, i64 stride, i64 p, const double* y_row,
                      const double* Y, i64 T, i64 count, const double* delta, const double* weights,
                      double* H, double* row_sums, double* scratch);
    void (*distances)(const double* row, const double* X, i64 stride, i64 p, i64 count, double* out);
    /// For 1 and 2 rows.
    void (*panel_distances[2])(const double* rows, const double* panel, i64 m, double* const* out);
    void (*narrow)(const double* from, i64 count, float* out);
    WideningKernels<float> of_floats;
    WideningKernels<double> of_doubles;

    template <class Real>
    i64 lanes_of() const {
        return std::is_same_v<Real, float> ? float_lanes : lanes;
    }

    template <class Real>
    const DescentLoops<Real>& descents() const {
        if constexpr (std::is_same_v<Real, float>)
            return floats;
        else
            return doubles;
    }

    template <class V>
    void widen(const V* from, i64 count, double* out) const {
        of<V>().widen(from, count, out);
    }

    template <class V, class U>
    void clean(const V* delta, const U* weights, i64 count, double* out, double* out_weights) const {
        if constexpr (std::is_same_v<U, float>)
            of<V>().clean_floats(delta, weights, count, out, out_weights);
        else
            of<V>().clean_doubles(delta, weights, count, out, out_weights);
    }

  private:
    template <class V>
    const WideningKernels<V>& of() const {
        if constexpr (std::is_same_v<V, float>)
            return of_floats;
        else
            return of_doubles;
    }
};

BMRM_TABLES(ScalingKernels, scaling_kernels)

/// Numbers of a part of a pass besides those of the points: of a descent the sums of w (delta - d)^2 and of
/// w d^2, and the pairs at one place with w delta > 0; of a summary the sums of w delta^2 and of delta^2 over
/// known pairs, and their number.
constexpr i64 kPartTotals = 3;

class Pairs : public StoredPairs {
  public:
    using StoredPairs::StoredPairs;

    /// This is rank `rank` of `ranks`, which share the parts of each pass.
    void share(i64 rank, i64 ranks) {
        rank_ = rank;
        ranks_ = ranks;
    }

    /// Numbers of one axis in the sums of a part.
    i64 stride() const { return n_ + kPairPad; }

    /// How many parts of a pass with so many sums are of this rank.
    i64 own_parts(i64 sums) const {
        const i64 count = PairParts(n_, sums).count();
        return first_part(count, rank_ + 1) - first_part(count, rank_);
    }

    // Passes write the sums of each own part: planar numbers of the points, then kPartTotals more if there
    // are some.

    /// The half descent direction of the stress at X (n x p), with terms in Real.
    template <class Real>
    void descent(const double* X, i64 p, double* parts) const;

    /// V Y for the Laplacian V of the weights and Y (n x T).
    void laplacian(const double* Y, i64 T, double* parts) const;

    /// Sums of w delta / d per row at X (n x p).
    void pulls(const double* X, i64 p, double* parts) const;

    /// The matrix of squared dissimilarities times Y (n x T). Unknown ones are replaced by `unknown`.
    void squared(const double* Y, i64 T, double unknown, double* parts) const;

    /// Half the Hessian of the stress at X (n x p) times T directions, of which Y (n x T x p) has the
    /// numbers.
    void curvature(const double* X, i64 p, const double* Y, i64 T, double* parts) const;

    /// Sums of weights per row; not padded: n numbers.
    void summary(double* parts) const;

    /// Adds the sums of own parts, of so many numbers each, to those of parts before.
    void add_up(const double* parts, i64 count, i64 size, double* total) const {
        accumulate_parts(parts, count, size, size, total, threads_);
    }

    /// Distances of all pairs of X (n x p), row by row.
    void distances(const double* X, i64 p, double* out) const;

    /// Moves each of `count` new points Z (count x p) to where its own stress with the points X has a
    /// minimum; `delta` is count x n, NaN for unknown. Writes its stress.
    void place(const double* X, i64 p, const double* delta, i64 count, double* Z, double* stress,
               i64 max_iter) const;

  private:
    /// A row against such columns, with its numbers.
    struct Row {
        i64 i, j, count, valid;
        const double *delta, *weights, *own;
    };

    i64 first_part(i64 count, i64 rank) const { return count * rank / ranks_; }

    /// Numbers of axes up to 3 have kernels of their own, the others share the first one.
    static int known_axes(i64 p) { return p <= 3 ? static_cast<int>(p) : 0; }

    template <class Real>
    Buffer<Real> planar(const Real* X, i64 p) const;

    /// Calls use(first row, end, sums) for each own part; those of `size` numbers are 0. The parts are those
    /// of a pass with `sums` numbers, and `work` decides about threads.
    template <class Use>
    void for_parts(i64 sums, i64 size, i64 work, double* parts, const Use& use) const;

    /// Adds the pairs of a block at one place to the sums of a part and its totals.
    template <class Real>
    void part_points(const Real* X, i64 p, const Block<Real>& b, int r, double* sums, double* totals) const;

    /// Runs use(kernels, row, planar Y, sums, sums of the row, scratch) over all pairs, for T numbers per
    /// point given and added.
    template <class Use>
    void single_rows(const double* Y, i64 T, i64 added, double* parts, const Use& use) const;

    i64 rank_ = 0, ranks_ = 1;
};

}  // namespace bmrm
