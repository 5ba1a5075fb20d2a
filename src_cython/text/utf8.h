// Texts encoded as UTF-8 (RFC 3629).
#pragma once

#include <cstddef>

namespace text {

// Whether bytes, the last of them followed by padding, are UTF-8.
inline bool is_utf8(const char* p, size_t size) {
    const auto* q = reinterpret_cast<const unsigned char*>(p);
    const unsigned char* const end = q + size;
    const auto is_tail = [](unsigned char c) { return (c & 0xc0) == 0x80; };
    while (q < end) {
        const unsigned char c = *q;
        if (c < 0x80) {
            ++q;
        } else if (c >= 0xc2 && c <= 0xdf && is_tail(q[1])) {
            q += 2;
        } else if ((c & 0xf0) == 0xe0 && is_tail(q[1]) && is_tail(q[2])) {
            const bool overlong = c == 0xe0 && q[1] < 0xa0, surrogate = c == 0xed && q[1] >= 0xa0;
            if (overlong || surrogate) return false;
            q += 3;
        } else if (c >= 0xf0 && c <= 0xf4 && is_tail(q[1]) && is_tail(q[2]) && is_tail(q[3])) {
            if ((c == 0xf0 && q[1] < 0x90) || (c == 0xf4 && q[1] >= 0x90)) return false;
            q += 4;
        } else {
            return false;
        }
    }
    return q == end;
}

}  // namespace text
