// Counts all pairs in float32, those in doubt in float64 (bin_map.h): tiles of rows against columns.
#pragma once

#include "pairs/pair_counter.h"
#include "pairs/scaled_blocks.h"

namespace bmrm {

class BruteCounter : public PairCounter {
  public:
    BruteCounter(const PlacedPoints& a, const PlacedPoints* b, const double* bounds, i64 bins, int threads);

    i64 tasks() const override { return first_task_.back(); }
    double candidates() const override;
    i64 bytes() const override {
        return problem_.map.bytes() + static_cast<i64>(8 * first_task_.size()) + a_.bytes() +
               (b_ ? b_->bytes() : 0);
    }
    PairsSeen count(i64 first, i64 last, int threads, i64* counts) const override;

  private:
    /// Where the blocks of columns of a tile of rows begin.
    i64 first_column(i64 row) const;
    void count_task(i64 task, CountingThread& thread) const;

    const PlacedPoints a_;
    const std::unique_ptr<const PlacedPoints> b_;
    const CountProblem problem_;
    i64 block_columns_, task_columns_;
    std::vector<i64> first_task_;  // of each tile of rows, and the number of all
};

}  // namespace bmrm
