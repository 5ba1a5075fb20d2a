// Passes over the pairs of points for multidimensional scaling, each pair once.
//
// The half descent direction of the stress sum w (delta - d)^2 at row i is the sum over j of
// w (delta / d - 1) (x_i - x_j). A pair adds it to both its rows, so a pass reads the upper triangle only,
// and takes one root per pair. Dissimilarities are a square matrix, its upper triangle row by row, or the
// Euclidean distances of rows of features, which each pass computes again, so that nothing of size n^2 is
// stored. All arithmetic is in float64.
//
// Rows are split into parts that depend on n and the size of the sums only, and the sums of the parts are
// added in their order: the same bits for any number of threads.
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
#include "pairs/stored_pairs.h"

namespace bmrm {

/// Loops over values V.
template <class V>
struct WideningKernels {
    void (*widen)(const V* from, i64 count, double* out);
    void (*clean_floats)(const V* delta, const float* weights, i64 count, double* out, double* out_weights);
    void (*clean_doubles)(const V* delta, const double* weights, i64 count, double* out, double* out_weights);
};

/// The loops of scaling_kernels.cpp.
struct ScalingKernels {
    using Descent = bool(const double* rows, const double* X, i64 stride, i64 p, i64 count,
                         const double* const* delta, const double* const* weights, double* H,
                         double* row_sums, double* scratch, double* stress, double* squares);

    /// Columns are processed by so many, at most kPairPad.
    i64 lanes;
    /// For 1 and 2 rows; p from 1 to 3 or, at 0, any; without and with weights.
    Descent* descent[2][4][2];
    /// For one row with weights, of which alone the direction is found.
    Descent* own_descent[4];
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
    WideningKernels<float> of_floats;
    WideningKernels<double> of_doubles;

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

/// What a pass found besides the direction.
struct PairCounts {
    double stress;   // sum of w (delta - d)^2
    double squares;  // sum of w d^2
    i64 together;    // pairs at one place with w delta > 0
};

class Pairs : public StoredPairs {
  public:
    using StoredPairs::StoredPairs;

    /// The half descent direction of the stress at X (n x p), added up in H (n x p).
    PairCounts descent(const double* X, i64 p, double* H) const;

    /// V Y for the Laplacian V of the weights and Y (n x T).
    void laplacian(const double* Y, i64 T, double* out) const;

    /// Sums of w delta / d per row at X (n x p).
    void pulls(const double* X, i64 p, double* out) const;

    /// The matrix of squared dissimilarities times Y (n x T). Unknown ones are replaced by `unknown`.
    void squared(const double* Y, i64 T, double unknown, double* out) const;

    /// Half the Hessian of the stress at X (n x p) times T directions Y (T x n x p).
    void curvature(const double* X, i64 p, const double* Y, i64 T, double* out) const;

    /// Sums of weights per row (n); returns the sums of w delta^2 and of delta^2 over known pairs and their
    /// number.
    void summary(double* degrees, double* weighted_squares, double* squares, i64* known) const;

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

    i64 stride() const { return n_ + kPairPad; }

    /// Numbers of axes up to 3 have kernels of their own, the others share the first one.
    static int known_axes(i64 p) { return p <= 3 ? static_cast<int>(p) : 0; }

    Buffer<double> planar(const double* X, i64 p) const;

    static bool at_one_place(const double* a, const double* b, i64 p);

    /// Adds the pairs of a block at one place.
    void part_points(const double* X, i64 p, const Block& b, int r, double* sums, PairCounts& found) const;

    /// Runs use(kernels, row, planar Y, sums, sums of the row, scratch) over all pairs, for T numbers per
    /// point given and added.
    template <class Use>
    void single_rows(const double* Y, i64 T, i64 added, double* out, const Use& use) const;
};

}  // namespace bmrm
