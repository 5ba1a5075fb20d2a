// A stable radix sort by all threads.
//
// Large ranges are dealt to bins by their highest digit, all threads together: each block of the range counts
// its digits, and bins take the blocks in order. Small ranges, which are left in the end, are tasks: a thread
// sorts one by its other digits, lowest first, in its near cache. A bin that is still large, as that of a
// node with most of the links, is dealt again. A stable sort has one result, so it does not depend on
// threads.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "common/memory.h"

namespace bmrm {

/// Maximum bits of a digit: it writes to 1024 places, which stay in a near cache. (A counting sort by node
/// would write to as many as there are nodes: for 8 M edges of 0.5 M nodes it takes three times as long.)
constexpr int kDigitBits = 10;
constexpr i64 kDigits = i64{1} << kDigitBits;

/// Minimum number of entries that all threads deal together: with their room they fill a near cache.
constexpr i64 kSharedEntries = i64{1} << 16;

/// Minimum number of entries of a block.
constexpr i64 kBlockEntries = i64{1} << 14;

/// The number of bits that the numbers below n need.
inline int bits_of(i64 n) {
    int bits = 1;
    while (bits < 63 && (i64{1} << bits) < n) ++bits;
    return bits;
}

/// Pieces of a loop over `count` entries: enough that threads end at about the same time.
inline i64 pieces_of(i64 count, int threads) {
    return std::clamp<i64>(count / kBlockEntries, 1, threads < 2 ? 1 : i64{4} * threads);
}

/// Sorts entries by some bits of their field `key`.
template <class Entry>
class RadixSort {
  public:
    /// `room` has as many entries.
    RadixSort(Buffer<Entry>& entries, Buffer<Entry>& room, int threads)
        : entries_(entries), room_(room), threads_(threads) {}

    /// Sorts by `bits` bits above the lowest `low`.
    void run(int bits, int low = 0) {
        if (entries_.size() == 0) return;
        low_ = low;
        large_.push_back({0, entries_.size(), bits, false});
        const i64 most = std::max(kSharedEntries, entries_.size() / (4 * threads_));
        if (entries_.size() <= most) std::swap(large_, small_);
        while (!large_.empty()) {
            const Range range = large_.back();
            large_.pop_back();
            deal(range, most);
        }
        for_each_task(static_cast<i64>(small_.size()), threads_, [&](i64 i) { sort(small_[i]); });
    }

  private:
    using Places = std::array<i64, kDigits>;

    /// Entries that are in order but for some bits.
    struct Range {
        i64 begin, end;
        int bits;
        bool in_room;
    };

    i64 digit(const Entry& entry, int shift, i64 size) const {
        return static_cast<i64>(entry.key >> (low_ + shift)) & (size - 1);
    }
    Entry* at(const Range& range) { return (range.in_room ? room_ : entries_).get() + range.begin; }

    /// Deals a range to bins by its highest digit, from where it is to the other array.
    void deal(const Range& range, i64 most) {
        const i64 count = range.end - range.begin, blocks = pieces_of(count, threads_);
        const int bits = std::min(kDigitBits, range.bits), shift = range.bits - bits;
        const i64 size = i64{1} << bits;
        const Entry* const from = at(range);
        Entry* const to = (range.in_room ? entries_ : room_).get() + range.begin;
        std::vector<Places> places(blocks);
        for_each_task(blocks, threads_, [&](i64 b) {
            Places& place = places[b];
            place.fill(0);
            for (i64 e = count * b / blocks; e < count * (b + 1) / blocks; ++e)
                ++place[digit(from[e], shift, size)];
        });
        Places ends;
        i64 begin = 0;
        for (i64 v = 0; v < size; ++v) {
            for (Places& place : places) begin += std::exchange(place[v], begin);
            ends[v] = begin;
        }
        const i64 only = std::find(ends.begin(), ends.begin() + size, count) - ends.begin();
        if (shift > 0 && (only == 0 || ends[only - 1] == 0)) {  // all have the same digit
            file({range.begin, range.end, shift, range.in_room}, most);
            return;
        }
        for_each_task(blocks, threads_, [&](i64 b) {
            Places& place = places[b];
            for (i64 e = count * b / blocks; e < count * (b + 1) / blocks; ++e)
                to[place[digit(from[e], shift, size)]++] = from[e];
        });
        begin = 0;
        for (i64 v = 0; v < size; begin = ends[v++])
            if (ends[v] > begin)
                file({range.begin + begin, range.begin + ends[v], shift, !range.in_room}, most);
    }

    void file(const Range& range, i64 most) {
        const bool dealt = range.bits > 0 && range.end - range.begin > most;
        (dealt ? large_ : small_).push_back(range);
    }

    /// Sorts a range on this thread, into the array of the entries.
    void sort(const Range& range) {
        const i64 count = range.end - range.begin;
        Entry *from = at(range), *to = (range.in_room ? entries_ : room_).get() + range.begin;
        bool in_room = range.in_room;
        const int widest = std::clamp(bits_of(count), 4, kDigitBits);  // few entries have few bins
        const int digits = (range.bits + widest - 1) / widest;
        Places place;
        for (int d = 0; d < digits; ++d) {
            const int shift = range.bits * d / digits, bits = range.bits * (d + 1) / digits - shift;
            const i64 size = i64{1} << bits;
            std::fill_n(place.begin(), size, i64{0});
            for (i64 e = 0; e < count; ++e) ++place[digit(from[e], shift, size)];
            if (place[digit(from[0], shift, size)] == count) continue;  // all have the same digit
            for (i64 v = 0, begin = 0; v < size; ++v) begin += std::exchange(place[v], begin);
            for (i64 e = 0; e < count; ++e) to[place[digit(from[e], shift, size)]++] = from[e];
            std::swap(from, to);
            in_room = !in_room;
        }
        if (in_room) std::copy_n(from, count, to);
    }

    Buffer<Entry>&entries_, &room_;
    const int threads_;
    int low_ = 0;
    std::vector<Range> large_, small_;
};

}  // namespace bmrm
