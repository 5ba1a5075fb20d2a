// What counts pairs on a device: bounds and points as the kernels read them, and tasks.
#pragma once
#include <memory>
#include <vector>

#include "api/pairs.h"
#include "pairs/kernels/bins.cuh"
#include "pairs/kernels/tables.cuh"
#include "pairs/points.h"

namespace bmrm {

// The bins of a counter in scaled distances; those of equal width, or any others.
struct PairBins {
    PairBins(Memory& memory, const std::vector<double>& bounds);

    // Calls use(bins) for the bins that hold.
    template <class Use>
    void with(const Use& use) const {
        if (are_linear)
            use(linear);
        else
            use(searched);
    }
    bool usable() const { return are_linear || searched.usable; }

    double scale = 1;       // of distances
    double first_edge = 1;  // the least positive bound of r, scaled
    double reach = 1;       // the last bound of r, scaled
    bool are_linear = false, one_radius = false;
    LinearBins linear = {};
    SearchedBins searched = {};

  private:
    bool find_linear(const std::vector<double>& bounds);
    void find_searched(Memory& memory, const std::vector<double>& bounds);

    Array<SearchedCell> cells_;
};

// What all kernels need of a counter.
struct PairSetup {
    Memory& memory;
    const bb_device& device;
    bb_points &a, &b;
    bool one_set;
    const PairBins& bins;
    Bounds bounds;        // on the device
    double reach;         // the last bound of the distance, rounded up
    double slip() const;  // how far a coordinate moved into the box is off: norm over the axes
};

struct PairLaunch {
    int64_t first, last;        // tasks
    unsigned long long* state;  // two numbers, 0; the second counts what float64 has decided
    Totals totals;              // `shared` is the kernel's to set
};

// A kernel with what it has prepared.
class PairKernel {
  public:
    virtual ~PairKernel() = default;
    virtual int64_t tasks() const = 0;
    virtual double candidates(int64_t first, int64_t last) const = 0;
    virtual bool decides_all() const { return false; }  // whether float64 decides all pairs
    // Queues some tasks.
    virtual void launch(const PairLaunch& launch) = 0;
};

std::unique_ptr<PairKernel> make_float64(const PairSetup& setup, bool all_images);
std::unique_ptr<PairKernel> make_brute(const PairSetup& setup);
std::unique_ptr<PairKernel> make_cells(const PairSetup& setup);

// Tasks of a kernel that goes over pairs of tiles.
struct TileTasks {
    TilePairs tiles;
    int64_t size;  // pairs of tiles per task
    int64_t a, b;  // points

    int64_t count() const { return (tiles.count() + size - 1) / size; }
    int64_t first(int64_t task) const { return std::min(task * size, tiles.count()); }
    double pairs(int64_t first_task, int64_t last_task) const;
};

constexpr int64_t kTaskTiles = 16384;      // 1.7e10 pairs: some ms
constexpr int64_t kTableRoom = 224 << 10;  // bytes of shared memory, of which a device has 227 KiB at most

// Bytes of a table and of the cells of bins, in multiples of 16.
template <bool JOINT, class Bins>
int64_t table_bytes(const Totals& totals, const Bins& bins) {
    return (Table<JOINT>::size(totals) * 4 + 15) / 16 * 16 + Bins::shared_bytes(bins);
}

}  // namespace bmrm
