// Names shared by the kernels of every instruction set.
//
// The kernels are written once, with the vector extensions of GCC and Clang, and compiled three times
// (each_instruction_set.h): for AVX-512, for AVX2 with FMA, and for the compiler's default target. They
// compute with packs of 8 doubles, held in one, two or four registers (pack.h). The order of every sum is the
// same in all three, so their results differ only by the rounding of fused multiply-adds.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "common/integers.h"

namespace bmrm {

/// Value type of a matrix whose stored entries are all 1: it keeps no values.
struct One {};

/// One of several columns, and the factor of what is added to it.
struct Change {
    i64 column;
    double factor;
};

/// To load a mask whose lanes 0 to n - 1 are all ones and the others zero, read at kLaneMask + 8 - n.
alignas(64) inline const i64 kLaneMask[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};

/// Prefetch distance of indices and values, in entries. The hardware prefetchers of the x86 cores measured
/// stop at 4 KiB pages and lose the streams among the gathers: without the hint, products of text-like
/// matrices take twice as long.
constexpr i64 kAhead = 1024;

/// Locality hints of __builtin_prefetch: into the first or the second level of cache.
constexpr int kIntoL1 = 3;
constexpr int kIntoL2 = 2;

/// Prefetch distance in a dense row that streams from memory, in bytes.
constexpr i64 kStreamAhead = 8192;

/// Prefetch distance of gathered places of a long vector, in entries. Four-byte indices imply vectors beyond
/// the second level of cache: prefetching makes more of their misses overlap than the processor's own
/// lookahead (128 to 512 entries are about as good on Zen 5, 32 have no effect).
constexpr i64 kFetchAhead = 256;

/// The same for rows of sums, each of which takes a cache line or more.
constexpr i64 kSumsAhead = 32;

/// Number of columns whose weights share a cache line.
constexpr i64 kColumnsPerLine = 8;

/// Rows with values of up to this length are summed eight at a time if lengths are unlike.
constexpr i64 kTinyRow = 8;

/// Eight rows with values that have fewer entries than this on average are summed by one loop each: to mask
/// lanes and to sum them takes longer, and a second loop for the rest has a second mispredicted end.
constexpr i64 kLoopRow = 20;

/// Number of rows that are visited by length at a time: those of a tile; with values fewer, so that memory is
/// still read as one stream.
template <class V>
constexpr i64 kWindow = 512;
template <>
inline constexpr i64 kWindow<One> = i64{1} << 16;

/// Maximum number of entries of the short rows that are added to a vector as one run.
constexpr i64 kMaxRun = 4096;

/// Number of rows from which tiny ones of unlike length are treated apart: a processor remembers the ends of
/// fewer.
constexpr i64 kManyRows = i64{1} << 14;

/// Maximum average number of entries of rows of which most are tiny.
constexpr i64 kFewPerRow = 16;

/// Maximum length of rows that are summed eight at a time, if their lengths are about equal.
constexpr i64 kShortRow = 32;

/// Groups of eight short rows ahead of which the entries of a group are fetched, if rows are not visited in
/// the order of memory.
constexpr i64 kGroupsAhead = 4;

/// Number of valid (zero) entries appended to index arrays: tails read eight entries at once, short rows up
/// to kShortRow, and places are prefetched kFetchAhead entries early.
constexpr i64 kIndexPad = kFetchAhead + 64;

/// Rows of a tile of X^T diag(s) X that is held in registers, X dense.
constexpr i64 kOuterRows = 4;
/// Columns of such a tile.
constexpr i64 kOuterColumns = 16;
/// Number of rows of X that are packed for one pass over such a tile.
constexpr i64 kPacked = 64;

/// Widths for which products with several columns at once are compiled; K columns use the next larger one.
constexpr int kWidths = 6;
constexpr i64 kWidth[kWidths] = {2, 4, 8, 16, 24, 32};

/// Rows that are packed together, feature by feature, for products with rows of other sets (panels.h).
constexpr i64 kPanelRows = 64;

/// Sums of a row with so many columns, to which its entries are added in turn: they hide the latency of an
/// addition, as far as there are registers.
template <int W>
constexpr int kRowSums = W <= 8 ? 4 : 2;

/// Number of rows that are padded to such a width at a time.
constexpr i64 kPaddedRows = 64;

/// Vector types of L doubles, floats or integers.
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
