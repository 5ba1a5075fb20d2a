// The formats, every limit of the blackbox, and every constant of the prediction.  What differs from device
// to device is in bb_device (its data sheet) and bb_constants (measured); the constants here hold for all
// devices. The terms of the prediction follow how the kernels work; its constants are a fit to the times that
// benchmarks/gpu/choice_gpu.py measured on an H100 and an H200.  Its option --refit shows the effect of a
// change.
#pragma once
#include <cstdint>

#include "device_limits.h"
#include "runtime/occupancy.h"

// The formats in the order of their kernels' numbers, in which plans are also offered.  choice/ has the
// Format `NAME_format` of each.  Those of one operator: formats/ has the function `make_NAME` that builds a
// product.
#define BMRM_OPERATOR_FORMATS(FORMAT)                                                                      \
    FORMAT(BB_SUBWARP, subwarp) /* compressed rows, `lanes` threads per row */                             \
    FORMAT(BB_SPLIT, split)     /* compressed rows, equal shares of nonzeros whatever the rows */          \
    FORMAT(BB_SLICED, sliced)   /* slices of rows of similar length; inputs from global memory */          \
    FORMAT(BB_TILED, tiled)     /* slices within tiles of `tile` columns; inputs in shared memory */       \
    FORMAT(BB_HOT, hot)         /* columns by popularity: `tiles` tiles in shared memory, then the rest */ \
    FORMAT(BB_BINNED, binned)   /* tiles of `tile` columns, then regions of as many products */            \
    FORMAT(BB_MIXED, mixed)     /* long rows in tiles of `tile` columns, the others gathered */
// And those of X as a whole, which serve both operators: matrix/row_block.cu builds them.
#define BMRM_FORMATS(FORMAT)                    \
    BMRM_OPERATOR_FORMATS(FORMAT)               \
    FORMAT(BB_NARROW, narrow) /* few columns */ \
    FORMAT(BB_DENSE, dense)   /* row-major dense */

#define BMRM_NUMBER(number, name) number,
enum bb_kernel {
    BMRM_FORMATS(BMRM_NUMBER) BB_KERNELS  // the number of kernels
};
#undef BMRM_NUMBER

namespace bmrm::tuning {

// --- kernels

// Threads of a block of the sliced kernels.  One block of this size keeps a multiprocessor busy to the end,
// and so do two of half the size.  A thread that loads no values has fewer bytes in flight, and fewer
// registers.
constexpr int sliced_threads(bool ones) { return ones ? 1024 : 512; }
constexpr int kBinnedThreads = 1024;  // the same for the first half of BB_BINNED, whose threads hold less
constexpr int kBinnedSteps = 2;       // splits of memory that it leaves to L1, for products in flight
// BB_SUBWARP and BB_SPLIT, which have no shared tile.
constexpr int kPlainThreads = 256;  // threads per block
constexpr int kPlainWarps = 64;     // warps per multiprocessor
// Whether `blocks` of their blocks all run at once, so that none waits for another to end.
constexpr bool all_at_once(double blocks, int multiprocessors) {
    return blocks <= double(multiprocessors) * (kPlainWarps * 32 / kPlainThreads);
}
constexpr int kCaps[] = {8, 16, 32, 64};  // candidates: maximum nonzeros per thread and fragment, BB_SLICED
constexpr int kMaxCap = 0xFFF;            // of a plan: what the key of a chunk has room for
constexpr int kLanes[] = {2, 4, 8, 16, 32};  // candidates: threads per row, BB_SUBWARP
constexpr int64_t kByteTile = 255;     // maximum columns of a tile with one-byte indices, one for padding
constexpr int64_t kShortTile = 65535;  // ... with two-byte indices
// Maximum columns for BB_NARROW: with more, only a few warps' sums fit in shared memory.
constexpr int64_t kNarrowColumns = kByteTile;
constexpr double kGatheredElement = 24;  // cost of a gathered input and its index, in bytes moved
constexpr double kTileCost = 40e3;       // ... of beginning another tile on a multiprocessor
constexpr double kFillCost = 0.5;        // ... of each byte of that tile
constexpr int kNarrowItem = 1;           // slices per item of BB_NARROW
// Warps per block of BB_NARROW: if X is small, the sums of fewer warps are cleared and added up sooner.
constexpr int kMinNarrowWarps = 4;
constexpr int kMaxNarrowWarps = 16;            // half as many in float64
constexpr double kNarrowWarpsPerSlice = 0.75;  // warps per slice of a multiprocessor
constexpr int kMaxTiles = 255;                 // shared tiles of an operator
// Dense rows that start at any address are read by 16-byte loads if X is large enough for the shifted copies
// of the input, and one more launch, to cost little: at least this many columns, rows and bytes.
constexpr int64_t kShiftedColumns = 512;
constexpr int64_t kShiftedRows = 32;
constexpr int64_t kShiftedBytes = 32 << 20;

// --- candidates
constexpr int kHotTiles[] = {1, 2, 4};          // tiles, BB_HOT
constexpr int kSharedCaps[] = {8, 16, 32, 64};  // caps, BB_TILED
constexpr int kBinnedCaps[] = {16};             // caps, BB_BINNED
constexpr int kHotCaps[] = {8, 32};        // caps, BB_HOT: the prediction separates caps worse than kernels
constexpr int64_t kFewNonzeros = 1 << 20;  // a matrix with at most this many is also tried with kFewTiles
constexpr int64_t kFewTiles = 8;           // more than shared memory requires
constexpr int64_t kTileGrain = 32;         // columns of a tile are a multiple of this
constexpr int64_t kBinnedGrain = 512;      // ... in BB_BINNED, where half as many products lie together
constexpr double kMaxFragments = 0.7;      // fragments per nonzero above which tiles are not tried
constexpr double kMinHot = 0.1;            // share of the nonzeros that hot tiles must hold
constexpr int64_t kLongFragment = 8;       // nonzeros per tile of a row in tiles, BB_MIXED
constexpr double kMinLong = 0.15;          // share of the nonzeros that such rows must hold
constexpr double kMaxLong = 0.98;          // ... above which BB_TILED does as well

// --- trials.  The unit of the budget is one product of the best predicted plan.
constexpr double kWorthTiming = 1.8;    // plans predicted slower than this, times the best, are not timed
constexpr double kWorthAnother = 1.25;  // ... for the first candidate of a kernel
constexpr int kMaxPerKernel = 3;        // candidates per kernel: the prediction may have a whole kernel wrong
constexpr double kTuningBudget = 50;    // products that timing may cost
constexpr int kTimedProducts = 3;  // products per graph, which is replayed twice after one product to warm up
constexpr int kTrialProducts = 1 + 2 * kTimedProducts;  // products per trial
constexpr double kMaxBuilding = 0.10;                   // seconds that building formats for trials may take
constexpr double kBuildPasses = 50;  // cost of a build, in reads and writes of all indices and values

// --- row blocks
constexpr int64_t kPreparation = 30;  // bytes per nonzero that preparation takes besides the result
constexpr double kBusBytes = 25e9;    // bytes/s of a copy from pinned memory; only its order matters

// --- prediction: memory
constexpr double kCacheShare = 0.628;  // share of L2 that a working set may fill and still be read from it
constexpr double kCacheSpeed = 1.76;   // bandwidth of L2, relative to that of memory
constexpr double kSectorBytes = 32;    // minimum bytes that a gather moves
constexpr double kSectorSpeed = 1.55;  // bandwidth of gathered sectors from L2, relative to that of memory
constexpr double kFirstLevelBytes = 94 << 10;  // L1 per multiprocessor that is left for gathers
constexpr double kTiledLevelBytes = 16 << 10;  // ... besides a shared tile
constexpr double kFirstLevelSpeed = 0.65;  // rate of gathers from L1, relative to those from shared memory
constexpr double kLocalPower = 1.94;       // of the share of gathers near those of other rows
constexpr double kOnesGathers = 0.71;      // time of gathers of sliced kernels without values, to others
constexpr double kWriteShare = 0.63;       // rate of scattered writes, relative to gathers from L2
constexpr double kFillSpeed = 5.39;        // rate of one asynchronous fill, relative to many plain ones
constexpr double kOverlap = 0.524;         // share of the other costs that the greatest does not hide

// --- prediction: kernels.  Latencies are seconds; shares are bandwidths relative to that of a plain read.
constexpr double kBodyLatency = 0.958e-6;  // from the start of an empty kernel to its end
constexpr double kNextLaunch = 1.48e-6;    // per later launch of a product, resident when the first one ends
constexpr double kSparedByEarly = 0.768e-6;  // saved if the first launch begins before the one before it ends
constexpr double kSubwarpShare = 1.1;        // BB_SUBWARP
constexpr double kWarpLife = 0.693e-6;       // ... per warp
constexpr double kWarpStep = 0.151e-6;       // ... per two nonzeros of a thread, among many warps
constexpr double kRowLatency = 0.16e-6;      // ... per two nonzeros of a thread, alone in a long row
constexpr double kOnesLatency = 0.105e-6;    // ... the same without values to load
constexpr double kRowsLatency = 7.18e-9;     // ... more for each row that a warp reads at a time
constexpr double kWideLatency = 1.82;        // factor of these in float64
constexpr double kSplitShare = 0.64;         // BB_SPLIT, whose products pass through shared memory
constexpr double kSplitBlocks = 8;           // ... shares per multiprocessor at a time
constexpr double kSplitStart = 1.44e-6;      // ... per share, besides its rows
constexpr double kAddLatency = 17e-9;        // ... to add a product from shared memory to a sum
constexpr double kPassLatency = 0.19e-6;     // ... per row of each thread
constexpr double kCarryLatency = 0.13e-6;    // ... to add one carry of a row that spans many shares
constexpr double kStreamShare = 1.14;        // sliced kernels
constexpr double kCrowdedShare = 0.993;      // ... with more shared memory than shared_beside_loads()
constexpr double kSlicedStart = 0.208e-6;    // ... from the start of the kernel to its first loads
constexpr double kItemLatency = 1.12e-6;     // ... per item of a warp, among other warps
constexpr double kBatchLatency = 0.381e-6;   // ... per batch of quads of a warp's last item
constexpr double kThinLatency = 0.42e-6;     // ... per group of slices that are narrower than a quad
constexpr double kEmptyLatency = 0.602e-6;   // ... per group of slices of empty rows
constexpr double kSumLatency = 0.338e-6;     // ... per row of each thread that adds up partial sums
constexpr double kNextTile = 0.348e-6;       // ... to change from one tile to the next
constexpr double kBinnedShare = 1.2;         // BB_BINNED
constexpr double kBinnedStart = 3.09e-6;     // ... its two halves, besides their bytes
constexpr double kNarrowShare = 1.3;         // BB_NARROW
constexpr double kNarrowPadding = 0.02;      // ... share of padding among its elements
constexpr double kNarrowItemLatency = 0.836e-6;   // ... per slice
constexpr double kNarrowQuadLatency = 0.4e-6;     // ... per quad beyond those held in registers
constexpr double kNarrowWeightLatency = 8.88e-9;  // ... to lay out the weight of a column
constexpr double kNarrowSumLatency = 1.37e-9;     // ... to clear and add up a warp's sums of a column
constexpr double kNarrowFinish = 1.13e-6;         // ... to add up the sums of blocks

}  // namespace bmrm::tuning
