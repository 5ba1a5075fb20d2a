// A tree of boxes around points of few axes, and neighbours of rows by it: kernels/near_tree.cuh.
#pragma once
#include <utility>
#include <vector>

#include "pairs/kernels/near_tree.cuh"
#include "pairs/points.h"
#include "rows/resident_rows.h"
#include "runtime/chain.cuh"

namespace bmrm {

class NearTree {
  public:
    // A tree is for so many axes and neighbours, and pays from so many rows and points on.
    static constexpr int64_t kMostAxes = 6, kMostNeighbours = 128, kMinRows = 128, kMinPoints = 512;

    NearTree(Memory& memory, const bb_dense_rows& points);

    // Writes the k nearest of rows from `first` on; sides: those of the tree.
    void search(const NearSides& sides, const bb_dense_rows& rows, int64_t first, int64_t count, int64_t k,
                double* distances, int64_t* indices);
    // Memory of a neighbour while lists are sorted: keys and places, each twice, and a distance.
    static constexpr int64_t kListBytes = 32;
    // Counts, or lists by index, the points that measure at most `most` to rows from `first` on.
    void count(const NearSides& sides, const bb_dense_rows& rows, int64_t first, int64_t count, double most,
               unsigned long long* counts);
    // size: neighbours that were counted.
    void list(const NearSides& sides, const bb_dense_rows& rows, int64_t first, int64_t count, double most,
              int64_t size, const NearLists& to);

  private:
    void bound();
    NextLaunch launch(int64_t blocks, int threads, int64_t shared = 0) const;
    // Calls use(measure, axes, rows) with constants, and with the rows in the order of the curve.
    template <class Use>
    void visit(const NearSides& sides, const bb_dense_rows& rows, int64_t first, int64_t count,
               const Use& use) const;

    Memory& memory_;
    const int axes_, width_;  // width_: with axes of zeros, as kernels are compiled
    Array<double> at_;
    Array<uint32_t> numbers_;
    std::vector<Array<double>> boxes_;
    TreeView view_ = {};
    CurveRange range_ = {};
};

}  // namespace bmrm
