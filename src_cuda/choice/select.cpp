// Which plans an operator has, and which of them are worth a trial.
#include "choice/select.h"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "formats/tuning.h"
#include "runtime/occupancy.h"

namespace bmrm {
namespace {

using namespace tuning;

// A list with room for `capacity` plans, which counts on when it is full.
class Plans {
  public:
    Plans(bb_plan* plans, int32_t capacity) : plans_(plans), capacity_(capacity) {}
    void add(bb_kernel kernel, int lanes, int cap, int tiles, int64_t tile) {
        if (count_ < capacity_) plans_[count_] = {kernel, lanes, cap, tiles, tile};
        count_++;
    }
    int32_t count() const { return count_; }

  private:
    bb_plan* plans_;
    int32_t capacity_, count_ = 0;
};

// Returns the widest tile with which `blocks` blocks fit in `shared` bytes of a multiprocessor; 0 if there is
// none. Tiles begin at cache lines.
int64_t widest_tile(const bb_device& device, const bb_stats& stats, int64_t shared, int blocks) {
    const int64_t room = std::min(device.shared_per_block, shared / blocks - kReservedShared);
    return std::clamp<int64_t>((room - beside_tile(stats)) / stats.vector_bytes, 0, kShortTile) / kTileGrain *
           kTileGrain;
}

int64_t divided(int64_t a, int64_t b) { return (a + b - 1) / b; }

void add_tiled(const bb_device& device, const bb_stats& stats, Plans& plans) {
    std::vector<int64_t> numbers;
    for (const int64_t shared : {shared_beside_loads(device), device.shared_per_multiprocessor})
        for (int blocks = kBlocksResident; blocks >= 1; blocks--) {
            const int64_t widest = widest_tile(device, stats, shared, blocks);
            if (widest >= 1) numbers.push_back(divided(stats.cols, widest));
        }
    std::sort(numbers.begin(), numbers.end());
    // Small tiles are filled quickly, and their few sums added up quickly.
    if (stats.nnz <= kFewNonzeros && !numbers.empty() && numbers.back() < kFewTiles)
        numbers.push_back(kFewTiles);
    numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
    for (const int64_t tiles : numbers) {
        if (tiles > kMaxTiles) continue;
        const int64_t tile =
            tiles > 1 ? divided(divided(stats.cols, tiles), kTileGrain) * kTileGrain : stats.cols;
        if (tiles > 1) {
            int k = 0;
            while (k + 1 < BB_SPREADS && (int64_t(2) << (k + BB_SPREAD_FIRST)) <= tile) k++;
            if (double(stats.fragments[k]) > kMaxFragments * double(stats.nnz)) continue;
        }
        for (int cap : kSharedCaps) plans.add(BB_TILED, 0, cap, 0, tile);
    }
}

void add_hot(const bb_device& device, const bb_stats& stats, Plans& plans) {
    for (int blocks = kBlocksResident; blocks >= 1; blocks--) {
        const int64_t tile = widest_tile(device, stats, shared_beside_loads(device), blocks);
        if (tile < 1) continue;
        for (int tiles : kHotTiles) {
            const int64_t columns = tile * tiles;
            if (columns >= stats.cols) break;
            int k = 0;
            while (k + 1 < BB_TOPS && (int64_t(2) << k) <= columns) k++;
            if (double(stats.top_nnz[k]) < kMinHot * double(stats.nnz)) continue;
            for (int cap : kHotCaps) plans.add(BB_HOT, 0, cap, tiles, tile);
        }
    }
}

// For matrices of which tiles would leave fragments of one or two nonzeros.
void add_binned(const bb_device& device, const bb_stats& stats, Plans& plans) {
    // The second half has two blocks per multiprocessor.
    const int64_t most = 2 * widest_tile(device, stats, shared_beside_loads(device, kBinnedSteps), 2);
    const int64_t tile = most / kBinnedGrain * kBinnedGrain;
    if (tile < 1 || stats.cols <= tile) return;
    const int64_t tiles = divided(stats.cols, tile), region = tile / 2 - 3 * tiles;
    if (region < tile / 4 || stats.nnz / region >= kShortTile) return;
    for (int cap : kBinnedCaps) plans.add(BB_BINNED, 0, cap, 0, tile);
}

// A narrow X serves both operators with one format; in the transposed one, X's columns are the rows.  What
// looks like the transpose of a narrow X may be a short X, which only the caller can tell.
void add_narrow(const bb_device& device, const bb_stats& stats, Plans& plans) {
    const bool transposed = !is_narrow(stats) && stats.rows <= kNarrowColumns &&
                            narrow_sum_bytes(stats, stats.rows) <= device.shared_per_block;
    if (stats.repeated || !(is_narrow(stats) || transposed)) return;
    const int64_t columns = transposed ? stats.rows : stats.cols;  // no row is longer, hence the cap
    plans.add(BB_NARROW, 0, int(columns), 0, columns);
}

bool needs_a_build(const bb_plan& plan) {
    return plan.kernel != BB_SUBWARP && plan.kernel != BB_SPLIT && plan.kernel != BB_DENSE;
}

}  // namespace

bool is_narrow(const bb_stats& stats) { return stats.cols <= kNarrowColumns && stats.rows >= stats.cols; }

std::vector<int32_t> worth_timing(const bb_constants& constants, const bb_stats& stats, const bb_plan* plans,
                                  const double* predicted, int32_t count) {
    std::vector<int32_t> order(static_cast<size_t>(std::max(count, 0)));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [=](int32_t a, int32_t b) { return predicted[a] < predicted[b]; });
    std::vector<int32_t> chosen;
    if (order.empty()) return chosen;
    const double best = predicted[order[0]];
    const double a_build = kBuildPasses * double(stats.nnz) * 2 * (4 + stats.value_bytes) / constants.copy;
    double products = kTuningBudget, building = kMaxBuilding;
    // First the best of each kernel, then more of them.
    int of_kernel[BB_KERNELS] = {};
    std::vector<char> taken(order.size(), 0);
    for (const int most : {1, kMaxPerKernel})
        for (int32_t i : order) {
            const double cost = kTrialProducts * predicted[i] / best,
                         build = needs_a_build(plans[i]) ? a_build : 0;
            const double worth = most == 1 ? kWorthAnother : kWorthTiming;
            const bool fits = predicted[i] <= worth * best && cost <= products && build <= building &&
                              of_kernel[plans[i].kernel] < most;
            if (taken[i] || !(fits || i == order[0])) continue;
            products -= cost;
            building -= build;
            of_kernel[plans[i].kernel]++;
            taken[i] = 1;
        }
    std::copy_if(order.begin(), order.end(), std::back_inserter(chosen), [&](int32_t i) { return taken[i]; });
    return chosen;
}

}  // namespace bmrm

extern "C" int32_t bb_candidates(const bb_device* device, const bb_stats* stats, bb_plan* list,
                                 int32_t capacity) {
    using namespace bmrm::tuning;
    bmrm::Plans plans(list, capacity);
    for (int lanes : kLanes) plans.add(BB_SUBWARP, lanes, 0, 0, 0);
    plans.add(BB_SPLIT, 0, 0, 0, 0);
    for (int cap : kCaps) plans.add(BB_SLICED, 0, cap, 0, 0);
    bmrm::add_tiled(*device, *stats, plans);
    bmrm::add_hot(*device, *stats, plans);
    bmrm::add_binned(*device, *stats, plans);
    bmrm::add_narrow(*device, *stats, plans);
    return plans.count();
}

// Returns the peak of bytes on the device: the compressed rows of both operators, the formats chosen for
// them, and what building a format takes besides: a key and a position per chunk, sorted from one array to
// another.
extern "C" int64_t bb_predict_bytes(int64_t rows, int64_t cols, int64_t nnz, int32_t value_bytes,
                                    int32_t transpose) {
    const int64_t element = 4 + value_bytes, operators = transpose ? 2 : 1;
    const int64_t compressed = operators * nnz * element + 8 * (rows + 1 + (transpose ? cols + 1 : 0));
    const int64_t formats = operators * (nnz + nnz / 16) * element + 8 * (rows + (transpose ? cols : 0));
    const int64_t chunks = std::max(rows, cols) + nnz / 256;
    return compressed + formats + 2 * chunks * (8 + 8) + (rows + cols) * 8;
}

extern "C" int64_t bb_prepare_bytes(int64_t rows, int64_t cols, int64_t nnz, int32_t value_bytes,
                                    int32_t transpose) {
    return bb_predict_bytes(rows, cols, nnz, value_bytes, transpose) + bmrm::tuning::kPreparation * nnz +
           16 * (rows + cols);
}

extern "C" int64_t bb_format_bytes(int64_t rows, int64_t cols, int64_t nnz, int32_t value_bytes,
                                   int32_t transpose) {
    const int64_t operators = transpose ? 2 : 1;
    return operators * ((nnz + nnz / 16) * (2 + value_bytes) + 4 * (rows + cols));
}
