// The sliced format, which the kernels of kernels/sliced.cuh and kernels/narrow.cuh read.
//
// A row's nonzeros within one tile of columns are a *fragment*.  A fragment gets as many threads, a power of
// two up to a warp, as keep each thread at `cap` nonzeros or fewer; a fragment longer than 32 cap is cut into
// *chunks*. Chunks of the same shape (tile, window of rows, threads, nonzeros per thread = width) form a
// *run*; 32 threads of a run form a *slice*, and as many slices as hold about 32 cap nonzeros form an *item*,
// which a warp takes at a time.  Every item thus costs about the same whatever the rows, no thread waits for
// a longer neighbour, and there are no row pointers to read.  This is SELL-C-sigma (Kreutzer, Hager, Wellein,
// Fehske, Bishop, SIAM J. Sci. Comput. 36 (2014) C401) with the slices sorted into runs of equal width, and
// long rows cut.
//
// Thread l of a chunk's L threads holds its nonzeros l, l + L, l + 2 L, ...: `width` steps, padded at the
// end. Within a slice, steps come in quads, so that a thread loads four values and four indices at once:
// element (thread t of 32, step s) is at
//     (s / 4) * 128 + t * 4 + s % 4                        for s < 4 (width / 4),
//     (width / 4) * 128 + (s - 4 (width / 4)) * 32 + t     for the rest.
//
// Indices are local to the tile: one or two bytes if the tile's inputs are in shared memory, four if they are
// gathered.  Padding holds value 0 and, as index, the tile's width, which is a slot of zero in shared memory.
#pragma once
#include <stdint.h>

#include "api/blackbox.h"
#include "host_device.h"

namespace bmrm {

inline int64_t divided(int64_t a, int64_t b) { return (a + b - 1) / b; }

struct Item {
    uint32_t offset;  // first element, in units of 32
    uint32_t shape;   // width | log2(threads per chunk) << 16
    uint32_t slices;
    uint32_t dest;  // position of the first chunk's destination in Sliced::dest
};

// The items of a block, and which of them belong to the first tile: all that the block needs to begin.
struct alignas(16) BlockShare {
    uint32_t begin, end, of_tile;  // items; those before of_tile belong to `tile`
    uint32_t tile;
};

constexpr uint32_t kNowhere = 0xFFFFFFFFu;  // destination of a chunk that only fills a slice
constexpr uint32_t kSlot = 0x80000000u;     // flag: the destination is a partial sum; without it, a row
// Rows are sorted by length within windows of 2^16 rows, so that outputs stay close.
constexpr int kWindowBits = 16;

// How the columns of an operator are cut: `shared` tiles of `tile` columns, then one gathered tile with the
// rest.
struct Cut {
    int64_t tile;
    int32_t shared;       // tiles whose inputs are in shared memory
    int32_t gathered;     // 1 if there are columns beyond them
    int32_t by_count;     // 1: columns by popularity; 0: as they are
    int32_t index_bytes;  // of the shared tiles: 1 or 2
};

// Returns the columns whose inputs a sliced plan keeps in shared memory, and how: none for BB_SLICED, all for
// BB_NARROW.
Cut cut_of(const bb_plan& plan, int64_t cols);

// Returns whether the format can hold the parameters of a sliced plan.
bool can_slice(const bb_plan& plan, int64_t cols);

// Returns the nonzeros per thread that items aim at: the cap, except for BB_NARROW, whose cap only keeps a
// row in one thread.
int item_target(const bb_plan& plan);

// Returns the warps per block of BB_NARROW for `slices` slices, at most `most`.
int narrow_warps(const bb_device& device, int64_t slices, int most);

// Tile, window, threads and width of a chunk as one key to sort by: long and wide chunks first within a
// window.

BMRM_HD int log2_threads(int64_t length, int cap) {
    int log2 = 0;
    while (log2 < 5 && (length + (int64_t(1) << log2) - 1) >> log2 > cap) log2++;
    return log2;
}

BMRM_HD int64_t chunks_of(int64_t length, int cap) {
    const int64_t most = int64_t(32) * cap;
    return length <= most ? 1 : (length + most - 1) / most;
}

// Returns where a chunk begins in its fragment: equal shares in whole warps, so that no chunk of a long row
// is shorter than the others by much.
BMRM_HD int64_t chunk_start(int64_t length, int64_t chunk, int cap) {
    const int64_t chunks = chunks_of(length, cap), each = ((length + chunks - 1) / chunks + 31) / 32 * 32;
    return chunk * each < length ? chunk * each : length;
}

BMRM_HD int64_t chunk_length(int64_t length, int64_t chunk, int cap) {
    return chunks_of(length, cap) == 1
               ? length
               : chunk_start(length, chunk + 1, cap) - chunk_start(length, chunk, cap);
}

// Widths are rounded up to multiples of a grain, a power of two.  With few chunks per window, runs of every
// width would leave more empty threads in their last slices than a few padded steps cost.  The padding of a
// grain g is chunks * g / 2, that of the runs about 16 width^2 / g.  `chunks` and `nnz` are the operator's,
// `groups` its tiles times its windows.
inline int width_grain(double chunks, double nnz, double groups, int cap) {
    const double mean = nnz / (chunks < 1 ? 1 : chunks), width = mean < cap ? mean : cap;
    int grain = 1;
    while (2 * grain < cap && 2 * grain * double(grain) * 2 * chunks <= 32 * width * width * groups)
        grain *= 2;
    return grain;
}

BMRM_HD uint64_t chunk_key(uint64_t tile, uint64_t row, int64_t length, int cap, int grain) {
    const int log2 = log2_threads(length, cap);
    uint64_t width = uint64_t((length + (int64_t(1) << log2) - 1) >> log2);
    width = (width + uint64_t(grain) - 1) / uint64_t(grain) * uint64_t(grain);
    if (width > uint64_t(cap)) width = uint64_t(cap);
    return tile << 48 | (row >> kWindowBits) << 16 | uint64_t(5 - log2) << 12 | (0xFFF - width);
}

BMRM_HD uint32_t key_width(uint64_t key) { return 0xFFF - uint32_t(key & 0xFFF); }
BMRM_HD uint32_t key_log2(uint64_t key) { return 5 - uint32_t(key >> 12 & 7); }
BMRM_HD uint32_t key_tile(uint64_t key) { return uint32_t(key >> 48); }

// Returns the slices per item of a run.
BMRM_HD uint32_t item_slices(uint32_t width, int cap) {
    return width == 0 ? uint32_t(cap) : uint32_t(cap) / width > 0 ? uint32_t(cap) / width : 1;
}

// Returns the place of an element within its slice.
BMRM_HD uint32_t element_place(uint32_t thread, uint32_t step, uint32_t width) {
    const uint32_t quads = width / 4;
    return step < 4 * quads ? step / 4 * 128 + thread * 4 + step % 4
                            : quads * 128 + (step - 4 * quads) * 32 + thread;
}

}  // namespace bmrm
