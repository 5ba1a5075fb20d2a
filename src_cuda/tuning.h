// Every limit of the blackbox and every constant of the prediction, in one table.  What differs from device
// to device is in bb_device (its data sheet) and bb_constants (measured); what is here holds for all of them.
// The constants of the prediction are estimates from how the kernels work; benchmarks/choice_gpu.py measures
// how well they choose, and its --refit tells what a change to them does.
#pragma once
#include <cstdint>

namespace bmrm::tuning {

// --- kernels
// The sliced kernels keep a multiprocessor busy to the end with one block of so many threads, or two of half.
constexpr int kBlockThreads = 512;
constexpr int kBinnedThreads = 1024;  // the same for the first half of BB_BINNED, whose threads hold less
constexpr int kBlocksResident = 2;
constexpr int64_t kReservedShared = 1024;  // bytes of shared memory that the driver takes for each block
constexpr int kCaps[] = {8, 16, 32, 64};   // nonzeros a thread takes of a fragment
constexpr int kMostCap = 0xFFF;            // what the key of a chunk has room for
constexpr int kLanes[] = {2, 4, 8, 16, 32};
constexpr int64_t kByteTile = 255;     // columns whose local index, and that of the padding, fit in one byte
constexpr int64_t kShortTile = 65535;  // ... in two
constexpr int64_t kNarrowColumns = 400;
constexpr double kGatheredElement = 24;  // bytes that a gathered input and its index are as good as moving
constexpr int kNarrowItem = 1;           // an item of BB_NARROW is one slice
constexpr int kMostTiles = 255;

// --- candidates
constexpr int kHotTiles[] = {1, 2, 4};
constexpr int kSharedCaps[] = {8, 16, 32, 64};
constexpr int kBinnedCaps[] = {16, 64};
constexpr int kHotCaps[] = {8, 32};     // the prediction tells caps apart worse than it tells kernels apart
constexpr double kMostFragments = 0.7;  // fragments a nonzero beyond which tiles are not worth a trial
constexpr double kLeastHot = 0.1;       // share of the nonzeros that hot tiles must hold

// --- what is timed.  One product is the unit of the budget: the best prediction.
constexpr double kWorthTiming = 1.8;  // times the best prediction; what is predicted slower is not timed
constexpr int kMostTimed = 8;         // candidates
constexpr double kTuningBudget = 50;  // products that building formats and timing them may cost
constexpr double kFusedWorth =
    0.8;                           // what the narrow form's time counts for X w, as it has the fused pass too
constexpr int kTimedProducts = 3;  // products a candidate is timed by, one to warm up included
constexpr double kBuildPasses = 10;  // times a build reads and writes all indices and values

// --- prediction: memory
constexpr double kCacheShare = 0.6;             // of L2 that a working set may fill and still be read from it
constexpr double kCacheSpeed = 1.5;             // bandwidth of L2 over that of memory
constexpr double kSectorBytes = 32;             // least that a gather moves
constexpr double kFirstLevelBytes = 128 << 10;  // L1 of a multiprocessor that is left for gathers
constexpr double kFirstLevelRate = 0.5;         // gathers from L1 over those from shared memory
constexpr double kOverlap = 0.25;  // share of the lesser of two costs (stream, gathers) that is not hidden

// --- prediction: kernels
constexpr double kBodyLatency = 1.5e-6;   // seconds from the start of a kernel to the end of its first items
constexpr double kItemLatency = 1.0e-6;   // seconds an item takes a warp, when nothing else holds it up
constexpr double kQuadLatency = 0.04e-6;  // and for each four nonzeros of a thread
constexpr double kRowLatency = 0.12e-6;   // and a step of BB_SUBWARP, which holds few loads in flight
constexpr double kOneBlock = 0.95;        // bandwidth with one block a multiprocessor over that with two
constexpr double kStreamShare = 0.93;     // bandwidth of the sliced kernels over that of a plain read
constexpr double kSubwarpShare = 0.85;    // ... of BB_SUBWARP
constexpr double kSplitShare = 0.75;      // ... of BB_SPLIT, whose products pass through shared memory
constexpr double kStepRate = 1.0;         // nonzeros a second through a thread's loop, over gather_shared
constexpr double kNarrowRate = 0.9;  // additions to lane-private sums over gather_shared, with warps enough
constexpr double kNarrowWarps = 16;  // warps a multiprocessor that reach that rate
constexpr double kNarrowPadding = 0.02;   // share of padding among the elements of a narrow matrix
constexpr double kSplitNonzeros = 2048;   // nonzeros of a share of BB_SPLIT
constexpr double kCarryLatency = 0.3e-6;  // seconds to add one carry of a row that goes on for many shares
constexpr double kBinnedShare = 0.75;  // bandwidth of the two halves of BB_BINNED over that of a plain read
constexpr int kPlainWarps = 64;        // warps a multiprocessor of the kernels without a shared tile

}  // namespace bmrm::tuning
