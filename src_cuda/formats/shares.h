// What each block of a sliced product takes.  Items are in order of tiles, and to begin another tile costs a
// block a copy of its inputs and the wait for it.  With that counted, all blocks are to end together: most
// shares of a short product end with a tile, and those of a long one that go on into the next are smaller.
//
// Host code, so that the blocks' shares are tested without a device.
#pragma once
#include <vector>

#include "formats/sliced.h"

namespace bmrm {

// Items of a tile that cost the same.
struct ItemRun {
    uint32_t items, tile;
    double cost;
};

// What it costs a block to begin a tile of so many bytes, of `resident` blocks on a multiprocessor, as bytes
// that it moves.
double fill_cost(int64_t tile_bytes, int resident);

// Shares that are each a stretch of items, in order; blocks for which nothing is left have none of them.
// `fill`: the cost of beginning one of the first `tiles` tiles; the gathered one costs nothing.
std::vector<BlockShare> share_out(const std::vector<ItemRun>& runs, int tiles, double fill, int blocks);

}  // namespace bmrm
