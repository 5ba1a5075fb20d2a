// Parses one block of whole lines of edge text: two ids, a weight, a time.
//
// A line of two integers takes one look at 32 bytes: a mask of the bytes that are not digits gives the ends
// of both (as in svmlight/pair.h). Everything else, valid or not, goes to a reader of tokens. A file may be
// written to by others between the passes, so the number of lines from the first pass is not trusted.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "text/blocks.h"
#include "text/characters.h"
#include "text/names.h"
#include "text/number.h"
#include "text/utf8.h"

namespace edges {

using namespace text;

enum class Fault : int {
    kNone,
    kInteger,   // not an integer
    kLarge,     // an integer beyond 64 bits
    kName,      // no name, or one with a control character
    kEncoding,  // a name that is not UTF-8
    kTarget,    // no second id
    kWeight,    // not a finite number
    kNoWeight,
    kExtra,  // something after the columns
    kNodes,  // too many nodes
    kChanged
};

struct Options {
    bool weights;  // keep the third column, which every line must have
    bool names;    // ids are names, else integers
};

// The final arrays, written by all blocks: integers are kept as they are, names as numbers.
struct Arrays {
    int64_t *source_ids, *target_ids;
    int32_t *source_numbers, *target_numbers;
    double* weights;  // or null
};

struct Block : Span {
    const char* begin = nullptr;  // the lines, while they are parsed
    const char* end = nullptr;
    int64_t first_edge = 0;

    int64_t edges = 0;
    int64_t low = std::numeric_limits<int64_t>::max();  // of the integers
    int64_t high = std::numeric_limits<int64_t>::min();
    NameList names;

    Fault fault = Fault::kNone;
    Place fault_at = {0, 0, 0};
};

inline bool begins_comment(const char* p) { return *p == '#' || *p == '%' || (p[0] == '/' && p[1] == '/'); }

// The integer that n digits at p spell, n in 1..16.
inline int64_t read_digits(const char* p, int n) {
    if (n <= 8) return static_cast<int64_t>(first_digits(load_digits(p), n));
    const uint64_t high = eight_digits(load_digits(p));
    return static_cast<int64_t>(high * kIntegerPowers[n - 8] + first_digits(load_digits(p + 8), n - 8));
}

struct PlainEdge {
    const char* end;  // nullptr if the line has another shape, which need not be wrong
    int64_t source, target;
};

// Reads two runs of at most 15 digits with one blank or comma between them.
inline PlainEdge read_plain_edge(const char* p) {
    constexpr PlainEdge kOther = {nullptr, 0, 0};
#if defined(__SSE2__)
    constexpr int kMostDigits = 15;
    constexpr uint32_t kLast = uint32_t{1} << 31;
    uint32_t stops = ~(digit_mask(p) | digit_mask(p + 16) << 16) | kLast;
    const int middle = __builtin_ctz(stops);
    stops &= stops - 1;
    const int end = __builtin_ctz(stops | kLast);
    const char separator = p[middle];
    const int digits = end - middle - 1;  // of the target
    const bool fits = middle > 0 && middle <= kMostDigits && digits > 0 && digits <= kMostDigits && end < 31;
    if (!fits || (separator != '\t' && separator != ' ' && separator != ',')) return kOther;
    return {p + end, read_digits(p, middle), read_digits(p + middle + 1, digits)};
#else
    return kOther;
#endif
}

// The end of a name: the first byte that is a comma, a blank, a control character, or the NUL after the text.
// `*ascii` is set to whether all bytes are.
inline const char* name_end(const char* p, bool* ascii) {
#if defined(__SSE2__)
    *ascii = true;
    for (;; p += 16) {
        const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
        const __m128i low = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(' ')), bytes);
        const __m128i commas = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(','));
        const uint32_t ends = static_cast<uint32_t>(_mm_movemask_epi8(_mm_or_si128(low, commas)));
        const uint32_t others = static_cast<uint32_t>(_mm_movemask_epi8(bytes));
        if (ends == 0) {
            *ascii &= others == 0;
            continue;
        }
        *ascii &= (others & (ends ^ (ends - 1))) == 0;
        return p + __builtin_ctz(ends);
    }
#else
    unsigned char all = 0;
    for (; static_cast<unsigned char>(*p) > ' ' && *p != ','; ++p) all |= static_cast<unsigned char>(*p);
    *ascii = all < 0x80;
    return p;
#endif
}

class BlockParser {
  public:
    BlockParser(const Options& options, const Arrays& arrays, uint64_t seed, Block& block)
        : options_(options), arrays_(arrays), seed_(seed), block_(block) {}

    void run() {
        for (const char* p = block_.begin; p < block_.end;) {
            line_begin_ = p;
            ++line_;
            p = options_.names ? read_line(p) : read_integers(p);
            if (p == nullptr) return;
        }
        block_.names.close();
    }

  private:
    // Reads the line at p and returns the start of the next, or nullptr on a fault.
    const char* read_integers(const char* const p) {
        const PlainEdge edge = read_plain_edge(p);
        if (edge.end == nullptr || block_.edges == block_.lines) return read_line(p);
        const char* q = edge.end;
        double weight = 1.0;
        if (*q == '\t' || *q == ' ' || *q == ',') {
            q = read_number(q + 1, &weight);
            if (q == nullptr || !std::isfinite(weight)) return read_line(p);
        } else if (options_.weights) {
            return read_line(p);
        }
        q += *q == '\r';
        if (*q != '\n') return read_line(p);
        store_ids(edge.source, edge.target);
        store_edge(weight);
        return q + 1;
    }

    const char* read_line(const char* p) {
        p = skip_blanks(p);
        if (is_line_end(p) || begins_comment(p)) return next_line(p);
        if (block_.edges == block_.lines) return fail(Fault::kChanged, p);
        p = options_.names ? read_names(p) : read_two_integers(p);
        if (p == nullptr) return nullptr;
        double weight = 1.0;
        if (is_edge_end(p)) {
            if (options_.weights) return fail(Fault::kNoWeight, p);
        } else {
            p = read_column(p, Fault::kWeight, &weight);
            double time;
            if (p != nullptr && !is_edge_end(p)) p = read_column(p, Fault::kExtra, &time);
            if (p == nullptr) return nullptr;
            if (!is_edge_end(p)) return fail(Fault::kExtra, p);
        }
        store_edge(weight);
        return next_line(p);
    }

    const char* read_two_integers(const char* p) {
        int64_t source = 0, target = 0;
        p = read_integer(p, &source);
        if (p == nullptr) return nullptr;
        p = next_column(p);
        if (is_line_end(p)) return fail(Fault::kTarget, p);
        p = read_integer(p, &target);
        if (p == nullptr) return nullptr;
        store_ids(source, target);
        return next_column(p);
    }

    const char* read_names(const char* p) {
        int32_t source = 0, target = 0;
        p = read_name(p, &source);
        if (p == nullptr) return nullptr;
        p = next_column(p);
        if (is_line_end(p)) return fail(Fault::kTarget, p);
        p = read_name(p, &target);
        if (p == nullptr) return nullptr;
        arrays_.source_numbers[block_.first_edge + block_.edges] = source;
        arrays_.target_numbers[block_.first_edge + block_.edges] = target;
        return next_column(p);
    }

    const char* read_integer(const char* const token, int64_t* id) {
        const bool negative = *token == '-';
        const char* p = token + negative;
        const char* const digits = p;
        int64_t value = 0;
        bool fits = true;
        for (; *p >= '0' && *p <= '9'; ++p) {
            const int digit = negative ? '0' - *p : *p - '0';  // with its sign, since -2^63 has no opposite
            fits = fits && !__builtin_mul_overflow(value, 10, &value) &&
                   !__builtin_add_overflow(value, digit, &value);
        }
        if (p == digits || !is_token_end(p)) return fail(Fault::kInteger, token);
        if (!fits) return fail(Fault::kLarge, token);
        *id = value;
        return p;
    }

    const char* read_name(const char* const token, int32_t* number) {
        bool ascii;
        const char* const end = name_end(token, &ascii);
        const size_t size = static_cast<size_t>(end - token);
        if (size == 0 || !is_token_end(end)) return fail(Fault::kName, token);
        if (!ascii && !is_utf8(token, size)) return fail(Fault::kEncoding, token);
        *number = static_cast<int32_t>(block_.names.find_or_add(token, size, hash_of(token, size, seed_)));
        return end;
    }

    const char* read_column(const char* const token, Fault fault, double* value) {
        const char* const p = read_number(token, value);
        if (p == nullptr || !std::isfinite(*value) || !is_token_end(p)) return fail(fault, token);
        return next_column(p);
    }

    void store_ids(int64_t source, int64_t target) {
        arrays_.source_ids[block_.first_edge + block_.edges] = source;
        arrays_.target_ids[block_.first_edge + block_.edges] = target;
        block_.low = std::min({block_.low, source, target});
        block_.high = std::max({block_.high, source, target});
    }

    // To be called after the ids of the edge have been stored.
    void store_edge(double weight) {
        if (arrays_.weights != nullptr) arrays_.weights[block_.first_edge + block_.edges] = weight;
        ++block_.edges;
    }

    const char* fail(Fault fault, const char* token) {
        block_.fault = fault;
        block_.fault_at = {line_, token - line_begin_ + 1,
                           static_cast<int64_t>(block_.first) + (token - block_.begin)};
        return nullptr;
    }

    // Skips the blanks after a token, among which may be a comma.
    const char* next_column(const char* p) {
        p = skip_blanks(p);
        after_comma_ = *p == ',';
        return after_comma_ ? skip_blanks(p + 1) : p;
    }

    bool is_line_end(const char* p) const { return *p == '\n' || (*p == '\0' && p == block_.end); }

    // Whether an edge may end here; a comma promises another column.
    bool is_edge_end(const char* p) const {
        return (is_line_end(p) || *p == '#' || *p == '%') && !after_comma_;
    }

    bool is_token_end(const char* p) const { return is_blank(*p) || *p == ',' || is_line_end(p); }

    const char* next_line(const char* p) const {
        if (*p == '\n') return p + 1;
        if (p >= block_.end) return block_.end;
        const void* found = std::memchr(p, '\n', block_.end - p);
        return found ? static_cast<const char*>(found) + 1 : block_.end;
    }

    const Options& options_;
    const Arrays& arrays_;
    const uint64_t seed_;
    Block& block_;
    const char* line_begin_ = nullptr;
    int64_t line_ = 0;
    bool after_comma_ = false;
};

}  // namespace edges
