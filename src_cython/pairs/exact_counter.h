// Counts all pairs in float64, as pairs/decision.h says: the reference, and the kernel for coordinates that
// float32 cannot bound.
#pragma once

#include "cpu/isa.h"
#include "pairs/pair_counter.h"

namespace bmrm {

/// Some rows of points against columns; coordinate k of row i is at rows + k * row_stride + i.
struct ExactBlock {
    const double *rows, *columns;
    i64 row_stride, column_stride, row_count, column_count;
    int axes;
    const double* box;    // lengths, 0 for open axes
    const double* shift;  // to the image that counts, or null for the nearest one
    bool triangle;        // rows and columns are the same points, of which pairs i < j count
};

/// The loops of exact_kernels.cpp.
struct ExactKernels {
    void (*count)(const ExactBlock& block, const BinFinder& finder, i64* counts);
};

BMRM_TABLES(ExactKernels, exact_kernels)

class ExactCounter : public PairCounter {
  public:
    ExactCounter(const PlacedPoints& a, const PlacedPoints* b, const double* bounds, i64 bins,
                 PairImages images);

    i64 tasks() const override { return pairs_.count(); }
    double candidates() const override;
    i64 bytes() const override { return finder_.bytes(); }
    PairsSeen count(i64 first, i64 last, int threads, i64* counts) const override;

  private:
    /// The pairs of two tiles.
    double pairs_of(i64 row, i64 column) const;
    /// Calls use(shift) for each image of tile `column` that may be within reach of tile `row`.
    template <class Use>
    void for_images(i64 row, i64 column, const Use& use) const;
    double count_tiles(i64 row, i64 column, i64* counts) const;

    const PlacedPoints &a_, &b_;
    const bool own_, all_;
    const i64 tile_;
    const BinFinder finder_;
    TilePairs pairs_;
};

}  // namespace bmrm
