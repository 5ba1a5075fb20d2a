// Neighbours by leaves, all in float64. If there are few axes, leaves have boxes: of a tree of them only what
// is near enough to a leaf of rows is looked at, and of its leaves only those near enough to a row.
#pragma once

#include "cpu/isa.h"
#include "pairs/leaves.h"
#include "pairs/neighbours.h"

namespace bmrm {

constexpr int kMeasures = 4;

/// Share of a bound that is more than rounding changes of it or of a measured number.
constexpr double kBoundSlack = 0x1p-40;

/// The loops of leaf_kernels.cpp. They return a bit for each point of a leaf that is near enough.
struct LeafKernels {
    /// What each point of a leaf measures to a point, whose coordinates are `stride` apart; near enough: at
    /// most `limit`.
    std::uint32_t (*points[kMeasures])(const double* leaf, const double* point, i64 stride,
                                       const double* periods, int axes, double limit, double* measured);
    /// Near enough to a box: the least measure to a point in it is at most a limit of its own.
    std::uint32_t (*box[kMeasures])(const double* leaf, const Interval* box, const double* slack,
                                    const double* periods, int axes, const double* limits);
};

BMRM_TABLES(LeafKernels, leaf_kernels)

class LeafSearch : public NeighbourSearch {
  public:
    LeafSearch(const Sides& sides, Metric metric, int threads);

    i64 tasks() const override { return (rows().count() + group_ - 1) / group_; }
    void search(i64 first, i64 last, int threads, const Sought& sought,
                const FoundTarget& target) const override;

  private:
    /// A leaf of rows, while it is searched for.
    struct Group {
        i64 leaf;
        FoundRows& rows;
        double limits[kLeaf];  // what near enough points measure at most
        double limit;          // of all rows
        bool counts;           // limits are exact, and near points are counted
    };

    const Leaves& rows() const { return other_rows_ ? *other_rows_ : points_; }
    void search_leaf(i64 leaf, FoundRows& rows) const;
    void descend(Group& group, i64 node, i64 first, i64 leaves) const;
    void scan(Group& group, i64 leaf) const;
    /// Counts a leaf if all of its points are within the radius of all rows; false if some may not be.
    bool count_whole(Group& group, i64 leaf) const;
    /// A bound on what a point in one box and one in another measure: at least, or with `most` at most.
    double bound(const Interval* a, const Interval* b, bool most) const;

    const Metric metric_;
    const Measure measure_;
    const i64 own_;  // as of `Sides`
    const Leaves points_;
    const std::unique_ptr<const Leaves> other_rows_;  // null: the points themselves
    const std::vector<double> periods_;
    std::vector<double> slack_;  // by axis: more than rounding changes a difference
    const i64 group_;            // leaves of a task
};

}  // namespace bmrm
