// Reads the entries of a Matrix Market file: lines with one-based indices and a number.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "text/characters.h"
#include "text/number.h"

namespace svmlight {

using namespace text;

// The arrays to fill, `count` long each; rows and columns are null for a dense matrix, values for a
// pattern.
struct Entries {
    int64_t count;
    int64_t row_count, column_count;
    int64_t* rows;
    int64_t* columns;
    double* values;
};

inline const char* read_position(const char* p, int64_t limit, int64_t* position) {
    int64_t index = 0;
    int digits = 0;
    for (; *p >= '0' && *p <= '9' && digits < 18; ++p, ++digits) index = index * 10 + (*p - '0');
    if (index < 1 || index > limit) return nullptr;
    *position = index - 1;
    return p;
}

// Reads the entries in text[start, length), which kPadding bytes follow. Returns -1, or the offset of the
// first wrong token; `length` if entries are missing.
inline int64_t read_entries(const char* text, int64_t start, int64_t length, const Entries& entries) {
    const char* const end = text + length;
    const char* p = text + start;
    const auto skip_lines = [&p] {
        while (*p == '\n' || is_blank(*p)) ++p;
    };
    const auto at_end = [end](const char* q) { return is_blank(*q) || *q == '\n' || q == end; };
    for (int64_t k = 0; k < entries.count; ++k) {
        skip_lines();
        if (p >= end) return length;
        const char* q = p;
        if (entries.rows != nullptr) {
            q = read_position(p, entries.row_count, &entries.rows[k]);
            if (q == nullptr || !is_blank(*q)) return p - text;
            p = skip_blanks(q);
            q = read_position(p, entries.column_count, &entries.columns[k]);
            if (q == nullptr || !at_end(q)) return p - text;
        }
        if (entries.values != nullptr) {
            p = skip_blanks(q);
            q = read_number(p, &entries.values[k]);
            if (q == nullptr || !at_end(q) || !std::isfinite(entries.values[k])) return p - text;
        }
        p = skip_blanks(q);
        if (*p != '\n' && p < end) return p - text;
    }
    skip_lines();
    return p < end ? p - text : -1;
}

}  // namespace svmlight
