// Reads edge text into arrays, in two passes over blocks of whole lines (text/blocks.h).
//
// The first pass counts line ends, which bound the edges of each block. Comments and blank lines make the
// bounds loose; the gaps are closed at the end. Names are numbered within their blocks while they are
// parsed, since a block is gone afterwards, and then over all blocks (text/names.h).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "edges/block.h"
#include "text/blocks.h"
#include "text/bytes.h"

namespace edges {

class Reader {
  public:
    // Reads the bytes [start, stop) of a text, which begin with a line.
    Reader(const Bytes& text, size_t start, size_t stop, size_t block_bytes, int threads, Poll poll)
        : text_(text),
          start_(start),
          stop_(stop),
          threads_(threads),
          poll_(poll),
          blocks_(split<Block>(start, stop, block_bytes)) {}

    // First pass. Returns false if it was interrupted.
    bool count_all() {
        const auto counted = [](Block& block, const char* begin, const char* end) {
            block.lines = lines_in(begin, end, count<'\n'>(begin, end)[0]);
        };
        const bool complete = find_lines(text_, start_, stop_, blocks_, threads_, poll_, counted);
        for (Block& block : blocks_) {
            block.first_edge = lines;
            lines += block.lines;
        }
        edges = lines;
        return complete;
    }

    // Second pass, into arrays of `edges` elements; sets `edges` to the number found. Names are added to
    // those of earlier parts of the text. Returns false if it was interrupted.
    bool parse_all(const Options& options, const Arrays& arrays, Names& names) {
        FirstFault first_fault;
        const bool complete = for_each(blocks_.size(), threads_, poll_, [&](size_t b) {
            if (first_fault.precedes(b)) return;
            // Work on a copy: neighbouring blocks share cache lines, and every edge writes to its block.
            Block block = std::move(blocks_[b]);
            Bytes::Loan buffer(text_);
            block.begin = text_.piece(block.first, block.last, *buffer);
            block.end = block.begin + (block.last - block.first);
            BlockParser(options, arrays, names.seed(), block).run();
            parsed_bytes += static_cast<int64_t>(block.last - block.first);
            blocks_[b] = std::move(block);
            if (blocks_[b].fault != Fault::kNone) first_fault.report(b);
        });
        if (!complete) return false;
        report(first_fault.block());
        if (fault != Fault::kNone) return true;
        for (const Block& block : blocks_) {
            low = std::min(low, block.low);
            high = std::max(high, block.high);
        }
        if (options.names && !number_names(arrays, names)) return false;
        close_gaps(arrays);
        return true;
    }

    int64_t lines = 0, edges = 0;
    int64_t low = std::numeric_limits<int64_t>::max();  // of the integers; above `high` if there are none
    int64_t high = std::numeric_limits<int64_t>::min();
    Fault fault = Fault::kNone;
    Place fault_at = {0, 0, 0};  // with the line of the text

  private:
    // Collects what the blocks up to the first faulty one report; later ones may not have been read.
    void report(size_t faulty) {
        if (faulty >= blocks_.size()) return;
        fault = blocks_[faulty].fault;
        fault_at = blocks_[faulty].fault_at;
        for (size_t b = 0; b < faulty; ++b) fault_at.line += blocks_[b].lines;
    }

    bool number_names(const Arrays& arrays, Names& names) {
        std::vector<NameList*> lists;
        for (Block& block : blocks_) lists.push_back(&block.names);
        std::vector<std::vector<int32_t>> numbers;
        if (!names.merge(lists, numbers, threads_, poll_)) return false;
        if (names.size() > kMaxNames) {
            fault = Fault::kNodes;
            return true;
        }
        return for_each(blocks_.size(), threads_, poll_, [&](size_t b) {
            const int64_t first = blocks_[b].first_edge, last = first + blocks_[b].edges;
            for (int32_t* const ends : {arrays.source_numbers, arrays.target_numbers})
                for (int64_t i = first; i < last; ++i) ends[i] = numbers[b][static_cast<size_t>(ends[i])];
        });
    }

    // Moves the part of every block to the end of the one before, in order, so that nothing unread is
    // overwritten.
    void close_gaps(const Arrays& arrays) {
        edges = 0;
        for (const Block& block : blocks_) {
            move_part(arrays.source_ids, block.first_edge, edges, block.edges);
            move_part(arrays.target_ids, block.first_edge, edges, block.edges);
            move_part(arrays.source_numbers, block.first_edge, edges, block.edges);
            move_part(arrays.target_numbers, block.first_edge, edges, block.edges);
            move_part(arrays.weights, block.first_edge, edges, block.edges);
            edges += block.edges;
        }
    }

    const Bytes& text_;
    const size_t start_, stop_;
    const int threads_;
    const Poll poll_;
    std::vector<Block> blocks_;
};

// The beginning of a text: where its first two lines are that are not blank and no comments.
struct Opening {
    int64_t found = 0;                          // number of them, up to 2
    size_t begin[2] = {0, 0}, end[2] = {0, 0};  // offsets, without line ends
    int64_t lines = 0;                          // number of lines before the second
};

// Looks at whole lines up to the second of them.
inline Opening open_text(const Bytes& text, size_t start, size_t stop) {
    constexpr size_t kWindow = size_t{1} << 16;
    Opening opening;
    Bytes::Loan buffer(text);
    for (size_t first = start; first < stop && opening.found < 2; first += kWindow) {
        const size_t last = std::min(stop, first + kWindow);
        const Lines lines = lines_of(text, start, first, last, stop, *buffer);
        const char* const end = lines.bytes + (lines.end - lines.begin);
        for (const char* p = lines.bytes; p < end && opening.found < 2;) {
            const char* const begin = p;
            const void* const line_end = std::memchr(p, '\n', end - p);
            const char* const stop_at = line_end ? static_cast<const char*>(line_end) : end;
            p = skip_blanks(p);
            if (p < stop_at && !begins_comment(p)) {
                opening.begin[opening.found] = lines.begin + static_cast<size_t>(begin - lines.bytes);
                opening.end[opening.found] = lines.begin + static_cast<size_t>(stop_at - lines.bytes);
                ++opening.found;
            }
            opening.lines += opening.found < 2;
            p = line_end ? stop_at + 1 : end;
        }
    }
    return opening;
}

}  // namespace edges
