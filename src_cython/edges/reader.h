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

// The beginning of a text: what its first two edges look like.
struct Opening {
    int64_t edges = 0;                  // number found, up to 2
    bool integers[2] = {false, false};  // whether both ids of an edge are written as integers
    bool any_integer[2] = {false, false};
    size_t second = 0;  // offset of the second edge's line
    int64_t lines = 0;  // number of lines before it
};

// Whether the token at p is an integer; `end` is that of the text.
inline bool is_integer_token(const char* p, const char* end) {
    p += *p == '-';
    const char* const digits = p;
    while (*p >= '0' && *p <= '9') ++p;
    return p > digits && (is_blank(*p) || *p == ',' || *p == '\n' || p == end);
}

// Looks at whole lines up to the second edge.
inline Opening open_text(const Bytes& text, size_t start, size_t stop) {
    constexpr size_t kWindow = size_t{1} << 16;
    Opening found;
    Bytes::Loan buffer(text);
    for (size_t first = start; first < stop && found.edges < 2; first += kWindow) {
        const size_t last = std::min(stop, first + kWindow);
        const Lines lines = lines_of(text, start, first, last, stop, *buffer);
        const char* const end = lines.bytes + (lines.end - lines.begin);
        for (const char* p = lines.bytes; p < end && found.edges < 2;) {
            const char* const begin = p;
            const void* const line_end = std::memchr(p, '\n', end - p);
            const char* const next = line_end ? static_cast<const char*>(line_end) + 1 : end;
            p = skip_blanks(p);
            const bool is_edge = p < end && *p != '\n' && !begins_comment(p);
            if (is_edge) {
                const bool source = is_integer_token(p, end);
                while (p < next && !is_blank(*p) && *p != ',' && *p != '\n') ++p;
                p = skip_blanks(p);
                if (*p == ',') p = skip_blanks(p + 1);
                const bool target = p < next && is_integer_token(p, end);
                found.integers[found.edges] = source && target;
                found.any_integer[found.edges] = source || target;
                if (found.edges == 1) found.second = lines.begin + static_cast<size_t>(begin - lines.bytes);
                ++found.edges;
            }
            found.lines += found.edges < 2;
            p = next;
        }
    }
    return found;
}

}  // namespace edges
