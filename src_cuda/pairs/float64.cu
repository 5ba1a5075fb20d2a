// Counts over all pairs of tiles in float64.
#include <algorithm>
#include <cmath>

#include "pairs/counter.h"
#include "pairs/kernels/float64.cuh"
#include "runtime/chain.cuh"

namespace bmrm {

namespace {

class Float64 : public PairKernel {
  public:
    Float64(const PairSetup& setup, bool all_images)
        : setup_(setup),
          images_(!setup.a.is_periodic() ? OPEN
                  : all_images           ? SHIFTED
                                         : NEAREST),
          sweeps_(images_ == SHIFTED ? count_images(setup) : 1),
          tasks_{{tiles_of(setup.a.n), tiles_of(setup.b.n), setup.one_set},
                 std::max<int64_t>(1, int64_t(double(kTaskTiles) / sweeps_)),
                 setup.a.n,
                 setup.b.n} {
        const PairBins& bins = setup.bins;
        const bool moved = images_ == NEAREST;
        sets_ = {setup.a.exact(), setup.b.exact(), setup.a.boxes(moved), setup.b.boxes(moved),
                 setup.a.box(),   setup.bounds,    tasks_.tiles,         float(bins.scale * bins.scale)};
        const double error = kFloat64Doubt * (bins.reach + 1);
        bins.with(
            [&](const auto& each) { sets_.threshold = each.threshold(kFloat64Doubt, error, bins.reach); });
        // A scale or its square that float32 does not have: everything is searched.
        if (!bins.usable() || !(sets_.scale > 1e-30f && sets_.scale < 1e30f)) sets_.threshold = kAllInDoubt;
        sets_.reach = setup.reach;
        sets_.slip = setup.slip();
    }

    int64_t tasks() const override { return tasks_.count(); }
    bool decides_all() const override { return true; }
    double candidates(int64_t first, int64_t last) const override {
        return sweeps_ * tasks_.pairs(first, last);
    }
    void launch(const PairLaunch& launch) override {
        setup_.bins.with([&](const auto& bins) { with_images(launch, bins); });
    }

  private:
    // About how many images of a point are within reach of another.
    static double count_images(const PairSetup& setup) {
        double images = 1;
        for (const double L : setup.a.length)
            if (L > 0) images *= 2 * std::ceil(setup.reach / L) + 1;
        return images;
    }
    template <class Bins>
    void with_images(const PairLaunch& launch, const Bins& bins) {
        if (images_ == OPEN) return with_axes<OPEN>(launch, bins);
        images_ == NEAREST ? with_axes<NEAREST>(launch, bins) : with_axes<SHIFTED>(launch, bins);
    }
    template <int IMAGES, class Bins>
    void with_axes(const PairLaunch& launch, const Bins& bins) {
        run(setup_.a.axes == 3 ? count_exact<3, IMAGES, Bins> : count_exact<0, IMAGES, Bins>, launch, bins);
    }
    template <class Kernel, class Bins>
    void run(Kernel* kernel, const PairLaunch& launch, const Bins& bins) {
        const int64_t digits = 4 * 8 * int64_t(setup_.a.axes);
        Totals totals = launch.totals;
        totals.shared = true;
        const int64_t room = std::min(kTableRoom, setup_.device.shared_per_block - kStaticShared);
        totals.shared = table_bytes<false>(totals, bins) + digits <= room;
        const int64_t table = table_bytes<false>(totals, bins), bytes = table + digits;
        allow_shared(kernel, bytes);
        int resident = 0;
        BB_CHECK(
            cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, kTileThreads, size_t(bytes)));
        const ExactLaunch tiles{tasks_.first(launch.first), tasks_.first(launch.last), launch.state, totals};
        const int64_t blocks = std::min<int64_t>(
            tiles.last - tiles.first, int64_t(std::max(resident, 1)) * setup_.device.multiprocessors);
        const NextLaunch next(unsigned(blocks), kTileThreads, bytes, setup_.memory.stream, false);
        next(kernel, sets_, tiles, bins, int(table));
    }

    static constexpr int64_t kStaticShared = 1024;  // more than what the kernel declares
    const PairSetup setup_;
    const Images images_;
    const double sweeps_;
    const TileTasks tasks_;
    ExactSets sets_ = {};
};

}  // namespace

std::unique_ptr<PairKernel> make_float64(const PairSetup& setup, bool all_images) {
    return std::make_unique<Float64>(setup, all_images);
}

}  // namespace bmrm
