// What each block of a sliced product takes.  Items are in order of tiles.  To begin another tile costs a
// block a copy of its inputs and the wait for it.  With that cost counted, all blocks should end together:
// most shares of a short product end with a tile, and the shares of a long one that go on into the next tile
// are smaller.
//
// Host code, so that the shares are tested without a device.
#pragma once
#include <vector>

#include "formats/sliced.h"

namespace bmrm {

// Items of a tile that cost the same.
struct ItemRun {
    uint32_t items, tile;
    double cost;
};

// Returns the cost of beginning a tile of `tile_bytes` bytes, for a block of `resident` ones per
// multiprocessor, in bytes that it moves.
double fill_cost(int64_t tile_bytes, int resident);

// Returns the share of each block, a stretch of items, in order; shares of blocks for which nothing is left
// are empty.  `fill`: the cost of beginning one of the first `tiles` tiles; the gathered tile costs nothing.
std::vector<BlockShare> share_out(const std::vector<ItemRun>& runs, int tiles, double fill, int blocks);

}  // namespace bmrm
