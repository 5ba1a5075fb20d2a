// Sums over all points of a function of their distance to other points: kernel densities.
//
// The points y lie in an order in which neighbours are close, in tiles of which boxes are known. The points x
// are taken in groups, in the order in which they come. A sum goes tile by tile, so that it does not depend
// on the threads; without a tolerance it does not depend on the other points x either.
#pragma once

#include <vector>

#include "cpu/isa.h"
#include "pairs/placed_points.h"
#include "pairs/smoothing.h"

namespace bmrm {

/// Points x of a group.
constexpr i64 kDensityGroup = 64;

/// Some x against a tile; coordinate k of x number i is at x + k * x_stride + i. The tile is full: points
/// after the last one are copies of it with the weight 0.
template <class T>
struct DensityBlock {
    const T *x, *y, *weights;
    i64 x_stride, y_stride, x_count;
    int axes;
};

struct DensityKernels {
    /// Lowers least[i] to the least squared distance.
    void (*nearest)(const DensityBlock<double>& block, double* least);
    /// Adds to each sum; `inside` gets the weights of the terms that are not cut off. Null for endless
    /// shapes.
    void (*bounded[kShapes])(const DensityBlock<double>& block, const Smoothing& smoothing, double* sums,
                             double* inside);
    /// Adds terms exp(offset - s); those whose exponent is below kLeastExponent count as this. The indices
    /// say whether some weight is not 1, and whether some exponent may be below.
    void (*gaussian[2][2])(const DensityBlock<double>& block, const Smoothing& smoothing,
                           const double* offsets, double* sums);
    void (*exponential[2][2])(const DensityBlock<double>& block, const Smoothing& smoothing,
                              const double* offsets, double* sums);
    /// Adds Gaussian terms 2^(-scale d2) in float32 to sums in float64; `moments` gets the sum of the terms
    /// times d2. Squared distances above `most` count as this; indices as before.
    void (*light[2][2])(const DensityBlock<float>& block, float scale, float most, double* sums,
                        double* moments);
    /// Whether products and sums are rounded together there.
    bool fused;
};

BMRM_TABLES(DensityKernels, density_kernels)

class DensitySums {
  public:
    /// Copies m points of some axes by axes, and their weights, which are above 0. `light`: also as float32,
    /// which must hold the coordinates.
    DensitySums(const double* y, i64 m, int axes, const double* weights, bool light);

    int axes() const { return axes_; }
    bool light() const { return light_.size() > 0; }

    /// The least squared distance of each of n points x.
    void nearest(const double* x, i64 n, int threads, double* squares) const;

    /// Sums for n points x. Tiles are left out if they cannot change a sum by more than its share
    /// `tolerance`; `cuts` bounds what was left out. Offsets are null for 0.
    void sums(const double* x, i64 n, const Smoothing& smoothing, const double* offsets, double tolerance,
              int threads, double* sums, double* inside, double* cuts) const;

    /// Gaussian sums in float32; see `DensityKernels`. `smoothing` is that of `sums`.
    void light_sums(const double* x, i64 n, const Smoothing& smoothing, float scale, float most,
                    double tolerance, int threads, double* sums, double* moments, double* cuts) const;

  private:
    struct Group;
    template <class Use>
    void for_groups(const double* x, i64 n, int threads, const Use& use) const;
    template <class Add>
    void add_tiles(const Group& group, const Smoothing& smoothing, double offset, double tolerance,
                   const double* sums, double* cuts, const Add& add) const;
    double least_square(const Group& group, i64 tile) const;
    double largest_square(const Group& group, i64 tile) const;
    i64 padded() const { return tiles_ * kDensityTile; }

    i64 tiles_;
    int axes_;
    bool weighted_;  // some weight is not 1
    Buffer<double> y_, weights_;
    Buffer<float> light_, light_weights_;
    std::vector<double> low_, high_, tile_weights_;  // of each tile: by axis, and the sum
};

}  // namespace bmrm
