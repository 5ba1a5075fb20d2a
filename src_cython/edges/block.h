// Parses one block of whole lines of edge text: columns, two of them ids, and maybe a weight.
//
// A line that begins with two integers takes one look at 32 bytes: a mask of the bytes that are not digits
// gives the ends of both (as in svmlight/pair.h). Everything else, valid or not, goes to a reader of columns.
// A file may be written to by others between the passes, so the number of lines from the first pass is not
// trusted.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>

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
    kColumns,     // fewer or more columns than others
    kQuote,       // a quote that is not closed before the next column
    kComment,     // what may be a comment or a part of a name
    kAttributes,  // no attributes of an edge
    kDirection,   // directed among undirected, or the other way round
    kReturn,      // a carriage return that ends no line
    kNul,
    kNodes,  // too many nodes
    kChanged
};

// What the lines of a text look like. Places of columns start at 0; -1 stands for none.
struct Options {
    bool weights;    // keep weights
    bool names;      // ids are names, else integers
    char separator;  // between columns; 0 for blanks, or a comma
    int columns;     // of every line
    int source, target, weight;
    int direction;    // a column that says "directed" or "undirected"
    bool undirected;  // which of them it must say
    bool attributes;  // the last column has the attributes of an edge, as Python writes a dictionary
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

// Whether a byte separates columns; others may too.
inline bool is_plain_separator(char c, char separator) {
    return separator ? c == separator : c == '\t' || c == ' ' || c == ',';
}

// Reads two runs of at most 15 digits with one separator between them.
inline PlainEdge read_plain_edge(const char* p, char separator) {
    constexpr PlainEdge kOther = {nullptr, 0, 0};
#if defined(__SSE2__)
    constexpr int kMostDigits = 15;
    constexpr uint32_t kLast = uint32_t{1} << 31;
    uint32_t stops = ~(digit_mask(p) | digit_mask(p + 16) << 16) | kLast;
    const int middle = __builtin_ctz(stops);
    stops &= stops - 1;
    const int end = __builtin_ctz(stops | kLast);
    const int digits = end - middle - 1;  // of the target
    const bool fits = middle > 0 && middle <= kMostDigits && digits > 0 && digits <= kMostDigits && end < 31;
    if (!fits || !is_plain_separator(p[middle], separator)) return kOther;
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
        : options_(options),
          arrays_(arrays),
          seed_(seed),
          block_(block),
          plain_(!options.names && options.source == 0 && options.target == 1 && !options.attributes &&
                 options.direction < 0 && (options.weight < 0 || options.weight == 2)) {}

    void run() {
        for (const char* p = block_.begin; p < block_.end;) {
            line_begin_ = p;
            ++line_;
            p = plain_ ? read_integers(p) : read_line(p);
            if (p == nullptr) return;
        }
        block_.names.close();
    }

  private:
    // Reads the line at p and returns the start of the next, or nullptr on a fault.
    const char* read_integers(const char* const p) {
        const PlainEdge edge = read_plain_edge(p, options_.separator);
        if (edge.end == nullptr || block_.edges == block_.lines) return read_line(p);
        const char* q = edge.end;
        double weight = 1.0;
        int column = 2;
        if (options_.weight == 2) {
            if (!is_plain_separator(*q, options_.separator)) return read_line(p);
            q = read_number(q + 1, &weight);
            if (q == nullptr || !std::isfinite(weight)) return read_line(p);
            ++column;
        }
        for (; column < options_.columns; ++column) {
            if (!is_plain_separator(*q, options_.separator)) return read_line(p);
            const char* const token = ++q;
            while (is_plain(*q)) ++q;
            if (q == token) return read_line(p);
        }
        q += *q == '\r';
        if (*q != '\n') return read_line(p);
        store_ids(edge.source, edge.target);
        store_edge(weight);
        return q + 1;
    }

    // Whether a byte of a column that is not read needs no further look.
    bool is_plain(char c) const {
        return static_cast<unsigned char>(c) > ' ' && c != ',' && c != '"' && c != '#' && c != '%' &&
               c != options_.separator;
    }

    const char* read_line(const char* p) {
        if (const char* const q = skip_blanks(p); is_line_end(q) || begins_comment(q)) return next_line(q);
        p = skip_space(p);
        if (block_.edges == block_.lines) return fail(Fault::kChanged, p);
        Edge edge;
        int column = 0;
        const int last_id = std::max(options_.source, options_.target);
        for (after_separator_ = false;; ++column) {
            const bool is_over = is_line_end(p) || (column > last_id && (*p == '#' || *p == '%'));
            if (is_over && !after_separator_) break;
            if (column == options_.columns) return fail(Fault::kColumns, p);
            p = read_column(p, column, &edge);
            if (p == nullptr) return nullptr;
            p = next_column(p);
            if (p == nullptr) return nullptr;
        }
        if (column <= last_id) return fail(Fault::kTarget, p);
        if (column <= options_.weight) return fail(Fault::kNoWeight, p);
        if (column < options_.columns) return fail(Fault::kColumns, p);
        if (options_.names) {
            arrays_.source_numbers[block_.first_edge + block_.edges] = name_number(edge.source_name);
            arrays_.target_numbers[block_.first_edge + block_.edges] = name_number(edge.target_name);
        } else {
            store_ids(edge.source, edge.target);
        }
        store_edge(edge.weight);
        return next_line(p);
    }

    struct Edge {
        int64_t source = 0, target = 0;
        std::string_view source_name, target_name;
        double weight = 1.0;
    };

    // Reads a column and returns its end, or nullptr on a fault.
    const char* read_column(const char* p, int column, Edge* edge) {
        if (column == options_.source || column == options_.target) {
            const bool is_source = column == options_.source;
            if (is_line_end(p) && column > 0) return fail(Fault::kTarget, p);
            return options_.names ? read_name(p, is_source ? &edge->source_name : &edge->target_name,
                                              &unquoted_[is_source])
                                  : read_integer(p, is_source ? &edge->source : &edge->target);
        }
        if (options_.attributes && column == options_.columns - 1) return read_attributes(p, &edge->weight);
        if (column == options_.weight) return read_weight(p, &edge->weight);
        const char* const end = skip_column(p);
        if (end == nullptr) return nullptr;
        if (*end == '\0' && !is_line_end(end)) return fail(Fault::kNul, end);
        if (column == options_.direction && !says_direction(p, end)) return fail(Fault::kDirection, p);
        return end;
    }

    const char* read_integer(const char* const token, int64_t* id) {
        const bool quoted = *token == '"';
        const bool negative = token[quoted] == '-';
        const char* p = token + quoted + negative;
        const char* const digits = p;
        int64_t value = 0;
        bool fits = true;
        for (; *p >= '0' && *p <= '9'; ++p) {
            const int digit = negative ? '0' - *p : *p - '0';  // with its sign, since -2^63 has no opposite
            fits = fits && !__builtin_mul_overflow(value, 10, &value) &&
                   !__builtin_add_overflow(value, digit, &value);
        }
        if (p == digits || (quoted && *p != '"') || !is_token_end(p + quoted))
            return fail(Fault::kInteger, token);
        if (!fits) return fail(Fault::kLarge, token);
        *id = value;
        return p + quoted;
    }

    // Reads a name; `unquoted` keeps one that is written in quotes.
    const char* read_name(const char* const token, std::string_view* name, std::string* unquoted) {
        if (*token == '"') {
            const char* const end = skip_quoted(token);
            if (end == nullptr) return nullptr;
            unquoted->clear();
            for (const char* p = token + 1; p < end - 1; ++p) {
                unquoted->push_back(*p);
                p += *p == '"';  // the first of two, which stand for one
            }
            *name = *unquoted;
            return check_name(token, *name) ? end : nullptr;
        }
        bool ascii = false;
        const char* end = options_.separator ? skip_column(token) : name_end(token, &ascii);
        if (*end == '\0' ? !is_line_end(end) : !options_.separator && !is_token_end(end))
            return fail(Fault::kName, token);
        while (options_.separator && end > token && is_blank(end[-1])) --end;
        *name = {token, static_cast<size_t>(end - token)};
        for (const char* p = token + 1; options_.separator && p < end; ++p)
            if ((*p == '#' || *p == '%') && is_blank(p[-1])) return fail(Fault::kComment, p);
        return (ascii && end > token) || check_name(token, *name) ? end : nullptr;
    }

    // Whether a name is one; else the fault is set.
    bool check_name(const char* token, std::string_view name) {
        bool plain = !name.empty();
        for (const char c : name) plain = plain && static_cast<unsigned char>(c) >= ' ';
        const Fault found = plain ? Fault::kEncoding : Fault::kName;
        // A sequence that the end of a name cuts off ends at a byte below 0x80, which follows each name.
        if (plain && is_utf8(name.data(), name.size())) return true;
        fail(found, token);
        return false;
    }

    int32_t name_number(std::string_view name) {
        const uint64_t hash = hash_of(name.data(), name.size(), seed_);
        return static_cast<int32_t>(block_.names.find_or_add(name.data(), name.size(), hash));
    }

    const char* read_weight(const char* const token, double* weight) {
        const bool quoted = *token == '"';
        const char* const p = read_number(token + quoted, weight);
        const bool is_number = p != nullptr && std::isfinite(*weight) && (!quoted || *p == '"');
        return is_number && is_token_end(p + quoted) ? p + quoted : fail(Fault::kWeight, token);
    }

    // Reads attributes as Python writes a dictionary, of which only the weight counts.
    const char* read_attributes(const char* const token, double* weight) {
        if (*token != '{') return fail(Fault::kAttributes, token);
        int depth = 0;
        for (const char* p = token; !stops(p);) {
            if (*p == '\'' || *p == '"') {
                const char* const begin = p + 1;
                const char* const end = skip_text(p);
                if (end == nullptr) break;
                p = skip_blanks(end);
                if (depth != 1 || *p != ':' || !options_.weights ||
                    std::string_view(begin, end - 1 - begin) != "weight")
                    continue;
                const char* const value = skip_blanks(p + 1);
                p = read_number(value, weight);
                const bool is_number = p != nullptr && std::isfinite(*weight);
                if (!is_number || (*p != ',' && *p != '}' && !is_blank(*p)))
                    return fail(Fault::kWeight, value);
                continue;
            }
            depth += (*p == '{' || *p == '[' || *p == '(') - (*p == '}' || *p == ']' || *p == ')');
            ++p;
            if (depth == 0) return p;
        }
        return fail(Fault::kAttributes, token);
    }

    // The end of a text of Python in quotes, nullptr if it has none.
    const char* skip_text(const char* p) const {
        const char quote = *p++;
        for (; !stops(p); ++p) {
            if (*p == quote) return p + 1;
            if (*p == '\\' && !stops(p + 1)) ++p;
        }
        return nullptr;
    }

    const char* skip_column(const char* const token) {
        const char* p = token;
        if (*p == '"') return skip_quoted(p);
        if (options_.separator) {
            while (*p != options_.separator && *p != '\r' && !stops(p)) ++p;
        } else {
            while (!is_token_end(p) && !stops(p)) ++p;
        }
        return p;
    }

    // The end of a column in quotes, where two of them stand for one.
    const char* skip_quoted(const char* const token) {
        const char* p = token + 1;
        for (; !stops(p); ++p) {
            if (*p != '"') continue;
            if (p[1] != '"') return is_token_end(p + 1) ? p + 1 : fail(Fault::kQuote, token);
            ++p;
        }
        return fail(Fault::kQuote, token);
    }

    bool says_direction(const char* p, const char* end) const {
        std::string word;
        for (; p < end; ++p)
            if (*p != '"' && !is_blank(*p)) word.push_back(static_cast<char>(*p | 0x20));
        return word == (options_.undirected ? "undirected" : "directed");
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

    std::nullptr_t fail(Fault fault, const char* token) {
        block_.fault = *token == '\r' ? Fault::kReturn : fault;
        block_.fault_at = {line_, token - line_begin_ + 1,
                           static_cast<int64_t>(block_.first) + (token - block_.begin)};
        return nullptr;
    }

    // Skips blanks that separate nothing: carriage returns must end a line.
    const char* skip_space(const char* p) const {
        for (; is_blank(*p) && *p != options_.separator; ++p) {
            const char* q = p;
            while (*q == '\r') ++q;
            if (q > p && !is_line_end(q)) return p;
        }
        return p;
    }

    // Goes from the end of a column to the next one, or to the end of the line.
    const char* next_column(const char* p) {
        p = skip_space(p);
        after_separator_ = *p == (options_.separator ? options_.separator : ',');
        if (after_separator_) return skip_space(p + 1);
        if (!options_.separator || is_line_end(p) || *p == '#' || *p == '%') return p;
        return fail(Fault::kColumns, p);
    }

    bool is_line_end(const char* p) const { return *p == '\n' || (*p == '\0' && p == block_.end); }

    // Whether a scan may go no further: a block may end after a NUL, which is no end of a line.
    bool stops(const char* p) const { return *p == '\n' || *p == '\0'; }

    bool is_token_end(const char* p) const {
        return is_blank(*p) || *p == (options_.separator ? options_.separator : ',') || is_line_end(p);
    }

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
    const bool plain_;  // whether lines may be of the usual shape
    std::string unquoted_[2];
    const char* line_begin_ = nullptr;
    int64_t line_ = 0;
    bool after_separator_ = false;
};

}  // namespace edges
