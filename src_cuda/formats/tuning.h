// Every limit of the blackbox and every constant of the prediction, in one table.  What differs from device
// to device is in bb_device (its data sheet) and bb_constants (measured); what is here holds for all of them.
// The terms of the prediction are how the kernels work, its constants a fit to the times of
// benchmarks/gpu/choice_gpu.py on an H200; its --refit tells what a change does.
#pragma once
#include <cstdint>

#include "runtime/occupancy.h"

namespace bmrm::tuning {

// --- kernels
// The sliced kernels keep a multiprocessor busy to the end with one block of so many threads, or two of half.
// A thread that loads no values has fewer bytes under way, and fewer registers.
constexpr int sliced_threads(bool ones) { return ones ? 1024 : 512; }
constexpr int kBinnedThreads = 1024;  // the same for the first half of BB_BINNED, whose threads hold less
constexpr int kBinnedSteps = 2;       // what it leaves to L1: products are under way beside what is loaded
// BB_SUBWARP and BB_SPLIT, which have no shared tile.
constexpr int kPlainThreads = 256;    // of a block
constexpr int kPlainWarps = 64;       // on a multiprocessor
constexpr int kSplitNonzeros = 2048;  // nonzeros of a share of BB_SPLIT
// Whether so many of their blocks run at once, and none waits for another's place.
constexpr bool all_at_once(double blocks, int multiprocessors) {
    return blocks <= double(multiprocessors) * (kPlainWarps * 32 / kPlainThreads);
}
constexpr int kCaps[] = {8, 16, 32, 64};  // nonzeros a thread takes of a fragment
constexpr int kMostCap = 0xFFF;           // what the key of a chunk has room for
constexpr int kLanes[] = {2, 4, 8, 16, 32};
constexpr int64_t kByteTile = 255;     // columns whose local index, and that of the padding, fit in one byte
constexpr int64_t kShortTile = 65535;  // ... in two
// Beyond it few warps' sums fit beside one another: two products are faster.
constexpr int64_t kNarrowColumns = kByteTile;
constexpr double kGatheredElement = 24;  // bytes that a gathered input and its index are as good as moving
constexpr double kTileCost = 40e3;       // ... that beginning another tile on a multiprocessor is
constexpr double kFillCost = 0.5;        // ... and each byte of it
constexpr int kNarrowItem = 1;           // an item of BB_NARROW is one slice
// Warps of a block of BB_NARROW: where X is small, the sums of fewer are cleared and added up sooner.
constexpr int kLeastNarrowWarps = 4, kMostNarrowWarps = 16;  // float64: half as many
constexpr double kNarrowWarpsASlice = 0.75;                  // of a multiprocessor
constexpr int kMostTiles = 255;
// Dense rows that start anywhere are read by whole loads where they are long, and so many that the shifted
// copies of the input and one more launch are little.
constexpr int64_t kShiftedColumns = 512, kShiftedRows = 32;
constexpr int64_t kShiftedBytes = 32 << 20;

// --- candidates
constexpr int kHotTiles[] = {1, 2, 4};
constexpr int kSharedCaps[] = {8, 16, 32, 64};
constexpr int64_t kFewNonzeros = 1 << 20;  // of a matrix that is worth more tiles than shared memory asks for
constexpr int64_t kFewTiles = 8;
constexpr int64_t kTileGrain = 32;     // columns of a tile are a multiple of
constexpr int64_t kBinnedGrain = 512;  // ... in BB_BINNED, of whose products half as many lie together
constexpr int kBinnedCaps[] = {16};
constexpr int kHotCaps[] = {8, 32};     // the prediction tells caps apart worse than it tells kernels apart
constexpr double kMostFragments = 0.7;  // fragments a nonzero beyond which tiles are not worth a trial
constexpr double kLeastHot = 0.1;       // share of the nonzeros that hot tiles must hold

// --- what is timed.  One product is the unit of the budget: the best prediction.
constexpr double kWorthTiming = 1.8;    // times the best prediction; what is predicted slower is not timed
constexpr double kWorthAnother = 1.25;  // ... before second candidates of a kernel
constexpr int kMostOfAKernel = 3;     // candidates of a kernel: the prediction may have a whole kernel wrong
constexpr double kTuningBudget = 50;  // products that timing may cost
constexpr int kTimedProducts = 3;     // products of a graph; it is replayed twice, after one to warm up
constexpr int kTrialProducts = 1 + 2 * kTimedProducts;
constexpr double kMostBuilding = 0.10;  // seconds that building formats for trial may take
constexpr double kBuildPasses = 50;     // times a build as good as reads and writes all indices and values

// --- row blocks
constexpr double kFreeShare = 0.95;   // of the free memory that is taken where no limit is given
constexpr int64_t kClimbedRows = 8;   // rows a column up to which those keep squares, for ascent in the dual
constexpr int64_t kPreparation = 30;  // bytes a nonzero, and 16 a row and column, beside what is kept
constexpr double kBusBytes = 25e9;    // bytes a second of a copy from pinned memory; only its order matters

// --- prediction: memory
constexpr double kCacheShare = 0.6;    // of L2 that a working set may fill and still be read from it
constexpr double kCacheSpeed = 1.30;   // bandwidth of L2 over that of memory
constexpr double kSectorBytes = 32;    // least that a gather moves
constexpr double kSectorSpeed = 1.60;  // bytes of sectors a second from L2 over the bandwidth of memory
constexpr double kFirstLevelBytes = 128 << 10;  // L1 of a multiprocessor that is left for gathers
constexpr double kTiledLevelBytes = 16 << 10;   // ... beside a shared tile
constexpr double kWriteShare = 0.79;            // scattered writes a second over gathers from L2
constexpr double kFillSpeed = 4.7;  // bytes a second of one asynchronous fill over those of many plain ones
constexpr double kOverlap = 0.73;   // share of all but the greatest of costs that is not hidden

// --- prediction: kernels
constexpr double kBodyLatency = 1.3e-6;  // seconds from the start of a kernel to its end, with nothing to do
constexpr double kNextLaunch = 1.34e-6;  // and of each launch that follows it, at hand when it ends
constexpr double kSparedByEarly = 0.64e-6;  // of the first, where it begins before what comes before it ends
constexpr double kSubwarpShare = 1.03;      // bandwidth of BB_SUBWARP over that of a plain read
constexpr double kWarpLife = 0.62e-6;       // seconds a warp of it lives
constexpr double kWarpStep = 0.19e-6;       // and for each two nonzeros of a thread, among many warps
constexpr double kRowLatency = 0.31e-6;     // ... waiting for them alone, in a long row
constexpr double kOnesLatency = 83e-9;      // ... with no values to load
constexpr double kWideLatency = 1.61;       // times that for float64
constexpr double kSplitShare = 0.64;       // bandwidth of BB_SPLIT, whose products pass through shared memory
constexpr double kSplitBlocks = 8;         // shares a multiprocessor has at a time
constexpr double kSplitStart = 1.44e-6;    // seconds of a share beside its rows
constexpr double kAddLatency = 17e-9;      // seconds to add a product from shared memory to a sum
constexpr double kPassLatency = 0.19e-6;   // seconds for a row of each thread
constexpr double kCarryLatency = 0.13e-6;  // seconds to add one carry of a row that goes on for many shares
constexpr double kStreamShare = 1.08;      // bandwidth of the sliced kernels over that of a plain read
constexpr double kCrowdedShare = 0.90;     // ... beside more shared memory than shared_beside_loads()
constexpr double kSlicedStart = 0.2e-6;    // seconds from the start of a sliced kernel to its first loads
constexpr double kItemLatency = 0.85e-6;   // seconds an item takes a warp among others
constexpr double kBatchLatency = 0.33e-6;  // seconds of a batch of quads of a warp's last item
constexpr double kThinLatency = 0.52e-6;   // ... of some slices narrower than a quad
constexpr double kEmptyLatency = 0.34e-6;  // ... of some slices of empty rows
constexpr double kNextTile = 1.2e-6;       // seconds to change from one tile to the next
constexpr double kBinnedShare = 0.92;      // bandwidth of BB_BINNED over that of a plain read
constexpr double kBinnedStart = 5.3e-6;    // seconds of its two halves beside their bytes
constexpr double kNarrowShare = 1.10;      // bandwidth of BB_NARROW over that of a plain read
constexpr double kNarrowPadding = 0.02;    // share of padding among its elements
constexpr double kNarrowItemLatency = 0.75e-6;  // seconds of a slice
constexpr double kNarrowQuadLatency = 0.42e-6;  // and of a quad beyond those held in registers
constexpr double kNarrowWeightLatency = 7e-9;   // to lay out the weight of a column
constexpr double kNarrowSumLatency = 2e-9;      // to clear and add up a warp's sums of a column
constexpr double kNarrowFinish = 1.15e-6;       // to add up the blocks

}  // namespace bmrm::tuning
