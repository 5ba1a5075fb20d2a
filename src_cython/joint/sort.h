// Sorts margins, with their places.
//
// Doubles become integers of the same order (all bits flipped below zero, the sign bit above). Their upper
// halves, each followed by its place, are sorted in three stable passes by digits of at most 11 bits, by all
// threads at once: each thread counts the digits of its part, and writes them after those of the earlier
// parts. Runs with equal upper halves are finished by comparison. The order is total, with ties ordered by
// place, so it is the same for any number of threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>

#include "joint/problem.h"

namespace bmrm {

/// Number of rows per chunk of a large group; sums are over chunks, for any number of threads.
constexpr int64_t kChunk = 1 << 14;
/// Minimum length of an array for the radix sort; shorter ones are sorted by comparison.
constexpr int64_t kMinRadixSort = 512;
/// Minimum length of an array that several threads sort.
constexpr int64_t kMinParallelSort = 1 << 16;
/// Elements that a thread counts or moves at a time, and the maximum number of such parts; the result is the
/// same for any.
constexpr int64_t kSortPart = 1 << 16, kMaxSortParts = 32;

/// body(first, last, number) for chunks of [0, n).
template <class Body>
void in_chunks(int64_t n, int64_t length, int threads, const Body& body) {
    for_each_task((n + length - 1) / length, threads,
                  [&](int64_t c) { body(c * length, std::min(n, (c + 1) * length), c); });
}

/// The sum of body(first, last) over chunks of [0, n), in their order.
template <class Body>
Touched sum_of_chunks(int64_t n, int64_t length, int threads, Arena& arena, const Body& body) {
    const int64_t chunks = (n + length - 1) / length;
    Touched* parts = arena.take<Touched>(chunks);
    in_chunks(n, length, threads,
              [&](int64_t first, int64_t last, int64_t c) { parts[c] = body(first, last); });
    Touched total{};
    for (int64_t c = 0; c < chunks; ++c) total += parts[c];
    return total;
}

/// Computes the margins of a group.
inline double* margins_of(const Group& group, const Line& line, int threads, Arena& arena) {
    double* u = arena.take<double>(group.size);
    in_chunks(group.size, kChunk, threads, [=, &group](int64_t first, int64_t last, int64_t) {
        for (int64_t p = first; p < last; ++p) u[p] = line(group.rows[p]);
    });
    return u;
}

/// The integer of a margin; -0 and 0 have the same one.
inline uint64_t key_of(double margin) {
    int64_t bits;
    margin += 0.0;
    std::memcpy(&bits, &margin, sizeof bits);
    return uint64_t(bits) ^ (uint64_t(bits >> 63) | uint64_t{1} << 63);
}

/// A margin and its original place.
struct Ranked {
    double margin;
    int64_t place;

    bool operator<(const Ranked& other) const {
        const uint64_t mine = key_of(margin), its = key_of(other.margin);
        return mine != its ? mine < its : place < other.place;
    }
};

/// Sorts by the upper halves; returns `a` or `b`, whichever holds the result.
inline uint64_t* radix_sort(uint64_t* a, uint64_t* b, int64_t n, int threads, Arena& arena) {
    constexpr int bits = 11;
    constexpr int64_t radix = int64_t{1} << bits;
    const bool alone = n < kMinParallelSort || threads == 1;
    const int64_t parts = alone ? 1 : std::min(std::max<int64_t>(threads, n / kSortPart), kMaxSortParts);
    auto* places = arena.take<int64_t>(parts * radix);
    const auto cut = [=](int64_t part) { return part * n / parts; };
    for (int shift = 32; shift < 64; shift += bits) {
        const auto digit = [=](uint64_t element) { return int64_t(element >> shift & (radix - 1)); };
        for_each_task(parts, threads, [=](int64_t p) {
            int64_t* count = places + p * radix;
            std::fill(count, count + radix, int64_t{0});
            for (int64_t i = cut(p); i < cut(p + 1); ++i) ++count[digit(a[i])];
        });
        int64_t sum = 0;
        for (int64_t k = 0; k < radix; ++k)
            for (int64_t p = 0; p < parts; ++p) sum += std::exchange(places[p * radix + k], sum);
        for_each_task(parts, threads, [=](int64_t p) {
            int64_t* place = places + p * radix;
            for (int64_t i = cut(p); i < cut(p + 1); ++i) b[place[digit(a[i])]++] = a[i];
        });
        std::swap(a, b);
    }
    return a;
}

/// Sorted margins, and the original place of each.
struct Sorted {
    double* margin;
    int64_t* place;

    /// Sorts by comparison of whole margins; only the first `most` are in order.
    static Sorted compared(const double* u, int64_t n, int64_t most, Arena& arena) {
        const Sorted sorted{arena.take<double>(n), arena.take<int64_t>(n)};
        auto* order = arena.take<Ranked>(n);
        for (int64_t p = 0; p < n; ++p) order[p] = {u[p], p};
        if (most < n)
            std::partial_sort(order, order + most, order + n);
        else
            std::sort(order, order + n);
        for (int64_t q = 0; q < std::min(most, n); ++q) {
            sorted.margin[q] = order[q].margin;
            sorted.place[q] = order[q].place;
        }
        return sorted;
    }

    /// Sorts a run of margins with equal upper halves; often all of them are equal. `scratch` has room for
    /// all margins.
    void finish(int64_t first, int64_t last, Ranked* scratch) const {
        int64_t i = first + 1;
        while (i < last && at(i - 1) < at(i)) ++i;
        if (i < last && last - first > 32) return finish_long(first, last, scratch + first);
        for (; i < last; ++i) {
            const Ranked one = at(i);
            int64_t k = i;
            for (; k > first && one < at(k - 1); --k) put(k, at(k - 1));
            put(k, one);
        }
    }

  private:
    Ranked at(int64_t q) const { return {margin[q], place[q]}; }
    void put(int64_t q, const Ranked& one) const {
        margin[q] = one.margin;
        place[q] = one.place;
    }
    void finish_long(int64_t first, int64_t last, Ranked* run) const {
        for (int64_t i = first; i < last; ++i) run[i - first] = at(i);
        std::sort(run, run + (last - first));
        for (int64_t i = first; i < last; ++i) put(i, run[i - first]);
    }
};

/// Sorts u[0, n), which is not changed.
inline Sorted sort_margins(const double* u, int64_t n, int threads, Arena& arena) {
    if (n > int64_t{std::numeric_limits<uint32_t>::max()}) return Sorted::compared(u, n, n, arena);
    auto* order = arena.take<uint64_t>(n);
    in_chunks(n, kChunk, threads, [=](int64_t first, int64_t last, int64_t) {
        for (int64_t p = first; p < last; ++p)
            order[p] = (key_of(u[p]) & ~uint64_t{0xffffffff}) | uint64_t(p);
    });
    if (n < kMinRadixSort)
        std::sort(order, order + n);
    else
        order = radix_sort(order, arena.take<uint64_t>(n), n, threads, arena);
    const Sorted sorted{arena.take<double>(n), arena.take<int64_t>(n)};
    in_chunks(n, kChunk, threads, [=](int64_t first, int64_t last, int64_t) {
        for (int64_t q = first; q < last; ++q) {
            sorted.place[q] = int64_t(order[q] & 0xffffffff);
            sorted.margin[q] = u[sorted.place[q]];
        }
    });
    // A run belongs to the chunk in which it begins.
    auto* scratch = arena.take<Ranked>(n);
    const auto agree = [=](int64_t q) { return q > 0 && q < n && order[q - 1] >> 32 == order[q] >> 32; };
    in_chunks(n, kChunk, threads, [=](int64_t first, int64_t last, int64_t) {
        while (first < last && agree(first)) ++first;
        while (first < last) {
            int64_t end = first + 1;
            while (agree(end)) ++end;
            if (end - first > 1) sorted.finish(first, end, scratch);
            first = end;
        }
    });
    return sorted;
}

}  // namespace bmrm
