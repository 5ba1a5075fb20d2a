// Names that the kernels of every instruction set share.
//
// The kernels are written once, with the vector extensions of GCC and Clang, and compiled three times
// (dispatch.h): for AVX-512, for AVX2 with FMA and for whatever the compiler targets by default. They
// compute with packs of 8 doubles, held in one, two or four registers (pack.h); the order of every
// sum is the same in all three, which thus differ by the rounding of fused multiply-adds alone.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "common/integers.h"

namespace bmrm {

/// Value type of a matrix whose stored entries are all 1: no values are kept.
struct One {};

/// A column of several, and the factor of what is added to it.
struct Change {
    i64 column;
    double factor;
};

/// Lanes 0 .. n-1 all ones, the others zero: load at kLaneMask + 8 - n.
alignas(64) inline const i64 kLaneMask[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};

/// Entries between the one in use and the one prefetched. The hardware prefetchers of the x86
/// cores measured stop at 4 KiB pages and lose the streams among the gathers: without the hint
/// text-like matrices run at half the speed.
constexpr i64 kAhead = 1024;

/// How near __builtin_prefetch brings what it fetches.
constexpr int kIntoL1 = 3, kIntoL2 = 2;

/// Bytes by which a dense row that streams from memory is fetched early.
constexpr i64 kStreamAhead = 8192;

/// Entries between the one in use and the one whose place in a long vector is fetched. Indices of four bytes
/// stand for vectors beyond the second level of cache: their misses then overlap further than the processor
/// looks ahead by itself (128 to 512 entries do about as well on Zen 5, 32 do nothing).
constexpr i64 kFetchAhead = 256;

/// The same for rows of sums, of which one is a line of the cache or more.
constexpr i64 kSumsAhead = 32;

/// Rows at most this long are summed eight at a time where they are of about the same length.
constexpr i64 kShortRow = 32;

/// Index arrays end in this many valid (zero) entries: tails read eight at once, short rows up to kShortRow,
/// and places are fetched kFetchAhead early.
constexpr i64 kIndexPad = kFetchAhead + 64;

/// Rows and columns of a tile of X^T diag(s) X that is held in registers, X dense.
constexpr i64 kOuterRows = 4, kOuterColumns = 16;
/// Rows of X that are packed for one pass over such a sum.
constexpr i64 kPacked = 64;

/// Widths for which products of several columns at once are compiled; K columns take the next larger one.
constexpr int kWidths = 6;
constexpr i64 kWidth[kWidths] = {2, 4, 8, 16, 24, 32};

/// Rows whose several columns are padded to such a width at a time.
constexpr i64 kPaddedRows = 64;

/// Vectors of L doubles, floats or integers.
template <int L>
struct Lanes;
#define BMRM_LANES_OF(L)                                        \
    template <>                                                 \
    struct Lanes<L> {                                           \
        typedef double f64 __attribute__((vector_size(8 * L))); \
        typedef float f32 __attribute__((vector_size(4 * L)));  \
        typedef i64 mask __attribute__((vector_size(8 * L)));   \
    };
BMRM_LANES_OF(2)
BMRM_LANES_OF(4)
BMRM_LANES_OF(8)
#undef BMRM_LANES_OF

}  // namespace bmrm
