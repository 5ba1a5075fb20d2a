// Numbers names by first appearance, on several threads.
//
// A block keeps each of its names once, in the order of first appearance, and numbers its lines by that list.
// Then the lists are merged: the names are dealt by their hashes to parts, and a part takes its names from
// one block after the other, so that it knows which block had a name first. The number of a name is the
// number of first appearances before it, in the order of blocks and of each list. So it does not depend on
// threads, blocks, or hashes.
//
// A text may come from somebody who chooses names that collide. Hashes have a random seed, so that nobody
// outside the process knows which do.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "common/hash.h"
#include "text/parallel.h"

namespace text {

// Maximum number of names: their numbers are of type int32_t.
constexpr int64_t kMaxNames = std::numeric_limits<int32_t>::max();

inline uint64_t random_seed() {
    std::random_device device;
    return uint64_t{device()} << 32 | device();
}

// Names of at most so many bytes are equal if their hashes and lengths are: `hash_of` then takes one step, a
// bijection.
constexpr size_t kWordBytes = 8;

inline uint64_t hash_of(const char* p, size_t size, uint64_t seed) {
    uint64_t sum = seed + size;
    uint64_t word;
    for (; size > kWordBytes; p += kWordBytes, size -= kWordBytes) {
        std::memcpy(&word, p, kWordBytes);
        sum = bmrm::mixed(sum ^ word);
    }
    word = 0;
    std::memcpy(&word, p, size);
    return bmrm::mixed(sum ^ word);
}

struct Name {
    uint64_t hash;
    size_t offset, size;  // of its bytes
};

// A list of distinct names, and a hash table of their places in it.
class NameList {
  public:
    // The place of a name, which is added to the end if it is new.
    uint32_t find_or_add(const char* p, size_t size, uint64_t hash) {
        if (2 * (names_.size() + 1) > slots_.size()) grow();
        Slot* const slot = find(slots_, hash, [&](const Slot& found) {
            if (found.length != saturated(size)) return false;
            if (size <= kWordBytes) return true;
            const Name& name = names_[found.place];
            return name.size == size && std::memcmp(bytes_.data() + name.offset, p, size) == 0;
        });
        if (slot->place == kEmpty) {
            *slot = {hash, static_cast<uint32_t>(names_.size()), saturated(size)};
            names_.push_back({hash, bytes_.size(), size});
            bytes_.insert(bytes_.end(), p, p + size);
        }
        return slot->place;
    }

    size_t size() const { return names_.size(); }
    const Name& operator[](size_t place) const { return names_[place]; }
    const char* bytes(const Name& name) const { return bytes_.data() + name.offset; }

    // Releases the table, if no more names come.
    void close() { std::vector<Slot>().swap(slots_); }

  private:
    static constexpr uint32_t kEmpty = std::numeric_limits<uint32_t>::max();
    static constexpr size_t kFirstSlots = 256;

    // What it has of its name saves most looks at the name itself.
    struct Slot {
        uint64_t hash = 0;
        uint32_t place = kEmpty;
        uint32_t length = 0;  // saturated
    };

    static uint32_t saturated(size_t size) {
        return static_cast<uint32_t>(std::min<size_t>(size, std::numeric_limits<uint32_t>::max()));
    }

    // The slot of a name with this hash for which is_same holds, or the empty one where it belongs.
    template <class IsSame>
    static Slot* find(std::vector<Slot>& slots, uint64_t hash, const IsSame& is_same) {
        const size_t mask = slots.size() - 1;
        size_t at = hash & mask;
        while (slots[at].place != kEmpty && !(slots[at].hash == hash && is_same(slots[at])))
            at = (at + 1) & mask;
        return &slots[at];
    }

    void grow() {
        std::vector<Slot> slots(std::max(kFirstSlots, 2 * slots_.size()));
        for (const Slot& old : slots_) {
            if (old.place != kEmpty) *find(slots, old.hash, [](const Slot&) { return false; }) = old;
        }
        slots_.swap(slots);
    }

    std::vector<Slot> slots_;  // a power of two
    std::vector<Name> names_;
    std::vector<char> bytes_;  // of all names
};

class Names {
  public:
    uint64_t seed() const { return seed_; }
    int64_t size() const { return size_; }

    // Takes over the names of blocks that follow those already merged. `numbers[b][i]` becomes the number of
    // name i of block b. Returns false if it was interrupted; a number beyond `kMaxNames` shows in `size`.
    bool merge(std::vector<NameList*>& blocks, std::vector<std::vector<int32_t>>& numbers, int threads,
               Poll poll) {
        std::vector<Dealt> dealt(blocks.size());
        numbers.resize(blocks.size());
        bool complete = for_each(blocks.size(), threads, poll, [&](size_t b) {
            dealt[b] = deal(*blocks[b]);
            numbers[b].resize(blocks[b]->size());
        });
        if (!complete) return false;
        complete = for_each(kParts, threads, poll, [&](size_t p) {
            NameList& part = parts_[p].names;
            for (size_t b = 0; b < blocks.size(); ++b) {
                const NameList& block = *blocks[b];
                for (uint32_t k = dealt[b].starts[p]; k < dealt[b].starts[p + 1]; ++k) {
                    const uint32_t i = dealt[b].order[k];
                    const Name& name = block[i];
                    const size_t before = part.size();
                    dealt[b].place[i] = part.find_or_add(block.bytes(name), name.size, name.hash);
                    dealt[b].is_first[i] = part.size() > before;
                }
            }
            parts_[p].numbers.resize(part.size());
        });
        if (!complete) return false;
        std::vector<int64_t> starts;
        for (const Dealt& block : dealt) {
            starts.push_back(size_);
            size_ += std::count(block.is_first.begin(), block.is_first.end(), char{1});
        }
        if (size_ > kMaxNames) return true;
        const auto number = [this](uint64_t hash, uint32_t place) -> int32_t& {
            return parts_[part_of(hash)].numbers[place];
        };
        complete = for_each(blocks.size(), threads, poll, [&](size_t b) {
            int64_t next = starts[b];
            for (size_t i = 0; i < blocks[b]->size(); ++i)
                if (dealt[b].is_first[i])
                    number((*blocks[b])[i].hash, dealt[b].place[i]) = static_cast<int32_t>(next++);
        });
        return complete && for_each(blocks.size(), threads, poll, [&](size_t b) {
                   for (size_t i = 0; i < blocks[b]->size(); ++i)
                       numbers[b][i] = number((*blocks[b])[i].hash, dealt[b].place[i]);
               });
    }

    // Calls found(number, bytes, size) for every name.
    template <class Found>
    void for_each_name(const Found& found) const {
        for (const Part& part : parts_) {
            for (size_t i = 0; i < part.numbers.size(); ++i)
                found(part.numbers[i], part.names.bytes(part.names[i]), part.names[i].size);
        }
    }

    // The bytes of all names by their numbers: those of name i are bytes[i] of length sizes[i].
    void gather(const char** bytes, int64_t* sizes) const {
        for_each_name([&](int32_t number, const char* p, size_t size) {
            bytes[number] = p;
            sizes[number] = static_cast<int64_t>(size);
        });
    }

  private:
    static constexpr int kPartBits = 4;
    static constexpr size_t kParts = size_t{1} << kPartBits;

    struct Part {
        NameList names;
        std::vector<int32_t> numbers;  // of the names by their places
    };

    // The names of a block by parts: part p has order[starts[p]] to order[starts[p + 1] - 1].
    struct Dealt {
        std::array<uint32_t, kParts + 1> starts{};
        std::vector<uint32_t> order;
        std::vector<uint32_t> place;  // in the list of its part
        std::vector<char> is_first;   // whether no block before has the name
    };

    // The highest bits, since the lowest choose the slot.
    static size_t part_of(uint64_t hash) { return hash >> (64 - kPartBits); }

    static Dealt deal(const NameList& names) {
        Dealt dealt;
        dealt.order.resize(names.size());
        dealt.place.resize(names.size());
        dealt.is_first.resize(names.size());
        for (size_t i = 0; i < names.size(); ++i) ++dealt.starts[part_of(names[i].hash) + 1];
        for (size_t p = 0; p < kParts; ++p) dealt.starts[p + 1] += dealt.starts[p];
        std::array<uint32_t, kParts + 1> next = dealt.starts;
        for (size_t i = 0; i < names.size(); ++i)
            dealt.order[next[part_of(names[i].hash)]++] = static_cast<uint32_t>(i);
        return dealt;
    }

    const uint64_t seed_ = random_seed();
    std::array<Part, kParts> parts_;
    int64_t size_ = 0;
};

}  // namespace text
