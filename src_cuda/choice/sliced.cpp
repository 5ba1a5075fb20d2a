// The sliced kernels: the plans that they offer, and how long these take.
#include <algorithm>
#include <cmath>
#include <vector>

#include "choice/format.h"
#include "choice/shapes.h"
#include "runtime/occupancy.h"

namespace bmrm {
namespace {

using namespace tuning;

void offer_sliced(const bb_device&, const bb_stats&, Plans& plans) {
    for (int cap : kCaps) plans.add(BB_SLICED, 0, cap, 0, 0);
}

void offer_tiled(const bb_device& device, const bb_stats& stats, Plans& plans) {
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

void offer_hot(const bb_device& device, const bb_stats& stats, Plans& plans) {
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

// Collects the shapes of the chunks of a sliced plan.  Returns the number of chunks that are alone in their
// row, and so are its sum.
double cut_rows(const Case& c, const Cut& cut, Shapes& shapes) {
    const int tiles = cut.shared + cut.gathered;
    double alone = 0;
    if (tiles <= 1) {
        for_each_length(c.stats, [&](double rows, double length) {
            shapes.add(rows, length);
            if (chunks_of(int64_t(std::ceil(length - 1e-9)), c.plan.cap) == 1) alone += rows;
        });
        return alone;
    }
    if (c.plan.kernel == BB_TILED) {
        const double urns = effective_tiles(c.stats, tiles, fragments_of(c.stats, double(cut.tile)));
        for_each_length(c.stats, [&](double rows, double length) {
            if (length <= 0) return;
            add_scattered(shapes, rows * urns, length, 1 / urns);
            alone += rows * std::pow(urns, 1 - length);
        });
        return alone;
    }
    const double nnz = std::max(1.0, double(c.stats.nnz));
    double before = 0;
    for (int tile = 0; tile < tiles; tile++) {
        const double until = tile < cut.shared ? top_nnz(c.stats, double(cut.tile) * (tile + 1)) : nnz;
        const double share = (until - before) / nnz;
        before = until;
        for_each_length(c.stats, [&](double rows, double length) {
            if (length <= 0) return;
            add_scattered(shapes, rows, length, share);
            alone += rows * std::pow(share, length);
        });
    }
    return alone;
}

Prediction predict_sliced(const Case& c) {
    const bb_stats& stats = c.stats;
    if (!can_slice(c.plan, stats.cols)) return impossible();
    const Cut cut = cut_of(c.plan, stats.cols);
    const int blocks = cut.shared ? resident_blocks(c.device, tile_bytes(stats, cut.tile)) : kBlocksResident;
    if (blocks == 0) return impossible();
    const int tiles = cut.shared + cut.gathered;
    Shapes shapes(c.plan.cap, item_target(c.plan), stats.vector_bytes, cut.shared == 0);
    const double alone = cut_rows(c, cut, shapes);
    Prediction out{};
    const double windows = double((stats.rows >> kWindowBits) + 1);
    shapes.total(windows * tiles, double(stats.nnz), out);
    out.partials = std::max(0.0, shapes.chunks() - alone);
    const bool direct = out.partials < 1;
    if (tiles > 1) out.writes = shapes.chunks();
    out.launches = 1 + (direct ? 0 : 1) + (cut.by_count ? 1 : 0);

    const double hot = cut.by_count ? double(cut.tile) * cut.shared : cut.shared ? double(stats.cols) : 0;
    const double share = stats.nnz ? top_nnz(stats, hot) / double(stats.nnz) : 1.0;
    const double index = cut.index_bytes * share + 4 * (1 - share);
    out.bytes = 16 * out.items + 4 * out.chunks + out.elements * (index + stats.value_bytes);

    const double permuted = cut.by_count ? double(stats.cols) * (4 + 2 * stats.vector_bytes) : 0;
    const double moved = out.bytes + c.vectors() + out.partials * 2 * stats.vector_bytes + permuted;
    const bool crowded =
        cut.shared && stats.value_bytes > 1 &&
        blocks * (tile_bytes(stats, cut.tile) + kReservedShared) > shared_beside_loads(c.device);
    const double stream = moved / ((crowded ? kCrowdedShare : kStreamShare) * c.bandwidth(moved));
    const double grid = double(c.device.multiprocessors) * blocks;
    const double warps = double(c.device.multiprocessors) * (sliced_threads(stats.value_bytes == 0) / 32);
    const double waits = out.items / warps * kItemLatency + out.slowest;
    const double level = cut.shared ? kTiledLevelBytes : kFirstLevelBytes;
    // Without values twice as many warps gather.
    const double wait = cut.shared == 0 && stats.value_bytes == 0 ? kOnesGathers : 1.0;
    const double gathers = out.elements * share / c.constants.gather_shared +
                           wait * gather_seconds(c, hot, cut.by_count != 0, level) +
                           out.writes / (kWriteShare * c.constants.gather_l2);
    out.seconds = c.start(out.launches) + kSlicedStart + together({stream, gathers, waits});
    if (!direct)  // the second kernel visits all rows, empty ones too
        out.seconds +=
            double(stats.rows) / (double(c.device.multiprocessors) * kPlainWarps * 32) * kSumLatency;
    if (cut.shared) {
        // If there are more tiles than blocks, they follow one another.
        const double turns = std::max(1.0, cut.shared / grid);
        const double filled = std::min(grid, out.items + tiles) * double(tile_bytes(stats, cut.tile));
        const double fill = filled / (kFillSpeed * c.constants.fill_shared);
        out.seconds += turns * fill + (cut.shared > 1 ? turns * kNextTile : 0);
    }
    return out;
}

}  // namespace

const Format sliced_format = {offer_sliced, predict_sliced, true};
const Format tiled_format = {offer_tiled, predict_sliced, true};
const Format hot_format = {offer_hot, predict_sliced, true};

}  // namespace bmrm
