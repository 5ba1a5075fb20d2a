// Reads a pair of the common shape index:[-]digits[.digits] with one look at 32 bytes.
//
// If bytes or words are read one at a time, the start of a pair is known only after the digits of the one
// before have been passed: this chain of loads, not the arithmetic, limits a scalar reader. Here a mask of
// the bytes that are not digits gives the ends of all three runs of digits at once (the idea of Langdale and
// Lemire, "Parsing gigabytes of JSON per second", VLDB Journal 28 (2019), section 3), and the arithmetic of
// one pair overlaps with the search for the next. Lengths and signs take no branches.
#pragma once

#include <cstdint>

#include "text/characters.h"
#include "text/number.h"

namespace svmlight {

using namespace text;

struct Pair {
    const char* end;  // nullptr if the pair has another shape, which need not be wrong
    int64_t index;
    double value;
};

#if defined(__SSE2__)

inline Pair read_plain_pair(const char* p) {
    constexpr Pair kOther = {nullptr, 0, 0};
    constexpr uint32_t kLast = uint32_t{1} << 31;
    uint32_t stops = ~(digit_mask(p) | digit_mask(p + 16) << 16) | kLast;
    const int colon = __builtin_ctz(stops);
    if (__builtin_expect(p[colon] != ':' || colon > 8 || colon == 0, 0)) return kOther;
    const int64_t index = static_cast<int64_t>(first_digits(load_digits(p), colon));

    stops &= stops - 1;
    const bool negative = p[colon + 1] == '-';
    stops = negative ? stops & (stops - 1) : stops;
    const int start = colon + 1 + negative;
    int end = __builtin_ctz(stops | kLast);
    const int whole = end - start;
    int fraction = 0;
    if (whole > 8) return kOther;
    // One digit is so common that a branch is cheaper than the arithmetic.
    uint64_t mantissa = whole == 1 ? p[start] - '0' : first_digits(load_digits(p + start), whole);
    if (p[end] == '.') {
        const char* const q = p + end + 1;
        stops &= stops - 1;
        const int point = end;
        end = __builtin_ctz(stops | kLast);
        fraction = end - point - 1;
        if (fraction <= 8) {
            mantissa = mantissa * kIntegerPowers[fraction] + first_digits(load_digits(q), fraction);
        } else {
            if (fraction > 15 || whole > 3) return kOther;
            mantissa = mantissa * kIntegerPowers[8] + eight_digits(load_digits(q));
            mantissa =
                mantissa * kIntegerPowers[fraction - 8] + first_digits(load_digits(q + 8), fraction - 8);
        }
    }
    if (__builtin_expect(end == 31 || whole + fraction == 0 || mantissa > kExactMantissa, 0)) return kOther;
    const double magnitude = static_cast<double>(static_cast<int64_t>(mantissa)) / kPowers[fraction];
    return {p + end, index, negative ? -magnitude : magnitude};
}

#else

inline Pair read_plain_pair(const char*) { return {nullptr, 0, 0}; }

#endif

}  // namespace svmlight
