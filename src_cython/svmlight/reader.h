// Reads SVMlight text into CSR arrays, in two passes over blocks of whole lines (text/blocks.h).
//
// The first pass counts line ends and colons, which bound the rows and nonzeros of each block. Blank lines,
// comments, qid: and added repeats make the bounds loose; the gaps are closed at the end. Indices and values
// may go to a consumer instead, so that no array on the host holds them.
//
// Rows may also be written into a dense array. Its number of columns must be known before: from the options,
// or from the first and last pair of each line (extent.h), which the first pass reads if asked to.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "svmlight/block.h"
#include "svmlight/extent.h"
#include "svmlight/ordered_blocks.h"
#include "text/blocks.h"
#include "text/bytes.h"
#include "text/names.h"
#include "text/parallel.h"

namespace svmlight {

using namespace text;

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

    // Whether the first block of the text has at least this share of the values of a dense array of its rows.
    bool starts_dense(double least_share) {
        if (blocks_.empty()) return false;
        Bytes::Loan buffer(text_);
        const Lines found = lines_of(text_, start_, blocks_[0].first, blocks_[0].last, stop_, *buffer);
        const char* const end = found.bytes + (found.end - found.begin);
        const auto [line_ends, colons] = count<'\n', ':'>(found.bytes, end);
        const double columns = static_cast<double>(find_extent(found.bytes, end).max_index);
        const double cells = columns * static_cast<double>(lines_in(found.bytes, end, line_ends));
        return static_cast<double>(colons) >= least_share * cells;
    }

    // First pass, which looks for the `extent` of the text too if asked to. Returns false if it was
    // interrupted.
    bool count_all(bool finds_extent) {
        const auto counted = [finds_extent](Block& block, const char* begin, const char* end) {
            const auto [line_ends, colons] = count<'\n', ':'>(begin, end);
            block.lines = lines_in(begin, end, line_ends);
            block.pairs = colons;
            if (finds_extent) block.extent = find_extent(begin, end);
        };
        const bool complete = find_lines(text_, start_, stop_, blocks_, threads_, poll_, counted);
        for (Block& block : blocks_) {
            block.first_row = rows;
            block.first_nonzero = nonzeros;
            lines += block.lines;
            rows += block.lines;
            nonzeros += block.pairs;
            extent.add(block.extent);
            most_pairs = std::max(most_pairs, block.pairs);
        }
        return complete;
    }

    // Whether an index 0 occurs, without parsing: a run of zeros between a blank and a colon that is not in a
    // comment.
    bool find_zero() {
        std::atomic<bool> found{false};
        for_each(blocks_.size(), threads_, nullptr, [&](size_t b) {
            if (found) return;
            Bytes::Loan buffer(text_);
            const Lines lines = lines_of(text_, start_, blocks_[b].first, blocks_[b].last, stop_, *buffer);
            if (has_zero_in(lines.bytes, lines.bytes + (lines.end - lines.begin))) found = true;
        });
        return found;
    }

    // Second pass, into arrays of `rows` and `nonzeros` elements; sets both to the numbers found. Dense rows
    // replace the arrays of nonzeros; they are right unless `misfit` is set. With a consumer, indices and
    // values go there, in slots of `most_pairs`; the caller then applies `ones` and `index_shift`. Returns
    // false if it was interrupted.
    template <class Value>
    bool parse_all(const Options& options, const Arrays<Value>& arrays,
                   const svmlight_block_consumer* consumer) {
        FirstFault first_fault;
        std::optional<OrderedBlocks> ordered;
        if (consumer) ordered.emplace(*consumer);
        const auto parse_block = [&](size_t b) {
            if (first_fault.precedes(b)) return;
            Arrays<Value> place = arrays;
            if (ordered) {
                svmlight_slot slot;
                if (!ordered->lend(b, slot)) return;
                place.indices = slot.indices;
                place.values = static_cast<Value*>(slot.values);
                blocks_[b].first_nonzero = 0;
            }
            std::unique_ptr<int32_t[]> row_indices;
            std::unique_ptr<Value[]> row_values;
            if (arrays.dense) {
                row_indices.reset(new int32_t[static_cast<size_t>(blocks_[b].pairs)]);
                row_values.reset(new Value[static_cast<size_t>(blocks_[b].pairs)]);
                place.indices = row_indices.get();
                place.values = row_values.get();
                blocks_[b].first_nonzero = 0;
            }
            // Work on a copy: neighbouring blocks share cache lines, and every row writes to its block.
            Block block = std::move(blocks_[b]);
            Bytes::Loan buffer(text_);
            block.begin = text_.piece(block.first, block.last, *buffer);
            block.end = block.begin + (block.last - block.first);
            BlockParser<Value>(options, place, block, names.seed()).run();
            parsed_bytes += static_cast<int64_t>(block.last - block.first);
            blocks_[b] = std::move(block);
            if (blocks_[b].fault == Fault::kNone) {
                if (ordered) ordered->pass(b, blocks_[b].nonzeros, blocks_[b].ones);
                return;
            }
            first_fault.report(b);
            if (ordered) ordered->end_at(b);
        };
        const bool complete = for_each(blocks_.size(), threads_, poll_, [&](size_t b) {
            try {
                parse_block(b);
            } catch (...) {
                if (ordered) ordered->end_at(0);  // others may be waiting for this block
                throw;
            }
        });
        if (!complete) return false;
        consumer_failed = ordered && ordered->failed();
        if (consumer_failed) return true;
        report(first_fault.block());
        if (fault != Fault::kNone) return true;
        summarise();
        index_shift = options.smallest == 0 && options.base == 1 && has_zero ? 1 : 0;
        close_gaps(arrays);
        if (options.text_labels && !number_labels(arrays.labels)) return false;
        if (consumer || arrays.dense) return true;
        return for_each(blocks_.size(), threads_, poll_, [&](size_t b) {
            const Block& block = blocks_[b];
            Value* const values = arrays.values + block.first_nonzero;
            if (block.ones && !ones) std::fill(values, values + block.nonzeros, Value{1});
            int32_t* const indices = arrays.indices + block.first_nonzero;
            for (int64_t k = 0; index_shift && k < block.nonzeros; ++k) indices[k] += index_shift;
        });
    }

    // The total number of labels, including those of rows with a single label.
    int64_t label_count() const {
        int64_t total = rows;
        for (const Block& block : blocks_) {
            for (const LabelList& list : block.lists)
                total += static_cast<int64_t>(list.last - list.first) - 1;
        }
        return total;
    }

    // Copies the labels of all rows one after the other; row i has those from starts[i] to starts[i + 1] - 1.
    void gather_labels(const double* single, double* labels, int64_t* starts) const {
        int64_t at = 0;
        for (const Block& block : blocks_) {
            auto list = block.lists.begin();
            for (int64_t row = 0; row < block.rows; ++row) {
                starts[block.first_row + row] = at;
                if (list == block.lists.end() || list->row != row) {
                    labels[at++] = single[block.first_row + row];
                } else {
                    for (size_t i = list->first; i < list->last; ++i) labels[at++] = block.list_labels[i];
                    ++list;
                }
            }
        }
        starts[rows] = at;
    }

    Names names;  // the distinct labels that are text
    int64_t lines = 0, rows = 0, nonzeros = 0;
    int64_t most_pairs = 0;   // maximum over the blocks
    int64_t max_index = -1;   // as written
    bool has_zero = false;    // an index 0 occurs
    bool ones = true;         // every value is 1; the value array has not been touched
    bool rounded = false;     // some value is not the number of the text but the nearest of its type
    bool negative = false;    // some value is below 0
    bool misfit = false;      // some index is not a column of the dense rows
    Extent extent;            // as far as the first and last pairs of lines tell
    bool has_lists = false;   // some row has several labels
    int32_t index_shift = 0;  // added to every index if the text turned out to be zero-based
    bool consumer_failed = false;
    Fault fault = Fault::kNone;
    Place fault_at = {0, 0, 0};  // with lines of the text
    Place no_label_at = {0, 0, 0};
    Place largest_at = {0, 0, 0};

  private:
    // Collects what the blocks up to the first faulty one report; later ones may not have been read.
    void report(size_t faulty) {
        int64_t before = 0;
        const auto keep_first = [&before](Place& first, const Place& found) {
            if (first.line == 0 && found.line != 0) first = {before + found.line, found.column, found.token};
        };
        for (size_t b = 0; b < blocks_.size() && b <= faulty; ++b) {
            const Block& block = blocks_[b];
            keep_first(fault_at, block.fault_at);
            keep_first(no_label_at, block.no_label_at);
            keep_first(largest_at, block.largest_at);
            if (block.fault != Fault::kNone) fault = block.fault;
            for (const LabelList& list : block.lists) has_lists |= list.last - list.first > 1;
            before += block.lines;
        }
    }

    // Whether whole lines have an index 0.
    static bool has_zero_in(const char* const begin, const char* const end) {
        const char* p = begin;
        while ((p = static_cast<const char*>(std::memchr(p, ':', end - p))) != nullptr) {
            const char* q = p++;
            while (q > begin && q[-1] == '0') --q;
            if (*q != '0' || (q > begin && !is_blank(q[-1]) && q[-1] != '\n')) continue;
            const char* line = q;
            while (line > begin && line[-1] != '\n') --line;
            if (std::memchr(line, '#', q - line) == nullptr) return true;
            p = static_cast<const char*>(std::memchr(p, '\n', end - p));  // a comment: skip it
            if (p == nullptr) return false;
        }
        return false;
    }

    void summarise() {
        for (const Block& block : blocks_) {
            max_index = std::max(max_index, block.max_index);
            has_zero |= block.has_zero;
            ones &= block.ones || block.nonzeros == 0;
            rounded |= block.rounded;
            negative |= block.negative;
            misfit |= block.misfit;
        }
    }

    // Moves the part of every block to the end of the one before, in order, so that nothing unread is
    // overwritten.
    template <class Value>
    void close_gaps(const Arrays<Value>& arrays) {
        rows = nonzeros = 0;
        for (Block& block : blocks_) {
            const int64_t shift = block.first_nonzero - nonzeros;
            move_part(arrays.labels, block.first_row, rows, block.rows);
            move_part(arrays.queries, block.first_row, rows, block.rows);
            if (arrays.dense) {
                const int64_t columns = arrays.columns;
                move_part(arrays.dense, block.first_row * columns, rows * columns, block.rows * columns);
            } else {
                move_part(arrays.row_ends, block.first_row, rows, block.rows);
                move_part(arrays.indices, block.first_nonzero, nonzeros, block.nonzeros);
                if (!block.ones) move_part(arrays.values, block.first_nonzero, nonzeros, block.nonzeros);
                for (int64_t i = 0; shift && i < block.rows; ++i) arrays.row_ends[rows + i] -= shift;
            }
            block.first_row = rows;
            block.first_nonzero = nonzeros;
            rows += block.rows;
            nonzeros += block.nonzeros;
        }
    }

    // Makes the labels, numbered within each block, those of `names`. Returns false if it was interrupted.
    bool number_labels(double* labels) {
        std::vector<NameList*> lists;
        for (Block& block : blocks_) lists.push_back(&block.names);
        std::vector<std::vector<int32_t>> numbers;
        if (!names.merge(lists, numbers, threads_, poll_)) return false;
        if (names.size() > kMaxNames) throw std::bad_alloc();
        return for_each(blocks_.size(), threads_, poll_, [&](size_t b) {
            double* const first = labels + blocks_[b].first_row;
            for (int64_t row = 0; row < blocks_[b].rows; ++row)
                first[row] = numbers[b][static_cast<size_t>(first[row])];
        });
    }

    const Bytes& text_;
    const size_t start_, stop_;
    const int threads_;
    const Poll poll_;
    std::vector<Block> blocks_;
};

}  // namespace svmlight
