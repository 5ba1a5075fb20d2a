#include "formats/shares.h"

#include <algorithm>
#include <utility>

#include "formats/tuning.h"

namespace bmrm {
namespace {

constexpr int kHalvings = 20;  // bisection steps of the search for the smallest room

// Deals the items out.  Each block takes what fits into `room`, and at least one item.  Returns false if
// there are too few blocks.
bool deal(const std::vector<ItemRun>& runs, int tiles, double fill, double room,
          std::vector<BlockShare>& shares) {
    size_t block = 0;
    double left = room;
    bool fresh = true;
    uint32_t at = 0, last_tile = 0;
    for (const ItemRun& run : runs) {
        const double to_begin = run.tile < uint32_t(tiles) ? fill : 0;
        for (const uint32_t stop = at + run.items; at < stop;) {
            const double begins = fresh || run.tile != last_tile ? to_begin : 0;
            const double fitting = std::clamp((left - begins) / run.cost, 0.0, double(stop - at));
            if (fitting < 1 && !fresh) {
                if (++block == shares.size()) return false;
                left = room;
                fresh = true;
                continue;
            }
            BlockShare& share = shares[block];
            if (fresh) share = {at, at, at, run.tile};
            const uint32_t taken = std::max(1u, uint32_t(fitting));
            left -= begins + taken * run.cost;
            at += taken;
            share.end = at;
            if (run.tile == share.tile) share.of_tile = at;
            last_tile = run.tile;
            fresh = false;
        }
    }
    return true;
}

}  // namespace

double fill_cost(int64_t tile_bytes, int resident) {
    return tuning::kFillCost * double(tile_bytes) + tuning::kTileCost / resident;
}

std::vector<BlockShare> share_out(const std::vector<ItemRun>& runs, int tiles, double fill, int blocks) {
    uint32_t items = 0;
    double total = 0, largest = 0;
    for (const ItemRun& run : runs) {
        items += run.items;
        total += run.items * run.cost;
        largest = std::max(largest, run.cost);
    }
    const std::vector<BlockShare> none(static_cast<size_t>(blocks), BlockShare{items, items, items, 0});
    // Bounds of the room.  A block leaves less than one fill and one item unused; besides the fill that it
    // begins with, there is one for each other tile.
    double less = total / blocks, enough = less + fill * (2 + double(tiles) / blocks) + 2 * largest;
    std::vector<BlockShare> shares = none;
    deal(runs, tiles, fill, enough, shares);
    for (int step = 0; step < kHalvings; step++) {
        const double middle = (less + enough) / 2;
        std::vector<BlockShare> trial = none;
        if (deal(runs, tiles, fill, middle, trial)) {
            enough = middle;
            shares = std::move(trial);
        } else {
            less = middle;
        }
    }
    return shares;
}

}  // namespace bmrm
