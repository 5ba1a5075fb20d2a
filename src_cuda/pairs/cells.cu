// Counts over neighbouring cells.
#include <algorithm>
#include <cmath>

#include "pairs/counter.h"
#include "pairs/kernels/cells.cuh"
#include "runtime/chain.cuh"
#include "runtime/device_sort.cuh"

namespace bmrm {

namespace {

constexpr int64_t kTaskCandidates = int64_t(1) << 31;
constexpr int64_t kMostCells = int64_t(1) << 30;
constexpr int64_t kCellsPerPoint = 4;
constexpr int64_t kMinCells = 4096;
constexpr int64_t kMinThreads = 1 << 18;  // of a launch: rows have several if there are fewer
constexpr int kMostShares = 256;

// Points in the order of their cells.
struct CellPoints {
    Array<GridPoint> at;
    Array<double> exact;
    Array<uint32_t> starts;  // of each cell, and the end

    CellPoints(const PairSetup& setup, const bb_points& points, const CellGrid& grid) {
        Memory& memory = setup.memory;
        const int64_t n = points.n;
        Array<GridPoint> given(memory, n);
        Array<uint32_t> cells(memory, n);
        const NextLaunch launch(blocks_for(n), 256, 0, memory.stream, false);
        launch(place_in_cells, points.exact(), points.box(), grid, given.data(), cells.data());
        const Array<uint32_t> position = sort_with_positions(memory, cells, uint64_t(grid.count()));
        starts = firsts_of<uint32_t>(memory, cells, grid.count());
        at = picked(memory, given, position);
        exact = Array<double>(memory, n * points.axes);
        const NextLaunch gather(blocks_for(n * points.axes), 256, 0, memory.stream, false);
        gather(gather_points<double>, points.exact().at, position.data(), n, points.axes, exact.data());
    }
};

class Cells : public PairKernel {
  public:
    explicit Cells(const PairSetup& setup)
        : setup_(setup), grid_(make_grid(setup)), a_(setup, setup.a, grid_) {
        if (!setup.one_set) b_ = std::make_unique<CellPoints>(setup, setup.b, grid_);
        const CellPoints& columns = setup.one_set ? a_ : *b_;
        sets_.rows = a_.at.data();
        sets_.columns = columns.at.data();
        sets_.a = {a_.exact.data(), setup.a.n, setup.a.axes};
        sets_.b = {columns.exact.data(), setup.b.n, setup.b.axes};
        sets_.starts = columns.starts.data();
        sets_.grid = grid_;
        sets_.box = setup.a.box();
        sets_.bounds = setup.bounds;
        sets_.one_set = setup.one_set;
        set_doubt();
        divide();
    }

    int64_t tasks() const override { return int64_t(first_rows_.size()) - 1; }
    double candidates(int64_t first, int64_t last) const override {
        return double(offsets_[size_t(last)] - offsets_[size_t(first)]);
    }
    void launch(const PairLaunch& launch) override {
        setup_.bins.with([&](const auto& bins) { run(launch, bins); });
    }

  private:
    static CellGrid make_grid(const PairSetup& setup);
    void set_doubt();
    void divide();

    template <class Bins>
    void run(const PairLaunch& launch, const Bins& bins) {
        Totals totals = launch.totals;
        totals.shared = true;
        totals.shared =
            table_bytes<false>(totals, bins) <= std::min(kTableRoom, setup_.device.shared_per_block);
        const int64_t bytes = table_bytes<false>(totals, bins);
        CellLaunch rows{first_rows_[size_t(launch.first)], first_rows_[size_t(launch.last)], 1, launch.state,
                        totals};
        const int64_t count = rows.last - rows.first;
        if (count == 0) return;
        while (rows.shares < kMostShares && count * rows.shares < kMinThreads) rows.shares *= 2;
        const auto kernel = count_cells<Bins>;
        allow_shared(kernel, bytes);
        int resident = 0;
        BB_CHECK(
            cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, kCellThreads, size_t(bytes)));
        const int64_t most = 4 * int64_t(std::max(resident, 1)) * setup_.device.multiprocessors;
        const int64_t blocks = std::min<int64_t>(blocks_for(count * rows.shares, kCellThreads), most);
        const NextLaunch next(unsigned(blocks), kCellThreads, bytes, setup_.memory.stream, false);
        next(kernel, sets_, rows, bins);
    }

    const PairSetup setup_;
    const CellGrid grid_;
    CellPoints a_;
    std::unique_ptr<CellPoints> b_;
    CellSets sets_ = {};
    std::vector<int64_t> first_rows_, offsets_;  // of tasks: rows, and candidates before them
};

CellGrid Cells::make_grid(const PairSetup& setup) {
    CellGrid grid = {};
    double most[kCellAxes] = {1, 1, 1};
    for (int k = 0; k < kCellAxes; k++) {
        grid.cells[k] = 1;
        grid.bits[k] = 31;
        if (k >= setup.a.axes) continue;
        const size_t axis = size_t(k);
        const double L = setup.a.length[axis];
        double extent = L;
        if (L > 0) {
            grid.bits[k] = 32;
        } else {
            grid.origin[k] = std::min(setup.a.low[axis], setup.b.low[axis]);
            extent = (std::max(setup.a.high[axis], setup.b.high[axis]) - grid.origin[k]) * (1 + 1e-9);
        }
        const double whole = std::ldexp(1.0, grid.bits[k]);
        if (!(extent > 1e-150 && extent < 1e150)) extent = 1e150;  // one cell; what differs is in doubt
        grid.steps[k] = (L > 0 ? whole : whole - 2) / extent;
        grid.squares[k] = float(std::pow(setup.bins.scale / grid.steps[k], 2));
        // Two whole coordinates are off by a step, and so may be the end of the reach.
        const double reach = setup.reach * grid.steps[k];
        most[k] = std::max(1.0, std::floor(whole / (reach / kReachCells + 4)));
    }
    const int64_t room =
        std::min(kMostCells, std::max(kMinCells, kCellsPerPoint * std::max(setup.a.n, setup.b.n)));
    while (most[0] * most[1] * most[2] > double(room)) {
        double& largest = *std::max_element(most, most + kCellAxes);
        largest = std::floor(largest * 0.8);
    }
    for (int k = 0; k < kCellAxes; k++) {
        const bool wraps_twice = grid.periodic(k) && most[k] < 2 * kReachCells + 1;
        grid.cells[k] = wraps_twice ? 1 : uint32_t(most[k]);
    }
    return grid;
}

// A coordinate is off by half a step, and by what moving it into the box and scaling have rounded.
void Cells::set_doubt() {
    const PairBins& bins = setup_.bins;
    double sum = 0;
    bool sound = bins.usable();
    for (int k = 0; k < setup_.a.axes; k++) {
        const size_t axis = size_t(k);
        double size = 0;
        for (const bb_points* points : {&setup_.a, &setup_.b})
            size = std::max({size, std::abs(points->low[axis]), std::abs(points->high[axis])});
        const double error = 1 + 2 * std::ldexp(size + setup_.a.length[axis], -50) * grid_.steps[k];
        sound &= error < 2 && grid_.squares[k] > 1e-30f && grid_.squares[k] < 1e10f;
        sum += std::pow(error / grid_.steps[k] * bins.scale, 2);
    }
    const double shift = std::sqrt(sum), last = bins.reach + 1, steps = 8 * kUnit;
    const double squared = 2 * last * shift + shift * shift + steps * last * last;
    bins.with([&](const auto& each) {
        sets_.threshold = each.threshold(squared, shift + 1e-15 + steps * last, last);
    });
    const double reach = (bins.reach + shift) * (1 + steps);
    sets_.reach = float(reach * reach) * 1.000001f;
    if (sound) return;
    sets_.threshold = kAllInDoubt;
    sets_.reach = INFINITY;
}

void Cells::divide() {
    const int64_t n = setup_.a.n;
    Array<int64_t> counts(setup_.memory, n);
    const NextLaunch launch(blocks_for(n), 256, 0, setup_.memory.stream, false);
    launch(count_candidates, grid_, a_.at.data(), n, sets_.starts, setup_.one_set, counts.data());
    const Array<int64_t> offsets = offsets_of(setup_.memory, counts);
    const int64_t all = offsets.at(n), tasks = (all + kTaskCandidates - 1) / kTaskCandidates;
    Array<int64_t> first(setup_.memory, tasks + 1);
    const NextLaunch next(blocks_for(tasks + 1), 256, 0, setup_.memory.stream, false);
    next(divide_rows, offsets.data(), n, kTaskCandidates, tasks, first.data());
    first_rows_ = first.to_host();
    for (const int64_t row : first_rows_) offsets_.push_back(offsets.at(row));
}

}  // namespace

std::unique_ptr<PairKernel> make_cells(const PairSetup& setup) { return std::make_unique<Cells>(setup); }

}  // namespace bmrm
