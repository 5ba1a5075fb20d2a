// Margins in ascending order, with their places.
//
// Doubles become integers of the same order (all bits flipped below zero, the sign bit above), which a radix
// sort takes in three passes over the upper 33 bits; runs that agree in those are finished by comparison. The
// order is total, ties going by place, so it is the same whatever the number of threads that sort parts of
// it.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

namespace bmrm {

/// A margin as an integer, and the place that it came from.
struct Ranked {
    uint64_t key;
    int64_t place;

    Ranked() = default;
    Ranked(double margin, int64_t from) : place(from) {
        margin += 0.0;  // -0 and 0 are one margin
        std::memcpy(&key, &margin, sizeof key);
        key ^= key >> 63 ? ~uint64_t{0} : uint64_t{1} << 63;
    }
    double margin() const {
        const uint64_t bits = key ^ (key >> 63 ? uint64_t{1} << 63 : ~uint64_t{0});
        double value;
        std::memcpy(&value, &bits, sizeof value);
        return value;
    }
    bool operator<(const Ranked& other) const {
        return key != other.key ? key < other.key : place < other.place;
    }
};

/// Shorter arrays are sorted by comparison.
constexpr int64_t kRadixFrom = 512;
/// Longer ones by several threads.
constexpr int64_t kParallelFrom = 1 << 16;

inline void radix_sort(Ranked* a, Ranked* scratch, int64_t n) {
    constexpr int bits = 11, digits = 3, lowest = 64 - bits * digits;
    constexpr int64_t radix = int64_t{1} << bits;
    std::vector<int64_t> places(digits * radix, 0);
    for (int64_t i = 0; i < n; ++i)
        for (int d = 0; d < digits; ++d)
            ++places[d * radix + (a[i].key >> (lowest + bits * d) & (radix - 1))];
    for (int d = 0; d < digits; ++d) {
        int64_t sum = 0;
        for (int64_t k = 0; k < radix; ++k) sum += std::exchange(places[d * radix + k], sum);
    }
    Ranked *from = a, *to = scratch;
    for (int d = 0; d < digits; ++d) {
        int64_t* place = &places[d * radix];
        for (int64_t i = 0; i < n; ++i)
            to[place[from[i].key >> (lowest + bits * d) & (radix - 1)]++] = from[i];
        std::swap(from, to);
    }
    std::memcpy(static_cast<void*>(a), from, n * sizeof(Ranked));  // an odd number of passes ends in scratch
    for (int64_t i = 0; i < n;) {
        int64_t end = i + 1;
        while (end < n && a[end].key >> lowest == a[i].key >> lowest) ++end;
        if (end - i > 1) std::sort(a + i, a + end);
        i = end;
    }
}

/// Sorts a[0, n); `scratch` has room for n.
inline void sort_margins(Ranked* a, Ranked* scratch, int64_t n, int threads) {
    if (n < kRadixFrom) return std::sort(a, a + n);
    if (threads < 2 || n < kParallelFrom) return radix_sort(a, scratch, n);
    int64_t parts = 1;
    while (2 * parts <= threads && parts < 16) parts *= 2;
    const auto cut = [=](int64_t p) { return p * n / parts; };
#pragma omp parallel for schedule(static, 1) num_threads(int(parts))
    for (int64_t p = 0; p < parts; ++p) radix_sort(a + cut(p), scratch + cut(p), cut(p + 1) - cut(p));
    for (int64_t width = 1; width < parts; width *= 2) {
#pragma omp parallel for schedule(static, 1) num_threads(int(parts))
        for (int64_t p = 0; p < parts; p += 2 * width) {
            const int64_t low = cut(p), middle = cut(p + width), high = cut(p + 2 * width);
            std::merge(a + low, a + middle, a + middle, a + high, scratch + low);
            std::memcpy(static_cast<void*>(a + low), scratch + low, (high - low) * sizeof(Ranked));
        }
    }
}

}  // namespace bmrm
