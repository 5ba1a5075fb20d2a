// Bytes of a text: character classes and runs of digits.
//
// Every text passed to the reader is followed by at least kPadding readable bytes, the first of them NUL, so
// that a scan may load whole words past the end of a token, and stops by itself at the end.
#pragma once

#include <cstdint>
#include <cstring>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace text {

constexpr int kPadding = 64;

// Blanks are those of Python's bytes.split(); a carriage return before a line feed is one of them.
inline bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r' && c != '\n'); }

inline const char* skip_blanks(const char* p) {
    while (is_blank(*p)) ++p;
    return p;
}

// The 8 bytes at p, first byte lowest, with '0'..'9' mapped to 0..9.
inline uint64_t load_digits(const char* p) {
    uint64_t x;
    std::memcpy(&x, p, sizeof x);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    x = __builtin_bswap64(x);
#endif
    return x ^ 0x3030303030303030u;
}

// The number of leading digits among the 8 bytes of load_digits.
inline int digit_run(uint64_t x) {
    const uint64_t other = (((x & 0x7f7f7f7f7f7f7f7fu) + 0x7676767676767676u) | x) & 0x8080808080808080u;
    return other ? __builtin_ctzll(other) >> 3 : 8;
}

// The number that 8 digits spell: pairs, then all four pairs at once (Lemire, "Number parsing at a
// gigabyte per second", Software: Practice and Experience 51 (2021), section 7).
inline uint64_t eight_digits(uint64_t x) {
    constexpr uint64_t kMask = 0x000000ff000000ffu;
    x = x * 10 + (x >> 8);
    return ((x & kMask) * (100 + (1000000ull << 32)) + ((x >> 16) & kMask) * (1 + (10000ull << 32))) >> 32;
}

// The number that the first n of them spell, n in 0..7: the others are shifted out and replaced by zeros.
inline uint32_t leading_digits(uint64_t x, int n) {
    return static_cast<uint32_t>(eight_digits((x << (56 - 8 * n)) << 8));
}

// The number that the first n of 8 digits spell, n in 0..8.
inline uint64_t first_digits(uint64_t x, int n) {
    const int half = 32 - 4 * n;
    return eight_digits(x << half << half);
}

#if defined(__SSE2__)

// One bit for each of 16 bytes: whether it is a digit.
inline uint32_t digit_mask(const char* p) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    const __m128i shifted = _mm_sub_epi8(bytes, _mm_set1_epi8('0'));
    const __m128i digits = _mm_cmpeq_epi8(_mm_min_epu8(shifted, _mm_set1_epi8(9)), shifted);
    return static_cast<uint32_t>(_mm_movemask_epi8(digits));
}

#endif

}  // namespace text
