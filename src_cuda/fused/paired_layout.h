// How the paired form (kernels/paired.cuh) packs the chunks of a stretch of rows into slices of 32 threads.
//
// A chunk is a row of the stretch, or what one of its columns has there: as many threads, a power of two, as
// keep each at no more than kPairedCap nonzeros.  Chunks of many threads come first, longer ones first among
// equals, so that they lie at multiples of their threads without a gap, and neighbours are of like length.
// Everything of a slice is padded to its widest thread, in quads: element (thread t of 32, step s) is at
//     (s / 4) * 128 + t * 4 + s % 4.
//
// And how all that a block has of the matrix lies in one piece.  Host code, so that it is tested without a
// device.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include <vector>

#include "host_device.h"

namespace bmrm {

constexpr int kPairedCap = 32;                       // nonzeros of a thread
constexpr int64_t kPairedLongest = 32 * kPairedCap;  // ... and of a chunk, at most
constexpr int kPairedLog2Bit = 13;                   // a destination is that of a chunk | log2(threads) << 13
constexpr uint16_t kPairedNowhere = 0xFFFF;          // ... of a thread without a chunk

// Where a chunk's nonzeros lie among the elements of its phase.
struct PairedPlace {
    uint32_t element;  // the first of its slice
    uint16_t lane;     // its first thread
    uint16_t log2;     // of its threads
};

// Place of the chunk's nonzero k.
BMRM_HD uint32_t paired_element(const PairedPlace& place, uint32_t k) {
    const uint32_t step = k >> place.log2, lane = place.lane + (k & ((1u << place.log2) - 1));
    return place.element + step / 4 * 128 + lane * 4 + step % 4;
}

struct PairedSlices {
    // Of each slice: its first row of quads | its quads << 16 | log2 of its most threads << 24.
    std::vector<uint32_t> shape;
    std::vector<uint16_t> dest;  // of each thread
    uint32_t quads = 0;          // rows of 32 quads in all
};

// Packs `count` chunks of `lengths` nonzeros; `places` gets theirs.  Chunks of none take a thread where
// `empty_too`, else they are left out.
PairedSlices pack_chunks(const uint32_t* lengths, size_t count, bool empty_too, PairedPlace* places);

constexpr int64_t kPairedUnit = 16;  // bytes of which all parts are multiples

// What a block has of the matrix: this, then shapes of slices, destinations of their threads (from the next
// unit on), columns of the first phase, places of the second, values.
struct alignas(kPairedUnit) PairedStretch {
    uint32_t slices[2], quads[2];  // of both phases

    BMRM_HD uint32_t all_slices() const { return slices[0] + slices[1]; }
    BMRM_HD uint32_t dest_at() const { return uint32_t(sizeof(PairedStretch)) + (all_slices() + 3) / 4 * 16; }
    BMRM_HD uint32_t columns_at() const { return dest_at() + all_slices() * 64; }
    BMRM_HD uint32_t places_at(uint32_t index_bytes) const {
        return columns_at() + quads[0] * 128 * index_bytes;
    }
    BMRM_HD uint32_t values_at(uint32_t index_bytes) const { return places_at(index_bytes) + quads[1] * 256; }
};

// X cut into stretches of rows, and the bytes of a nonzero's value, 0 where all are one, and column.
struct PairedSizes {
    int64_t rows, columns, stretch, value_bytes, index_bytes;

    int64_t stretches() const { return (rows + stretch - 1) / stretch; }
};

// All stretches laid out, their nonzeros still missing.
struct PairedImage {
    std::vector<unsigned char> bytes;
    std::vector<uint32_t> first;             // of each stretch, in units; and the end
    std::vector<PairedPlace> rows, columns;  // of each row; of stretches x columns
    int64_t largest = 0;                     // bytes of a stretch
    uint32_t most_slices = 1;                // of a phase
};

// `row_ptr`: where each row's nonzeros begin; `start`: columns x (stretches + 1), where those of each stretch
// begin within a column.
PairedImage lay_out(const PairedSizes& sizes, const int64_t* row_ptr, const uint32_t* start);

}  // namespace bmrm
