// Finds the columns of a text without parsing it, from the first and the last pair of each line.
//
// Indices ascend in nearly every file, so these two have the smallest and the largest index. Where they do
// not, or a label looks like a pair, the result is wrong; whoever uses it checks it when the text is parsed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "text/characters.h"

namespace svmlight {

using namespace text;

struct Extent {
    int64_t max_index = -1;  // as written
    bool has_zero = false;   // an index 0 occurs

    void add(const Extent& other) {
        max_index = std::max(max_index, other.max_index);
        has_zero |= other.has_zero;
    }
};

// The index that ends before a colon of a line, -1 if that is none.
inline int64_t index_before(const char* line, const char* colon) {
    constexpr int kMaxDigits = 10;
    const char* p = colon;
    while (p > line && colon - p <= kMaxDigits && p[-1] >= '0' && p[-1] <= '9') --p;
    if (p == colon || colon - p > kMaxDigits || p == line || !is_blank(p[-1])) return -1;
    int64_t index = 0;
    for (; p < colon; ++p) index = index * 10 + (*p - '0');
    return index;
}

// The extent of whole lines.
inline Extent find_extent(const char* const begin, const char* const end) {
    Extent found;
    const auto find = [](const char* first, const char* last, char wanted) {
        return static_cast<const char*>(std::memchr(first, wanted, static_cast<size_t>(last - first)));
    };
    for (const char *line = begin, *next; line < end; line = next) {
        const char* stop = find(line, end, '\n');
        next = stop ? stop + 1 : end;
        if (!stop) stop = end;
        if (const char* const comment = find(line, stop, '#')) stop = comment;
        const char* const first = find(line, stop, ':');
        if (!first) continue;
        const char* last = stop - 1;
        while (*last != ':') --last;
        found.max_index = std::max(found.max_index, index_before(line, last));
        const char* pair = first;
        if (index_before(line, pair) < 0) pair = find(pair + 1, stop, ':');  // qid:
        found.has_zero |= pair && index_before(line, pair) == 0;
    }
    return found;
}

}  // namespace svmlight
