#include <algorithm>
#include <cmath>

#include "choice/format.h"
#include "runtime/occupancy.h"

namespace bmrm {
namespace {

using namespace tuning;

// For matrices of which tiles would leave fragments of one or two nonzeros.
void offer_binned(const bb_device& device, const bb_stats& stats, Plans& plans) {
    // The second half has two blocks per multiprocessor.
    const int64_t most = 2 * widest_tile(device, stats, shared_beside_loads(device, kBinnedSteps), 2);
    const int64_t tile = most / kBinnedGrain * kBinnedGrain;
    if (tile < 1 || stats.cols <= tile) return;
    const int64_t tiles = divided(stats.cols, tile), region = tile / 2 - 3 * tiles;
    if (region < tile / 4 || stats.nnz / region >= kShortTile) return;
    for (int cap : kBinnedCaps) plans.add(BB_BINNED, 0, cap, 0, tile);
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

}  // namespace

const Format binned_format = {offer_binned, predict_binned, true};

}  // namespace bmrm
