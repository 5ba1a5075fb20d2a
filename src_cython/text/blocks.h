// A text is parsed in blocks of whole lines, in two passes: one counts, one parses.
//
// The counts bound what each block can hold. Their running sums are the places where the second pass writes,
// so that the final arrays are allocated once. The blocks depend only on the text and their size, and the
// reported fault is the first of the text, so the outcome is the same for any number of threads.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "text/bytes.h"
#include "text/parallel.h"

namespace text {

// A token of the text; line 0 means none.
struct Place {
    int64_t line, column;  // from 1, the line within its block
    int64_t token;         // offset in the text
};

// Offsets of a block in the text: of a range of it, then, once counted, of the lines that begin there.
struct Span {
    size_t first = 0, last = 0;
    int64_t lines = 0;  // number of lines
};

// The ranges of `block_bytes` of a text from `start` to `stop`.
template <class Block>
std::vector<Block> split(size_t start, size_t stop, size_t block_bytes) {
    std::vector<Block> blocks;
    for (size_t first = start; first < stop; first = blocks.back().last) {
        Block block;
        block.first = first;
        block.last = first + std::min(block_bytes, stop - first);
        blocks.push_back(block);
    }
    return blocks;
}

// The number of times that each of some bytes occurs. Byte counters, one per lane, are summed before they can
// overflow: the inner loops become plain SIMD.
template <char... wanted>
std::array<int64_t, sizeof...(wanted)> count(const char* p, const char* end) {
    constexpr int kLanes = 64, kKinds = sizeof...(wanted);
    constexpr char kWanted[] = {wanted...};
    std::array<int64_t, kKinds> total{};
    while (end - p >= kLanes) {
        uint8_t found[kKinds][kLanes] = {};
        for (int round = 0; round < 255 && end - p >= kLanes; ++round, p += kLanes) {
            for (int kind = 0; kind < kKinds; ++kind)
                for (int j = 0; j < kLanes; ++j) found[kind][j] += p[j] == kWanted[kind];
        }
        for (int kind = 0; kind < kKinds; ++kind)
            for (int j = 0; j < kLanes; ++j) total[kind] += found[kind][j];
    }
    for (; p < end; ++p)
        for (int kind = 0; kind < kKinds; ++kind) total[kind] += *p == kWanted[kind];
    return total;
}

// First pass: finds the whole lines of all blocks, and calls counted(block, begin, end) for each with its
// bytes. Returns false if it was interrupted.
template <class Block, class Counted>
bool find_lines(const Bytes& text, size_t start, size_t stop, std::vector<Block>& blocks, int threads,
                Poll poll, const Counted& counted) {
    return for_each(blocks.size(), threads, poll, [&](size_t b) {
        Block& block = blocks[b];
        Bytes::Loan buffer(text);
        const Lines lines = lines_of(text, start, block.first, block.last, stop, *buffer);
        block.first = lines.begin;
        block.last = lines.end;
        counted(block, lines.bytes, lines.bytes + (lines.end - lines.begin));
    });
}

// The number of lines of a range of bytes that has `line_ends` of them; the last line may have none.
inline int64_t lines_in(const char* begin, const char* end, int64_t line_ends) {
    return line_ends + (begin < end && end[-1] != '\n');
}

// The first block with a fault, as far as known. Blocks after it need not be parsed.
class FirstFault {
  public:
    bool precedes(size_t b) const { return first_ < b; }

    void report(size_t b) {
        size_t seen = first_;
        while (b < seen && !first_.compare_exchange_weak(seen, b)) {
        }
    }

    size_t block() const { return first_; }

  private:
    std::atomic<size_t> first_{std::numeric_limits<size_t>::max()};
};

// Number of bytes that the reader of this extension module has parsed, for those who show progress.
inline std::atomic<int64_t> parsed_bytes{0};

// Moves a part of an array.
template <class T>
void move_part(T* array, int64_t from, int64_t to, int64_t count) {
    if (array != nullptr && from != to && count > 0)
        std::memmove(array + to, array + from, sizeof(T) * static_cast<size_t>(count));
}

}  // namespace text
