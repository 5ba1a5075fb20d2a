// The kernel over all pairs of tiles in float32, with what it reads.
#pragma once
#include <algorithm>
#include <cmath>

#include "pairs/counter.h"
#include "pairs/kernels/brute.cuh"
#include "runtime/chain.cuh"

namespace bmrm {

template <int WIDTH>
class Brute : public PairKernel {
  public:
    explicit Brute(const PairSetup& setup)
        : setup_(setup),
          tasks_{{tiles_of(setup.a.n), tiles_of(setup.b.n), setup.one_set}, kTaskTiles, setup.a.n, setup.b.n},
          columns_(setup.memory, setup.b.n) {
        const PairBins& bins = setup.bins;
        sets_ = {setup.a.exact(),     setup.b.exact(),
                 setup.a.boxes(true), setup.b.boxes(true),
                 columns_.data(),     setup.a.box(),
                 setup.bounds,        tasks_.tiles,
                 bins.scale,          setup.slip() * bins.scale,
                 bins.first_edge,     bins.reach * (1 + 1e-12)};
        const NextLaunch launch(blocks_for(setup.b.n), 256, 0, setup.memory.stream, false);
        launch(make_columns<WIDTH>, sets_.b, sets_.box, sets_.b_boxes, bins.scale, columns_.data());
    }

    int64_t tasks() const override { return tasks_.count(); }
    double candidates(int64_t first, int64_t last) const override { return tasks_.pairs(first, last); }

    void launch(const PairLaunch& launch) override {
        if (setup_.bins.one_radius) return run<RadiusCounts<WIDTH>>(launch, OneRadius{}, 0);
        Totals totals = launch.totals;
        totals.shared = true;
        setup_.bins.with([&](const auto& bins) {
            using Bins = std::decay_t<decltype(bins)>;
            PairLaunch shared = launch;
            shared.totals.shared = true;
            const int64_t joint = table_bytes<true>(totals, bins), apart = table_bytes<false>(totals, bins);
            if (2 * (joint + buffer_bytes(1)) <= room())  // else a multiprocessor would have one block
                return run<BinCounts<WIDTH, Bins, true>>(shared, bins, joint);
            if (apart + buffer_bytes(1) <= room())
                return run<BinCounts<WIDTH, Bins, false>>(shared, bins, apart);
            run<BinCounts<WIDTH, Bins, false>>(launch, bins, table_bytes<false>(launch.totals, bins));
        });
    }

  private:
    static int64_t buffer_bytes(int groups) {
        return int64_t(groups) * 2 * kColumnChunk * int64_t(sizeof(Column<WIDTH>));
    }
    int64_t room() const { return std::min(kTableRoom, setup_.device.shared_per_block - kStaticShared); }

    // Blocks share a multiprocessor while their tables fit; a block has more groups if they do not.
    template <class Counts, class Bins>
    void run(const PairLaunch& launch, const Bins& bins, int64_t table) {
        int groups = 1;
        while (groups < kMaxGroups && table + buffer_bytes(2 * groups) <= room() &&
               setup_.device.shared_per_multiprocessor / (table + buffer_bytes(groups)) * groups < kMaxGroups)
            groups *= 2;
        const int64_t bytes = table + buffer_bytes(groups);
        const auto kernel = count_tiles<WIDTH, Counts>;
        allow_shared(kernel, bytes);
        int resident = 0;
        BB_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, groups * kTileThreads,
                                                               size_t(bytes)));
        const BruteLaunch tiles{tasks_.first(launch.first), tasks_.first(launch.last), launch.state,
                                launch.totals};
        const int64_t blocks = std::min<int64_t>(
            tiles.last - tiles.first, int64_t(std::max(resident, 1)) * setup_.device.multiprocessors);
        const NextLaunch next(unsigned(blocks), groups * kTileThreads, bytes, setup_.memory.stream, false);
        next(kernel, sets_, tiles, bins, int(table));
    }

    static constexpr int64_t kStaticShared = 9216;  // more than what the kernel declares
    const PairSetup setup_;
    const TileTasks tasks_;
    Array<Column<WIDTH>> columns_;
    BruteSets sets_;
};

}  // namespace bmrm
