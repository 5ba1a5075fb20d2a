// Parses one block of whole lines straight into its place in the final arrays.
//
// Each line is read once, with minimal checks per pair: digits, a colon, a number, an end. Properties of a
// whole row (order, range, repeats) are checked on its indices after its last pair, so that the loop over
// pairs has no branch that depends on its data. A file may be written to by others between the passes, so no
// bound from the first pass is trusted.
//
// Labels that are text are numbered within the block (text/names.h), by the order in which they first appear.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "svmlight/extent.h"
#include "svmlight/pair.h"
#include "text/blocks.h"
#include "text/characters.h"
#include "text/names.h"
#include "text/number.h"
#include "text/utf8.h"

namespace svmlight {

using namespace text;

// The largest index as written: even if it is zero-based, there are at most 2^31 - 1 columns.
constexpr int64_t kMaxIndex = 2147483646;

enum class Fault : int {
    kNone,
    kLabel,
    kText,  // a label that is not text: a control character, or not UTF-8
    kNoLabel,
    kPair,
    kIndex,
    kValue,
    kRange,
    kRepeated,
    kQuery,
    kChanged
};

struct Options {
    int64_t smallest;     // smallest index as written: 1 if the file is known to be one-based, else 0
    int64_t largest;      // largest index as written
    int32_t base;         // subtracted from every index
    bool text_labels;     // a label is any token, else one or several numbers
    bool query_id;        // keep qid:N, one per row
    bool sum_duplicates;  // add up the values of an index that a row repeats; else that is a fault
};

// The final arrays, written by all blocks. Blocks of ones may leave the value array untouched.
//
// With dense rows, `indices` and `values` are those of one row of one block, whose memory stays in the cache,
// and there are no row ends. The number of columns is then what the first pass has seen; a row that has an
// index beyond it makes its block a misfit.
template <class Value>
struct Arrays {
    int64_t* row_ends;
    int32_t* indices;
    Value* values;
    double* labels;  // or the numbers of text
    int64_t* queries;
    Value* dense;  // null for sparse rows
    int64_t columns;
};

// A row with no label or several ones: those in [first, last) of the block's list.
struct LabelList {
    int64_t row;
    size_t first, last;
};

struct Block : Span {
    const char* begin = nullptr;  // the lines, while they are parsed; at least as many as rows
    const char* end = nullptr;
    int64_t pairs = 0;  // number of colons, so at least that of nonzeros
    int64_t first_row = 0, first_nonzero = 0;
    Extent extent;  // of its lines, if the first pass looks for it

    int64_t rows = 0, nonzeros = 0;
    int64_t max_index = -1;  // as written
    bool has_zero = false;   // an index 0 occurs
    bool ones = true;        // every value is 1, and none has been stored
    bool rounded = false;    // some value is not the number of the text but the nearest of its type
    bool negative = false;   // some value is below 0
    bool misfit = false;     // some index is not a column of the dense rows
    std::vector<LabelList> lists;
    std::vector<double> list_labels;
    NameList names;  // labels that are text

    Fault fault = Fault::kNone;
    Place fault_at = {0, 0, 0};
    Place no_label_at = {0, 0, 0};  // first row without a label
    Place largest_at = {0, 0, 0};   // first row with the largest index allowed
};

template <class Value>
class BlockParser {
  public:
    // `seed` is that of hashes of names.
    BlockParser(const Options& options, const Arrays<Value>& arrays, Block& block, uint64_t seed)
        : options_(options),
          arrays_(arrays),
          block_(block),
          k_(block.first_nonzero),
          k_end_(block.first_nonzero + block.pairs),
          seed_(seed) {}

    void run() {
        for (const char* p = block_.begin; p < block_.end;) {
            line_begin_ = p;
            ++line_;
            p = read_line(p);
            if (p == nullptr) return;
        }
        block_.nonzeros = stored_ + k_ - block_.first_nonzero;
    }

  private:
    // Reads the line at p and returns the start of the next, or nullptr on a fault.
    const char* read_line(const char* p) {
        p = skip_blanks(p);
        if (is_line_end(p)) return next_line(p);
        if (block_.rows == block_.lines) return fail(Fault::kChanged, p);
        p = options_.text_labels ? read_text_label(p) : read_label(p);
        if (p != nullptr) p = read_query(p);
        if (p == nullptr) return nullptr;
        const char* const pairs = p;
        const int64_t start = k_;
        p = read_pairs(p);
        if (p == nullptr || !finish_row(pairs, start)) return nullptr;
        if (arrays_.dense)
            put_row(start);
        else
            arrays_.row_ends[block_.first_row + block_.rows] = k_;
        ++block_.rows;
        return next_line(p);
    }

    const char* fail(Fault fault, const char* token) {
        block_.fault = fault;
        block_.fault_at = place(token);
        return nullptr;
    }

    Place place(const char* token) const {
        return {line_, token - line_begin_ + 1, static_cast<int64_t>(block_.first) + (token - block_.begin)};
    }

    bool is_line_end(const char* p) const {
        return *p == '\n' || *p == '#' || (*p == '\0' && p == block_.end);
    }

    bool is_token_end(const char* p) const { return is_blank(*p) || is_line_end(p); }

    const char* next_line(const char* p) const {
        if (*p == '\n') return p + 1;
        if (p >= block_.end) return block_.end;
        const void* found = std::memchr(p, '\n', block_.end - p);
        return found ? static_cast<const char*>(found) + 1 : block_.end;
    }

    const char* read_label(const char* p) {
        double& label = arrays_.labels[block_.first_row + block_.rows];
        const char* q = read_number(p, &label);
        if (q != nullptr && std::isfinite(label) && is_token_end(q)) return q;
        return read_label_list(p);
    }

    // Reads a label that is any token except one that can be a pair or a query.
    const char* read_text_label(const char* const token) {
        double number;
        const char* const q = read_number(token, &number);
        if ((q != nullptr && *q == ':') || std::memcmp(token, "qid:", 4) == 0)
            return fail(Fault::kNoLabel, token);
        const char* p = token;
        bool printable = true;
        for (; !is_token_end(p); ++p) printable &= static_cast<unsigned char>(*p) >= ' ' && *p != '\x7f';
        const size_t size = static_cast<size_t>(p - token);
        if (!printable || !is_utf8(token, size) || std::memcmp(token, "\xef\xbb\xbf", 3) == 0)
            return fail(Fault::kText, token);
        const uint32_t place = block_.names.find_or_add(token, size, hash_of(token, size, seed_));
        arrays_.labels[block_.first_row + block_.rows] = place;
        return p;
    }

    // Reads what is not a single number: several ones joined by commas, or none if the line begins with a
    // pair.
    const char* read_label_list(const char* const token) {
        const size_t first = block_.list_labels.size();
        double label;
        const char* p = token;
        for (;; ++p) {
            const char* q = read_number(p, &label);
            if (q != nullptr && p == token && *q == ':') {
                if (block_.no_label_at.line == 0) block_.no_label_at = place(token);
                p = token;
                break;
            }
            if (q == nullptr || !std::isfinite(label)) return fail(Fault::kLabel, token);
            block_.list_labels.push_back(label);
            p = q;
            if (*p != ',') {
                if (!is_token_end(p)) return fail(Fault::kLabel, token);
                break;
            }
        }
        block_.lists.push_back({block_.rows, first, block_.list_labels.size()});
        arrays_.labels[block_.first_row + block_.rows] = std::numeric_limits<double>::quiet_NaN();
        return p;
    }

    const char* read_query(const char* p) {
        const char* const token = skip_blanks(p);
        if (std::memcmp(token, "qid:", 4) != 0) return options_.query_id ? fail(Fault::kQuery, token) : p;
        const char* q = token + 4;
        const bool negative = *q == '-';
        q += negative;
        int64_t query = 0;
        int digits = 0;
        for (; *q >= '0' && *q <= '9' && digits < 19; ++q, ++digits) {
            const int digit = negative ? '0' - *q : *q - '0';  // with its sign, since -2^63 has no opposite
            if (__builtin_mul_overflow(query, 10, &query) || __builtin_add_overflow(query, digit, &query))
                return fail(Fault::kQuery, token);
        }
        if (digits == 0 || !is_token_end(q)) return fail(Fault::kQuery, token);
        if (options_.query_id) arrays_.queries[block_.first_row + block_.rows] = query;
        return q;
    }

    // Reads all pairs of a row; p is just after the label. Returns the end of the line.
    const char* read_pairs(const char* p) {
        int32_t* const indices = arrays_.indices;
        Value* const values = arrays_.values;
        const int32_t base = options_.base;
        int64_t k = k_;
        int64_t previous = -1;
        bool ordered = true, ones = block_.ones;
        bool rounded = false, negative = false;
        if (*p == ' ') ++p;
        for (;;) {
            const char* token = p;
            Pair pair = read_plain_pair(p);
            if (__builtin_expect(pair.end == nullptr || !is_token_end(pair.end), 0)) {
                token = skip_blanks(p);
                if (is_line_end(token)) break;
                pair = read_any_pair(token);
                if (pair.end == nullptr) return nullptr;
            }
            // A branch, not arithmetic: the next pair need not wait for this byte to arrive.
            p = __builtin_expect_with_probability(*pair.end == ' ', 1, 1.0) ? pair.end + 1 : pair.end;
            if (__builtin_expect(k == k_end_, 0)) return fail(Fault::kChanged, token);
            ordered &= pair.index > previous;
            previous = pair.index;
            indices[k] = static_cast<int32_t>(pair.index) - base;
            const Value value = static_cast<Value>(pair.value);
            rounded |= static_cast<double>(value) != pair.value;
            negative |= value < 0;
            if (__builtin_expect(ones, 0)) {
                if (value != Value{1}) store_ones(k);
                ones = block_.ones;
            }
            if (!ones) values[k] = value;
            ++k;
        }
        ordered_ = ordered;
        block_.rounded |= rounded;
        block_.negative |= negative;
        k_ = k;
        return p;
    }

    // Reads a pair of any shape, or reports what is wrong with it and leaves its end null.
    __attribute__((noinline)) Pair read_any_pair(const char* const token) {
        Pair pair = {nullptr, 0, 0};  // the index saturates beyond the largest
        const char* p = token;
        for (; *p >= '0' && *p <= '9'; ++p)
            pair.index = std::min(pair.index * 10 + (*p - '0'), kMaxIndex + 1);
        if (p == token || *p != ':') {
            fail(p == token ? Fault::kIndex : Fault::kPair, token);
            return pair;
        }
        const char* const end = read_number(p + 1, &pair.value);
        if (end == nullptr || !is_token_end(end) || !std::isfinite(static_cast<Value>(pair.value)))
            fail(Fault::kValue, token);
        else
            pair.end = end;
        return pair;
    }

    // Called at the block's first value other than 1: stores the ones before it.
    __attribute__((noinline, cold)) void store_ones(int64_t k) {
        std::fill(arrays_.values + block_.first_nonzero, arrays_.values + k, Value{1});
        block_.ones = false;
    }

    // Checks and sorts the row of the pairs [start, k_), whose text begins at `pairs`.
    bool finish_row(const char* pairs, int64_t start) {
        if (start == k_) return true;
        int64_t low = written(start), high = written(k_ - 1);
        if (!ordered_) {
            const auto ends = std::minmax_element(arrays_.indices + start, arrays_.indices + k_);
            low = written(ends.first - arrays_.indices);
            high = written(ends.second - arrays_.indices);
        }
        if (__builtin_expect(low < options_.smallest || high > options_.largest, 0)) {
            int64_t k = start;
            while (written(k) >= options_.smallest && written(k) <= options_.largest) ++k;
            return fail(Fault::kRange, token_at(pairs, k - start));
        }
        if (high == options_.largest && block_.largest_at.line == 0) {
            int64_t k = start;
            while (written(k) != high) ++k;
            block_.largest_at = place(token_at(pairs, k - start));
        }
        block_.max_index = std::max(block_.max_index, high);
        block_.has_zero |= low == 0;
        return ordered_ || sort_row(pairs, start);
    }

    // Moves the pairs from `start` on to their dense row. Indices are distinct and in order.
    void put_row(int64_t start) {
        const int64_t count = k_ - start;
        const int32_t* const indices = arrays_.indices + start;
        const Value* const values = arrays_.values + start;
        Value* const row = arrays_.dense + (block_.first_row + block_.rows) * arrays_.columns;
        k_ = start;
        stored_ += count;
        if (count > 0 && (indices[0] < 0 || indices[count - 1] >= arrays_.columns)) {
            block_.misfit = true;
        } else if (count == arrays_.columns && !block_.ones) {
            std::copy_n(values, count, row);
        } else {
            std::fill_n(row, arrays_.columns, Value{0});
            for (int64_t k = 0; k < count; ++k) row[indices[k]] = block_.ones ? Value{1} : values[k];
        }
    }

    // An index as it stood in the text: 2^31 - 1, which saturation gives, minus the base still fits.
    int64_t written(int64_t k) const { return int64_t{arrays_.indices[k]} + options_.base; }

    static const char* token_at(const char* p, int64_t count) {
        for (p = skip_blanks(p); count > 0; --count) {
            while (*p != '\n' && !is_blank(*p)) ++p;
            p = skip_blanks(p);
        }
        return p;
    }

    bool sort_row(const char* pairs, int64_t start) {
        scratch_.clear();
        for (int64_t k = start; k < k_; ++k)
            scratch_.push_back({arrays_.indices[k], k - start, block_.ones ? Value{1} : arrays_.values[k]});
        std::sort(scratch_.begin(), scratch_.end(), [](const Entry& a, const Entry& b) {
            return a.index != b.index ? a.index < b.index : a.position < b.position;
        });
        int64_t repeated = std::numeric_limits<int64_t>::max();
        for (size_t i = 1; i < scratch_.size(); ++i) {
            if (scratch_[i].index == scratch_[i - 1].index)
                repeated = std::min(repeated, scratch_[i].position);
        }
        if (repeated < std::numeric_limits<int64_t>::max()) {
            if (!options_.sum_duplicates) return fail(Fault::kRepeated, token_at(pairs, repeated));
            if (block_.ones) store_ones(k_);
        }
        int64_t k = start;
        for (size_t i = 0; i < scratch_.size(); ++k) {
            const int32_t index = scratch_[i].index;
            double sum = scratch_[i].value;
            while (++i < scratch_.size() && scratch_[i].index == index) sum += scratch_[i].value;
            arrays_.indices[k] = index;
            if (block_.ones) continue;
            arrays_.values[k] = static_cast<Value>(sum);
            block_.rounded |= static_cast<double>(arrays_.values[k]) != sum;
            if (!std::isfinite(arrays_.values[k])) return fail(Fault::kValue, token_at(pairs, repeated));
        }
        k_ = k;
        return true;
    }

    struct Entry {
        int32_t index;
        int64_t position;  // in the row as written
        Value value;
    };

    const Options& options_;
    const Arrays<Value>& arrays_;
    Block& block_;
    const char* line_begin_ = nullptr;
    int64_t line_ = 0;
    int64_t k_;           // the next nonzero
    int64_t stored_ = 0;  // nonzeros that are in dense rows
    const int64_t k_end_;
    const uint64_t seed_;
    bool ordered_ = true;
    std::vector<Entry> scratch_;
};

}  // namespace svmlight
