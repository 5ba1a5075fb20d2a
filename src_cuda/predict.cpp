// The prediction: from an operator's statistics and a plan to seconds.
//
//     seconds = launches + the greatest of stream, gathers, steps + a share of the lesser ones
//               + fill of shared tiles + partial sums,
//
// where `steps` is what threads take one after another when there is too little work to hide it.
#include <algorithm>
#include <cmath>

#include "select.h"
#include "shapes.h"
#include "tuning.h"

namespace bmrm {
namespace {

using namespace tuning;

// What a prediction is made from.
struct Case {
    const bb_device& device;
    const bb_constants& constants;
    const bb_stats& stats;
    const bb_plan& plan;

    // Bytes a second for a product that moves so many in all: what fits in L2 stays there from one to the
    // next.
    double bandwidth(double bytes) const {
        return constants.read * (bytes < kCacheShare * double(device.l2_bytes) ? kCacheSpeed : 1.0);
    }
    double vectors() const { return double(stats.rows + stats.cols) * stats.vector_bytes; }
    double start(double launches) const { return launches * (constants.launch + kBodyLatency); }
};

// Costs that hide each other, all but a share.
double together(double stream, double gathers, double steps) {
    const double most = std::max({stream, gathers, steps});
    return most + kOverlap * (stream + gathers + steps - most);
}

// Seconds for `items` in rounds of as many as there are warps.
double item_rounds(const Case& c, double items, double warps) {
    const double rounds = std::ceil(items / (c.device.multiprocessors * warps));
    return rounds * (kItemLatency + item_target(c.plan) / 4.0 * kQuadLatency);
}

Prediction impossible() {
    Prediction out{};
    out.seconds = HUGE_VAL;
    return out;
}

// Seconds for the gathers from global memory, the `first` most popular columns being elsewhere.
// `packed`: inputs lie in order of popularity.
double gather_seconds(const Case& c, double first, bool packed) {
    const double all = double(c.stats.nnz) - top_nnz(c.stats, first);
    if (all <= 0) return 0;
    const double vector = c.stats.vector_bytes, columns = double(c.stats.cols) - first;
    const auto beyond = [&](double more) { return top_nnz(c.stats, first + more) - top_nnz(c.stats, first); };
    // A popular input that lies among unpopular ones takes a whole sector of L1.
    const double near = beyond(kFirstLevelBytes / (packed ? vector : kSectorBytes));
    // Neighbours in a row share a sector; columns by popularity are no neighbours any more.
    const double shared = packed ? 1.0 : fragments_of(c.stats, kSectorBytes / vector) / double(c.stats.nnz);
    const double far = (all - near) * shared;
    const double room = kCacheShare * double(c.device.l2_bytes) / (columns * vector);
    const double cached = room >= 1 ? 1.0 : beyond(room * columns) / all;
    return near / (kFirstLevelRate * c.constants.gather_shared) + far * cached / c.constants.gather_l2 +
           far * (1 - cached) / c.constants.gather_memory;
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
    // A warp takes as many steps as the longest of its rows, which are as good as drawn at random.
    const double lanes = c.plan.lanes, together_rows = 32 / lanes, rows = double(c.stats.rows);
    double below = 0, steps = 0;
    for_each_length(c.stats, [&](double count, double length) {
        const double chance =
            std::pow((below + count) / rows, together_rows) - std::pow(below / rows, together_rows);
        below += count;
        steps += rows / together_rows * chance * std::ceil(length / lanes);
    });
    const double moved = out.bytes + c.vectors();
    const double stream = moved / (kSubwarpShare * c.bandwidth(moved));
    const double warps = double(c.device.multiprocessors) * kPlainWarps;
    const double waits = kRowLatency * std::max(steps / warps, double(c.stats.longest) / lanes);
    const double work = 32 * steps / (kStepRate * c.constants.gather_shared);
    out.seconds = c.start(1) + together(stream, gather_seconds(c, 0, false), std::max(work, waits));
    return out;
}

Prediction predict_split(const Case& c) {
    Prediction out = compressed_rows(c);
    out.launches = 2;
    const double moved = out.bytes + c.vectors();
    const double stream = moved / (kSplitShare * c.bandwidth(moved));
    const double work = 2 * (out.elements + out.chunks) / (kStepRate * c.constants.gather_shared);
    // The second kernel adds up what the shares of a row have carried, one after another.
    const double carries = double(c.stats.longest) / kSplitNonzeros * kCarryLatency;
    out.seconds = c.start(2) + together(stream, gather_seconds(c, 0, false), work) + carries;
    return out;
}

// Shapes of the chunks that a sliced plan makes.
void cut_rows(const Case& c, const Cut& cut, Shapes& shapes) {
    const int tiles = cut.shared + cut.gathered;
    if (tiles <= 1)
        return for_each_length(c.stats, [&](double rows, double length) { shapes.add(rows, length); });
    if (c.plan.kernel == BB_TILED) {
        const double urns = effective_tiles(c.stats, tiles, fragments_of(c.stats, double(cut.tile)));
        return for_each_length(c.stats, [&](double rows, double length) {
            if (length > 0) add_scattered(shapes, rows * urns, length, 1 / urns);
        });
    }
    const double nnz = std::max(1.0, double(c.stats.nnz));
    double before = 0;
    for (int tile = 0; tile < tiles; tile++) {
        const double until = tile < cut.shared ? top_nnz(c.stats, double(cut.tile) * (tile + 1)) : nnz;
        const double share = (until - before) / nnz;
        before = until;
        for_each_length(c.stats, [&](double rows, double length) {
            if (length > 0) add_scattered(shapes, rows, length, share);
        });
    }
}

Prediction predict_sliced(const Case& c) {
    const bb_stats& stats = c.stats;
    if (!can_slice(c.plan, stats.cols)) return impossible();
    const Cut cut = cut_of(c.plan, stats.cols);
    const int blocks = cut.shared ? resident_blocks(c.device, tile_bytes(stats, cut.tile)) : kBlocksResident;
    if (blocks == 0) return impossible();
    const int tiles = cut.shared + cut.gathered;
    const bool direct = tiles <= 1 && chunks_of(stats.longest, c.plan.cap) == 1;
    Shapes shapes(c.plan.cap, item_target(c.plan));
    cut_rows(c, cut, shapes);
    Prediction out{};
    const double windows = double((stats.rows >> kWindowBits) + 1);
    shapes.total(windows * tiles, double(stats.nnz), out);
    out.partials = direct ? 0 : shapes.chunks();
    out.launches = 1 + (direct ? 0 : 1) + (cut.by_count ? 1 : 0);

    const double hot = cut.by_count ? double(cut.tile) * cut.shared : cut.shared ? double(stats.cols) : 0;
    const double share = stats.nnz ? top_nnz(stats, hot) / double(stats.nnz) : 1.0;
    const double index = cut.index_bytes * share + 4 * (1 - share);
    out.bytes = 16 * out.items + 4 * out.chunks + out.elements * (index + stats.value_bytes);

    const double grid = double(c.device.multiprocessors) * blocks;
    const double moved = out.bytes + c.vectors();
    const double stream = moved / (kStreamShare * (blocks > 1 ? 1.0 : kOneBlock) * c.bandwidth(moved));
    const double waits = item_rounds(c, out.items, kBlockThreads / 32);
    const double gathers =
        out.elements * share / c.constants.gather_shared + gather_seconds(c, hot, cut.by_count != 0);
    out.seconds = c.start(out.launches) + together(stream, gathers, waits);
    if (cut.shared) {
        // Shares of the blocks begin and end within tiles, so that most blocks meet one tile more than they
        // need.
        const double fills = cut.shared > 1 ? 1 + std::ceil(cut.shared / grid) : 1;
        out.seconds += fills * grid * double(tile_bytes(stats, cut.tile)) / c.constants.fill_shared;
    }
    const double permuted = cut.by_count ? double(stats.cols) * (4 + 2 * stats.vector_bytes) : 0;
    const double added = direct ? 0 : out.partials * 2 * stats.vector_bytes + double(stats.rows) * 4;
    out.seconds += (permuted + added) / c.bandwidth(permuted + added);
    return out;
}

// X' r from the rows of a narrow X: each warp adds into sums of its own, a lane apart from the others.
Prediction predict_narrow_transposed(const Case& c) {
    const bb_stats& stats = c.stats;
    const int64_t sums = narrow_sum_bytes(stats, stats.rows);
    const int64_t room =
        std::min(c.device.shared_per_block, c.device.shared_per_multiprocessor - kReservedShared);
    const double warps = double(std::min<int64_t>(kBlockThreads / 32, room / sums));
    if (warps < 1) return impossible();
    Prediction out{};
    out.launches = 1;
    out.chunks = double(stats.cols);
    out.elements = (1 + kNarrowPadding) * double(stats.nnz);
    out.items = std::ceil(out.elements / (32.0 * kNarrowItem));
    const double index = stats.rows <= kByteTile ? 1 : 2;
    out.bytes = 16 * out.items + 4 * out.chunks + out.elements * (index + stats.value_bytes);
    out.partials = double(stats.rows) * c.device.multiprocessors;
    const double moved = out.bytes + c.vectors() + out.partials * 2 * double(sizeof(double));
    const double stream = moved / (kStreamShare * c.bandwidth(moved));
    const double rate = kNarrowRate * c.constants.gather_shared * std::min(1.0, warps / kNarrowWarps);
    const double waits = item_rounds(c, out.items, warps);
    const double clearing = 2 * warps * double(sums) * c.device.multiprocessors / c.constants.fill_shared;
    out.seconds = c.start(1) + kBodyLatency + together(stream, out.elements / rate, waits) + clearing;
    return out;
}

// Both halves stream: a nonzero's value and index in, its product out and in again, its second index in.
Prediction predict_binned(const Case& c) {
    const bb_stats& stats = c.stats;
    Prediction out{};
    out.launches = 3;
    out.chunks = double(stats.rows - stats.empty_rows);
    out.elements = double(stats.nnz);
    out.items = std::ceil(out.elements / (32.0 * c.plan.cap));
    out.partials = out.chunks;
    out.bytes =
        out.elements * (stats.value_bytes + 2 + 2 * stats.vector_bytes + 2) + 16 * out.items + 4 * out.chunks;
    const double moved = out.bytes + c.vectors() + out.partials * (4 + 2 * stats.vector_bytes);
    const double stream = moved / (kBinnedShare * c.bandwidth(moved));
    const double fills =
        double(c.device.multiprocessors) * tile_bytes(stats, c.plan.tile) / c.constants.fill_shared;
    out.seconds = c.start(out.launches) + stream + fills;
    return out;
}

Prediction predict_dense(const Case& c) {
    Prediction out{};
    out.launches = 1;
    out.chunks = double(c.stats.rows);
    out.elements = double(c.stats.rows) * double(c.stats.cols);
    out.bytes = out.elements * c.stats.value_bytes;
    const double moved = out.bytes + c.vectors();
    out.seconds = c.start(1) + moved / c.bandwidth(moved);
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
            return is_narrow(stats) ? predict_sliced(c) : predict_narrow_transposed(c);
        default:
            return predict_sliced(c);
    }
}

}  // namespace bmrm

extern "C" double bb_predict(const bb_device* device, const bb_constants* constants, const bb_stats* stats,
                             const bb_plan* plan) {
    return bmrm::predict(*device, *constants, *stats, *plan).seconds;
}
