// Limits of code for GPUs that Python must know even where none is compiled: bounds of rounding, and
// predictions of memory and time, rest on them. `bmrm.matrix._cpu` and `_manifold` export them.
#pragma once
#include <cstdint>

namespace bmrm {

namespace tuning {

constexpr int kSplitNonzeros = 2048;  // nonzeros per share of BB_SPLIT
constexpr double kFreeShare = 0.95;   // share of the free memory that is used if no limit is given
constexpr int64_t kClimbedRows = 8;   // rows per column up to which squares of rows are kept, for dual ascent

}  // namespace tuning

constexpr int kPieceNonzeros = 256;   // nonzeros of a warp of BB_SPLIT with several vectors
constexpr int kPartialThreads = 256;  // threads that add up the partial sums of a long row

// Uploads of pageable memory by threads, each with two pinned pieces
constexpr int kMaxUploadThreads = 8;           // they fill the bus of an H100
constexpr int64_t kPinnedPiece = 2 << 20;      // bytes of a piece
constexpr int64_t kMinPinnedBytes = 16 << 20;  // bytes from which on threads pay

// Pairs of points
constexpr int kMaxPairAxes = 16;      // coordinates of a point
constexpr int kMaxPairProducts = 64;  // inner products at once
constexpr int kSquaredColumns = 8;    // numbers of a point that squared dissimilarities multiply at once
constexpr int kPairThreads = 128;     // threads of a tile
constexpr int kMostColumns = 4 * kPairThreads;  // columns of a tile, in two or three dimensions
constexpr int kMostFloatTerms = 16;             // terms in float32 that are added in it, on a CPU too
constexpr int64_t kMostStrips = 160;            // tiles of a column of pairs, up to 163,840 points

}  // namespace bmrm
