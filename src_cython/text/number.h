// Decimal numbers to the nearest double, equal bit for bit to Python's float().
//
// Up to 18 digits and a small exponent take the exact path of Clinger ("How to read floating point numbers
// accurately", PLDI 1990): an integer below 2^53, multiplied or divided by a power of ten up to 10^22, both
// exact in double, so that there is only one rounding. The rest goes to std::from_chars.
#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <system_error>

#include "text/characters.h"

namespace text {

constexpr double kPowers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                              1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
constexpr uint64_t kExactMantissa = uint64_t{1} << 53;
constexpr uint64_t kIntegerPowers[] = {1,
                                       10,
                                       100,
                                       1000,
                                       10000,
                                       100000,
                                       1000000,
                                       10000000,
                                       100000000,
                                       1000000000,
                                       10000000000,
                                       100000000000,
                                       1000000000000,
                                       10000000000000,
                                       100000000000000,
                                       1000000000000000};

// Reads the number at p, by the grammar [+-] digits [. digits] [e [+-] digits] with at least one digit before
// the exponent. Returns one past its end, or nullptr if there is none. A number beyond the largest double
// gives an infinity.
__attribute__((noinline, cold)) inline const char* read_any_number(const char* p, double* value) {
    const bool negative = *p == '-';
    if (*p == '+' || *p == '-') ++p;
    const char* const begin = p;
    int64_t magnitude = 0;  // decimal exponent of the first digit that is not 0, plus one
    bool digits = false, significant = false;
    for (; *p >= '0' && *p <= '9'; ++p) {
        digits = true;
        significant |= *p != '0';
        magnitude += significant;
    }
    if (*p == '.') {
        for (++p; *p >= '0' && *p <= '9'; ++p) {
            digits = true;
            significant |= *p != '0';
            magnitude -= !significant;
        }
    }
    if (!digits) return nullptr;
    if (*p == 'e' || *p == 'E') {
        const char* q = p + 1;
        const bool small = *q == '-';
        if (*q == '+' || *q == '-') ++q;
        if (*q < '0' || *q > '9') return nullptr;
        int64_t exponent = 0;
        for (; *q >= '0' && *q <= '9'; ++q) {
            // Saturates far beyond any magnitude that the digits of a text could compensate.
            if (exponent < (int64_t{1} << 58)) exponent = 10 * exponent + (*q - '0');
        }
        magnitude += small ? -exponent : exponent;
        p = q;
    }
    double v = 0;
    if (significant) {
        if (std::from_chars(begin, p, v).ec == std::errc::result_out_of_range)
            v = magnitude > 0 ? std::numeric_limits<double>::infinity() : 0.0;
    }
    *value = negative ? -v : v;
    return p;
}

inline const char* read_number(const char* p, double* value) {
    const bool negative = *p == '-';
    const char* q = p + negative;
    uint64_t x = load_digits(q);
    const int whole = digit_run(x);
    if (__builtin_expect(whole > 3, 0)) return read_any_number(p, value);
    uint64_t mantissa = leading_digits(x, whole);
    q += whole;
    int scale = 0;
    if (*q == '.') {
        x = load_digits(++q);
        int run = digit_run(x);
        if (run == 8) {
            mantissa = mantissa * 100000000 + eight_digits(x);
            q += 8;
            scale = 8;
            x = load_digits(q);
            run = digit_run(x);
            if (__builtin_expect(run == 8, 0)) return read_any_number(p, value);
        }
        mantissa = mantissa * kIntegerPowers[run] + leading_digits(x, run);
        q += run;
        scale += run;
    }
    if (__builtin_expect(whole + scale == 0, 0)) return read_any_number(p, value);
    if (__builtin_expect((*q | 0x20) == 'e', 0)) {
        const bool small = q[1] == '-';
        const char* r = q + 1 + (q[1] == '-' || q[1] == '+');
        x = load_digits(r);
        const int run = digit_run(x);
        if (run < 1 || run > 3) return read_any_number(p, value);
        const int exponent = static_cast<int>(leading_digits(x, run));
        scale += small ? exponent : -exponent;
        q = r + run;
    }
    if (__builtin_expect(mantissa > kExactMantissa || scale > 22 || scale < -22, 0))
        return read_any_number(p, value);
    const double v = static_cast<double>(static_cast<int64_t>(mantissa));
    const double magnitude = scale >= 0 ? v / kPowers[scale] : v * kPowers[-scale];
    *value = negative ? -magnitude : magnitude;
    return q;
}

}  // namespace text
