// Numbers integer ids in ascending order: n distinct ids become 0..n-1.
//
// Ids that lie close enough together have one bit each in a table, and the number of an id is the number of
// bits before it: a count for every word, and the bits of the word itself. This takes 1.5 bits per possible
// id, so the table is small enough for a cache where one of numbers would not be. Other ids go to hash
// tables, one per thread, each with the ids of some hashes; their distinct ids are then sorted. A set does
// not depend on the order in which it was filled, so the numbers do not depend on the number of threads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "common/hash.h"
#include "text/names.h"
#include "text/parallel.h"

namespace edges {

// Maximum number of nodes: their numbers are of type int32_t.
constexpr int64_t kMaxNodes = text::kMaxNames;

// Possible ids per id, up to which they are in the table of bits: it then takes at most 12 bytes per id.
constexpr uint64_t kSparsity = 64;

// Number of ids that a thread handles at a time.
constexpr int64_t kPiece = int64_t{1} << 16;

// Calls work(first, last) for pieces of a loop over `count` ids. Returns false if it was interrupted.
template <class Work>
bool for_pieces(int64_t count, int threads, text::Poll poll, const Work& work) {
    const size_t pieces = static_cast<size_t>((count + kPiece - 1) / kPiece);
    return text::for_each(pieces, threads, poll, [&](size_t p) {
        const int64_t first = static_cast<int64_t>(p) * kPiece;
        work(first, std::min(count, first + kPiece));
    });
}

// Widens the range from `low` to `high` to that of some ids.
template <class Id>
bool extend(const Id* ids, int64_t count, int threads, text::Poll poll, int64_t& low, int64_t& high) {
    std::mutex guard;
    return for_pieces(count, threads, poll, [&](int64_t first, int64_t last) {
        Id least = ids[first], most = ids[first];
        for (int64_t i = first; i < last; ++i) {
            least = std::min(least, ids[i]);
            most = std::max(most, ids[i]);
        }
        const std::lock_guard<std::mutex> hold(guard);
        low = std::min<int64_t>(low, least);
        high = std::max<int64_t>(high, most);
    });
}

// Copies ids that 32 bits can hold.
inline bool narrow(const int64_t* ids, int64_t count, int threads, text::Poll poll, int32_t* to) {
    return for_pieces(count, threads, poll, [&](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) to[i] = static_cast<int32_t>(ids[i]);
    });
}

class Numbering {
  public:
    // For `count` ids between `low` and `high`.
    Numbering(int64_t low, int64_t high, int64_t count, int threads, text::Poll poll)
        : low_(low), threads_(threads), poll_(poll) {
        const uint64_t span = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
        is_dense_ = count > 0 && span / kSparsity <= static_cast<uint64_t>(count);
        if (is_dense_) {
            words_.resize(span / 64 + 1);
            return;
        }
        while (parts_.size() < static_cast<size_t>(threads) && parts_.size() < kMaxParts)
            parts_.resize(std::max<size_t>(1, 2 * parts_.size()));
        shift_ = 64 - __builtin_ctzll(parts_.size());
    }

    // Ids of 32 or 64 bits. Returns false if it was interrupted, as do the other functions.
    template <class Id>
    bool add(const Id* ids, int64_t count) {
        if (is_dense_) {
            return for_pieces(count, [&](int64_t first, int64_t last) {
                for (int64_t i = first; i < last; ++i) set_bit(offset_of(ids[i]));
            });
        }
        return text::for_each(parts_.size(), threads_, poll_, [&](size_t p) {
            Part& part = parts_[p];
            for (int64_t i = 0; i < count; ++i)
                if (part_of(hash_of(ids[i], seed_)) == p) part.add(ids[i], seed_);
        });
    }

    // To be called once all ids have been added. More than `kMaxNodes` distinct ones show in `size`.
    bool finish() {
        if (is_dense_) {
            before_.resize(words_.size());
            for (size_t w = 0; w < words_.size(); ++w) {
                before_[w] = static_cast<uint32_t>(size_);
                size_ += __builtin_popcountll(words_[w]);
            }
            return true;
        }
        for (const Part& part : parts_) {
            for (const Slot& slot : part.slots)
                if (slot.number != kEmpty) sorted_.push_back(slot.id);
        }
        std::sort(sorted_.begin(), sorted_.end());
        size_ = static_cast<int64_t>(sorted_.size());
        return size_ > kMaxNodes || for_pieces(size_, [this](int64_t first, int64_t last) {
                   for (int64_t i = first; i < last; ++i)
                       slot_of(sorted_[i]).number = static_cast<int32_t>(i);
               });
    }

    int64_t size() const { return size_; }

    // The distinct ids, ascending.
    void labels(int64_t* to) const {
        if (!is_dense_) {
            std::copy(sorted_.begin(), sorted_.end(), to);
            return;
        }
        for (size_t w = 0; w < words_.size(); ++w) {
            for (uint64_t bits = words_[w]; bits; bits &= bits - 1)
                *to++ = static_cast<int64_t>(static_cast<uint64_t>(low_) + 64 * w +
                                             static_cast<uint64_t>(__builtin_ctzll(bits)));
        }
    }

    // The numbers of ids that have been added.
    template <class Id>
    bool number(const Id* ids, int64_t count, int32_t* to) {
        return for_pieces(count, [&](int64_t first, int64_t last) {
            if (!is_dense_) {
                for (int64_t i = first; i < last; ++i) to[i] = slot_of(ids[i]).number;
            } else if (has_bit_counts()) {
                number_dense_by_instruction(ids, first, last, to);
            } else {
                number_dense(ids, first, last, to);
            }
        });
    }

  private:
    static constexpr int32_t kEmpty = -1;
    static constexpr size_t kMaxParts = 64;
    static constexpr size_t kFirstSlots = 1024;

    struct Slot {
        int64_t id = 0;
        int32_t number = kEmpty;
    };

    struct Part {
        std::vector<Slot> slots = std::vector<Slot>(kFirstSlots);  // a power of two
        size_t count = 0;

        // The slot of an id, or the empty one where it belongs.
        static Slot& find(std::vector<Slot>& slots, int64_t id, uint64_t hash) {
            size_t at = hash & (slots.size() - 1);
            while (slots[at].number != kEmpty && slots[at].id != id) at = (at + 1) & (slots.size() - 1);
            return slots[at];
        }

        void add(int64_t id, uint64_t seed) {
            Slot& slot = find(slots, id, hash_of(id, seed));
            if (slot.number != kEmpty) return;
            slot = {id, 0};
            if (2 * ++count <= slots.size()) return;
            std::vector<Slot> more(2 * slots.size());
            for (const Slot& old : slots)
                if (old.number != kEmpty) find(more, old.id, hash_of(old.id, seed)) = old;
            slots.swap(more);
        }
    };

    static uint64_t hash_of(int64_t id, uint64_t seed) {
        return bmrm::mixed(static_cast<uint64_t>(id) ^ seed);
    }

    template <class Work>
    bool for_pieces(int64_t count, const Work& work) {
        return edges::for_pieces(count, threads_, poll_, work);
    }

    uint64_t offset_of(int64_t id) const { return static_cast<uint64_t>(id) - static_cast<uint64_t>(low_); }

    void set_bit(uint64_t offset) {
        if (offset / 64 >= words_.size()) return;  // somebody has written to the ids since they were measured
        uint64_t* const word = &words_[offset / 64];
        const uint64_t bit = uint64_t{1} << offset % 64;
        // Most ids have been seen before, and a load costs far less than an atomic change.
        if (!(__atomic_load_n(word, __ATOMIC_RELAXED) & bit)) __atomic_fetch_or(word, bit, __ATOMIC_RELAXED);
    }

    template <class Id>
    __attribute__((always_inline)) inline void number_dense(const Id* ids, int64_t first, int64_t last,
                                                            int32_t* to) const {
        for (int64_t i = first; i < last; ++i) {
            uint64_t offset = offset_of(ids[i]);
            if (__builtin_expect(offset / 64 >= words_.size(), 0)) offset = 0;  // as in set_bit
            const uint64_t lower = words_[offset / 64] & ((uint64_t{1} << offset % 64) - 1);
            to[i] = static_cast<int32_t>(before_[offset / 64]) + __builtin_popcountll(lower);
        }
    }

#if defined(__x86_64__)
    static bool has_bit_counts() { return __builtin_cpu_supports("popcnt"); }

    template <class Id>
    __attribute__((target("popcnt"))) void number_dense_by_instruction(const Id* ids, int64_t first,
                                                                       int64_t last, int32_t* to) const {
        number_dense(ids, first, last, to);
    }
#else
    static bool has_bit_counts() { return false; }
    template <class Id>
    void number_dense_by_instruction(const Id*, int64_t, int64_t, int32_t*) const {}
#endif

    size_t part_of(uint64_t hash) const { return parts_.size() == 1 ? 0 : hash >> shift_; }

    Slot& slot_of(int64_t id) {
        const uint64_t hash = hash_of(id, seed_);
        return Part::find(parts_[part_of(hash)].slots, id, hash);
    }

    const int64_t low_;
    const int threads_;
    const text::Poll poll_;
    const uint64_t seed_ = text::random_seed();
    bool is_dense_ = false;
    int64_t size_ = 0;
    std::vector<uint64_t> words_;   // a bit for each possible id
    std::vector<uint32_t> before_;  // bits before each word
    std::vector<Part> parts_;
    int shift_ = 0;
    std::vector<int64_t> sorted_;
};

}  // namespace edges
