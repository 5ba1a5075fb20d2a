// The prediction: from an operator's statistics and a plan to seconds.
//
//     seconds = launches + the greatest of stream, gathers, steps + a share of the smaller ones
//               + fill of shared tiles + partial sums,
//
// where `steps` is what threads do one after another if there is too little work to hide it.
#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <numeric>

#include "choice/select.h"
#include "choice/shapes.h"
#include "formats/tuning.h"
#include "runtime/occupancy.h"

namespace bmrm {
namespace {

using namespace tuning;

// The input of a prediction.
struct Case {
    const bb_device& device;
    const bb_constants& constants;
    const bb_stats& stats;
    const bb_plan& plan;

    // Returns the bytes per second of a product that moves `bytes` in all: a working set that fits in L2
    // stays there from one product to the next.
    double bandwidth(double bytes) const {
        return constants.read * (bytes < kCacheShare * double(device.l2_bytes) ? kCacheSpeed : 1.0);
    }
    double vectors() const { return double(stats.rows + stats.cols) * stats.vector_bytes; }
    // early: the first launch begins before the product before it ends, if the device supports that.
    double start(double launches, bool early = true) const {
        const double spared = early && device.major >= 9 ? kSparedByEarly : 0;
        return constants.launch + kBodyLatency + (launches - 1) * kNextLaunch - spared;
    }
};

// Costs that hide one another, except for a share.
double together(std::initializer_list<double> costs) {
    const double most = std::max(costs), all = std::accumulate(costs.begin(), costs.end(), 0.0);
    return most + kOverlap * (all - most);
}

Prediction impossible() {
    Prediction out{};
    out.seconds = HUGE_VAL;
    return out;
}

// Returns the seconds of gathers from global memory, if the `first` most popular columns are elsewhere.
// `packed`: inputs are in order of popularity.  `level`: bytes of L1 that are left for them.
double gather_seconds(const Case& c, double first, bool packed, double level) {
    const double all = double(c.stats.nnz) - top_nnz(c.stats, first);
    if (all < 1) return 0;
    const double vector = c.stats.vector_bytes, columns = double(c.stats.cols) - first;
    const auto beyond = [&](double more) { return top_nnz(c.stats, first + more) - top_nnz(c.stats, first); };
    // Neighbours in a row share a sector, but not if columns are in order of popularity.
    const double shared = packed ? 1.0 : fragments_of(c.stats, kSectorBytes / vector) / double(c.stats.nnz);
    // L1 holds the whole vector, or what is popular: a popular input among unpopular ones takes a sector.
    const double popular = beyond(level / (packed ? vector : kSectorBytes));
    const double near = std::max(popular, all * std::min(1.0, level / (columns * vector)));
    // What L1 holds costs nothing compared with the rest, but each multiprocessor has to load it once.
    const double sectors =
        std::min({level / kSectorBytes, std::ceil(columns * vector / kSectorBytes), used_columns(c.stats)});
    const double room = sectors * c.device.multiprocessors;
    const double met = room * -std::expm1(-near * shared / room);
    const double far = (all - near) * shared + met;
    const double cacheable = kCacheShare * double(c.device.l2_bytes) / (columns * vector);
    const double cached = cacheable >= 1 ? 1.0 : beyond(cacheable * columns) / all;
    return far * (cached / c.constants.gather_l2 + (1 - cached) / c.constants.gather_memory);
}

Prediction compressed_rows(const Case& c) {
    Prediction out{};
    out.chunks = double(c.stats.rows);
    out.elements = double(c.stats.nnz);
    out.bytes = 8.0 * double(c.stats.rows + 1) + out.elements * (4 + c.stats.value_bytes);
    return out;
}

Prediction predict_subwarp(const Case& c) {
    Prediction out = compressed_rows(c);
    out.launches = 1;
    // A block stays resident until the longest of its rows is done; its rows are as good as random.
    const double lanes = c.plan.lanes, rows = std::max(1.0, double(c.stats.rows));
    const double a_block = kPlainThreads / lanes;
    double below = 0, steps = 0, fetched = 0;
    for_each_length(c.stats, [&](double count, double length) {
        const double chance = std::pow((below + count) / rows, a_block) - std::pow(below / rows, a_block);
        below += count;
        steps += rows / a_block * chance * std::ceil(length / (2 * lanes));
        // Loads of few lanes fetch more of their sectors than they use, and L1 does not keep the rest.  Short
        // rows share sectors.
        for (const double bytes : {4.0, double(c.stats.value_bytes)})
            if (bytes > 0)
                fetched += count * std::ceil(length / lanes) *
                           std::min(lanes * bytes + kSectorBytes - bytes, length * bytes);
    });
    const double moved = out.bytes + c.vectors();
    const double stream =
        std::max(moved / (kSubwarpShare * c.bandwidth(moved)), fetched / (kSectorSpeed * c.constants.read));
    const double warps_a_block = kPlainThreads / 32.0;
    const double lives = warps_a_block * (rows / a_block * kWarpLife + steps * kWarpStep);
    const double turns = lives / (double(c.device.multiprocessors) * kPlainWarps);
    const double step =
        (c.stats.value_bytes ? kRowLatency : kOnesLatency) * (c.stats.vector_bytes == 8 ? kWideLatency : 1);
    const double longest = std::ceil(double(c.stats.longest) / (2 * lanes)) * step;
    const double gathers = gather_seconds(c, 0, false, kFirstLevelBytes);
    const bool early = all_at_once(rows / a_block, c.device.multiprocessors);
    out.seconds = c.start(1, early) + together({stream, gathers, turns, longest});
    return out;
}

Prediction predict_split(const Case& c) {
    Prediction out = compressed_rows(c);
    out.launches = 2;
    const double moved = out.bytes + c.vectors();
    const double stream = moved / (kSplitShare * c.bandwidth(moved));
    const double longest = double(c.stats.longest), rows = double(c.stats.rows);
    const double shares = std::max(1.0, std::ceil(out.elements / kSplitNonzeros));
    const double turns = std::ceil(shares / (double(c.device.multiprocessors) * kSplitBlocks));
    // A share goes through its rows, including empty ones.  The longest gap between nonempty rows is likely
    // to exceed the mean by a logarithm.
    const double filled = rows - double(c.stats.empty_rows);
    const double gap = filled < rows ? std::min(rows, rows / (filled + 1) * std::log(filled + 2)) : 0;
    const double a_share = rows / shares, most = std::max(a_share, gap);
    // The more rows a share has, the fewer threads add up each row, including a long one among them.
    const double threads =
        std::clamp(kPlainThreads / std::exp2(std::ceil(std::log2(std::max(1.0, most)))), 1.0, 32.0);
    const double adding = std::min(longest, double(kSplitNonzeros)) / threads * kAddLatency;
    const double passing = (turns * a_share + most) / kPlainThreads * kPassLatency;
    // The second kernel adds up what the shares of a row have carried, one after another.
    const double carries = longest / kSplitNonzeros * kCarryLatency;
    const double gathers = gather_seconds(c, 0, false, kFirstLevelBytes);
    const bool early = all_at_once(shares, c.device.multiprocessors);
    out.seconds = c.start(1, early) + c.start(1) + kSplitStart +
                  together({stream, gathers, adding + passing}) + carries;
    return out;
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
    const double gathers = out.elements * share / c.constants.gather_shared +
                           gather_seconds(c, hot, cut.by_count != 0, level) +
                           out.writes / (kWriteShare * c.constants.gather_l2);
    out.seconds = c.start(out.launches) + kSlicedStart + together({stream, gathers, waits});
    if (cut.shared) {
        // If there are more tiles than blocks, they follow one another.
        const double turns = std::max(1.0, cut.shared / grid);
        const double filled = std::min(grid, out.items + tiles) * double(tile_bytes(stats, cut.tile));
        const double fill = filled / (kFillSpeed * c.constants.fill_shared);
        out.seconds += turns * fill + (cut.shared > 1 ? turns * kNextTile : 0);
    }
    return out;
}

// Both products of a narrow X from its rows: each warp takes a slice at a time, and in X' r adds into sums of
// its own, one set per lane.
Prediction predict_narrow(const Case& c) {
    const bb_stats& stats = c.stats;
    const bool normal = is_narrow(stats);
    const int64_t rows = normal ? stats.rows : stats.cols, columns = normal ? stats.cols : stats.rows;
    const int64_t sums = narrow_sum_bytes(stats, columns);
    if (sums > c.device.shared_per_block) return impossible();
    const int64_t room = normal ? INT64_MAX : shared_beside_loads(c.device) - kReservedShared;
    const int at_most =
        narrow_warps(c.device, (rows + 31) / 32, kMaxNarrowWarps * int(sizeof(float)) / stats.vector_bytes);
    const double warps = double(std::clamp<int64_t>(room / sums, 1, at_most));
    Prediction out{};
    out.launches = 1;
    out.chunks = double(rows);
    out.elements = (1 + kNarrowPadding) * double(stats.nnz);
    out.items = std::ceil(out.chunks / 32);
    out.bytes = 16 * out.items + 4 * out.chunks + out.elements * (1 + stats.value_bytes);
    out.partials = normal ? 0 : double(columns) * c.device.multiprocessors;
    const double moved = out.bytes + c.vectors() + out.partials * 2 * double(sizeof(double));
    const double stream = moved / (kNarrowShare * c.bandwidth(moved));
    // What is longer than a batch follows without looking ahead.
    const double turns = std::ceil(out.items / (c.device.multiprocessors * warps));
    const double wide = stats.vector_bytes / 4.0;
    const double more = std::max(0.0, out.elements / (4 * out.chunks + 1) - (wide > 1 ? 4 : 6));
    const double waits = turns * (kNarrowItemLatency + more * kNarrowQuadLatency);
    const double banks = double(columns) * wide;
    const double beside =
        normal ? banks * kNarrowWeightLatency : kNarrowFinish + banks * warps * kNarrowSumLatency;
    out.seconds = c.start(1) + beside + together({stream, waits});
    return out;
}

// Both halves stream: a nonzero's value and index in, its product out and in again, its second index in.
Prediction predict_binned(const Case& c) {
    const bb_stats& stats = c.stats;
    const double vector = stats.vector_bytes, tile = double(c.plan.tile);
    const double tiles = std::ceil(double(stats.cols) / tile), region = tile / 2 - 3 * tiles;
    if (region < 1) return impossible();
    Prediction out{};
    out.launches = 3;
    out.chunks = double(stats.rows - stats.empty_rows);
    // Bins of a tile and a region are whole quads.
    const double bins = std::min(tiles * std::ceil(double(stats.nnz) / region), double(stats.nnz));
    out.elements = double(stats.nnz) + 1.5 * bins;
    out.items = std::ceil(out.elements / (32.0 * c.plan.cap));
    out.writes = out.chunks;
    out.bytes = out.elements * (stats.value_bytes + 2 + 1 + 2 * vector + 2) + 16 * out.items + 4 * out.chunks;
    const double moved = out.bytes + c.vectors();
    const double stream = moved / (kBinnedShare * c.bandwidth(moved));
    const double fills = 2 * double(c.device.multiprocessors) * tile_bytes(stats, c.plan.tile) /
                         (kFillSpeed * c.constants.fill_shared);
    const double writes = out.writes / (kWriteShare * c.constants.gather_l2);
    out.seconds = c.start(out.launches) + kBinnedStart + stream + writes + fills;
    return out;
}

Prediction predict_dense(const Case& c) {
    Prediction out{};
    out.launches = 1;
    out.chunks = double(c.stats.rows);
    out.elements = double(c.stats.rows) * double(c.stats.cols);
    out.bytes = out.elements * c.stats.value_bytes;
    const double moved = out.bytes + c.vectors();
    out.seconds = c.start(1, false) + moved / c.bandwidth(moved);
    return out;
}

}  // namespace

Prediction predict(const bb_device& device, const bb_constants& constants, const bb_stats& stats,
                   const bb_plan& plan) {
    const Case c{device, constants, stats, plan};
    switch (plan.kernel) {
        case BB_SUBWARP:
            return predict_subwarp(c);
        case BB_SPLIT:
            return predict_split(c);
        case BB_BINNED:
            return predict_binned(c);
        case BB_DENSE:
            return predict_dense(c);
        case BB_NARROW:
            return predict_narrow(c);
        default:
            return predict_sliced(c);
    }
}

}  // namespace bmrm

extern "C" double bb_predict(const bb_device* device, const bb_constants* constants, const bb_stats* stats,
                             const bb_plan* plan) {
    return bmrm::predict(*device, *constants, *stats, *plan).seconds;
}
