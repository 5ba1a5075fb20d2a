// Tables of counts that a thread fills alone, and their sums by place (bin_map.h).
//
// A kernel's keys are consumed some steps after they are made: reading a key that was just stored as part of
// a register, and adding to a table at once, takes four times as long. Keys wait in a ring meanwhile, and the
// table is updated in the same loop that computes the next ones, by units that the vectors leave idle.
//
// With few bins a key is two places, those of two rows and the same column, or of two registers: half as many
// additions. The table is then a square.
//
// Additions to one number in succession wait for each other, and points that are close have many equal keys.
// So there are several tables, which the lanes of a register take in turn.
#pragma once

#include <limits>
#include <vector>

#include "common/memory.h"
#include "pairs/bin_map.h"

namespace bmrm {

/// A square per lane; four squares; four tables of places; one; one of half slots.
enum class TableKind { spread, joint, single, wide, slots };
constexpr int kTableKinds = 5;

/// How many tables a thread has, from how many places (or half slots) on there is another kind, and what is
/// from one table to the next: a few numbers more than a power of two, so that they do not share the sets of
/// the caches.
struct TableShape {
    i64 copies, most_places, stride;
};
constexpr TableShape kTableShapes[kTableKinds] = {{16, 64, (1 << 12) + 16},
                                                  {4, 256, (1 << 16) + 16},
                                                  {4, 4096, (1 << 12) + 16},
                                                  {1, std::numeric_limits<i64>::max(), 0},
                                                  {1, std::numeric_limits<i64>::max(), 0}};
constexpr TableShape shape_of(TableKind kind) { return kTableShapes[static_cast<int>(kind)]; }
constexpr bool has_squares(TableKind kind) { return kind == TableKind::spread || kind == TableKind::joint; }

/// Rows, or registers, of a step, at most, and lanes of a register.
constexpr int kMaxStepRows = 4, kMaxLanes = 16;
/// Steps that keys wait in the ring.
constexpr int kRingSteps = 8;
/// Additions after which a table of 32 bits is emptied; those of one block fit into the rest.
constexpr i64 kTableRoom = i64{1} << 31;

class Tally {
  public:
    explicit Tally(const BinMap& map) : map_(&map), counts_(map.bins() + 2) {
        const i64 keys = map.keys();
        if (map.even())
            while (keys > shape_of(kind_).most_places)
                kind_ = static_cast<TableKind>(static_cast<int>(kind_) + 1);
        else
            kind_ = TableKind::slots;
        while ((i64{1} << place_bits_) < keys) ++place_bits_;
        size_ = shape_of(kind_).copies > 1 ? shape_of(kind_).copies * shape_of(kind_).stride : keys + 1;
        table_ = Buffer<std::uint32_t>(size_);
        std::fill_n(table_.get(), size_, 0u);
        std::fill_n(ring_, sizeof ring_ / sizeof *ring_, idle());
    }

    TableKind kind() const { return kind_; }
    const BinMap& map() const { return *map_; }
    /// Bits of a place in a joint key.
    int place_bits() const { return place_bits_; }
    std::uint32_t* table() { return table_.get(); }
    std::uint32_t* ring() { return ring_; }
    /// Where the next step is in the ring, kept between blocks.
    int step = 0;
    /// Pairs that were decided in float64.
    i64 rechecked = 0;

    /// Makes sure that so many keys fit.
    void expect(i64 keys) {
        if (since_ + keys > kTableRoom) empty_table();
        since_ += keys;
    }
    void add(i64 place, i64 count) { counts_[place] += count; }
    /// Counts a pair in doubt, whose key was added, by its squared distance of the reference formula.
    void settle(std::uint32_t key, double square) {
        const i64 found = map_->place(key);
        --counts_[found];
        ++counts_[map_->exact_place(square, found)];
        ++rechecked;
    }

    /// Adds the counts of all bins to `out` and begins again.
    void take(i64* out) {
        for (std::uint32_t& key : ring_) {
            ++table_[key];
            key = idle();
        }
        empty_table();
        for (i64 k = 0; k < map_->bins(); ++k) out[k] += counts_[k + 1];
        std::fill(counts_.begin(), counts_.end(), 0);
    }

  private:
    /// A key that counts for no bin: that of pairs below all bounds, or one more than there are.
    std::uint32_t idle() const {
        return kind_ == TableKind::slots ? static_cast<std::uint32_t>(map_->keys()) : 0;
    }

    void empty_table() {
        const i64 keys = map_->keys();
        for (i64 copy = 0; copy < shape_of(kind_).copies; ++copy) {
            const std::uint32_t* table = table_.get() + copy * shape_of(kind_).stride;
            if (has_squares(kind_))
                add_square(table, keys);
            else
                for (i64 k = 0; k < keys; ++k) counts_[map_->place(k)] += table[k];
        }
        std::fill_n(table_.get(), size_, 0u);
        since_ = 0;
    }
    void add_square(const std::uint32_t* square, i64 places) {
        for (i64 a = 0; a < places; ++a) {
            const std::uint32_t* row = square + (a << place_bits_);
            i64 sum = 0;
            for (i64 b = 0; b < places; ++b) {
                sum += row[b];
                counts_[b] += row[b];
            }
            counts_[a] += sum;
        }
    }

    const BinMap* map_;
    std::vector<i64> counts_;
    TableKind kind_ = TableKind::spread;
    int place_bits_ = 0;
    i64 size_, since_ = 0;
    Buffer<std::uint32_t> table_;
    alignas(64) std::uint32_t ring_[kRingSteps * kMaxStepRows * kMaxLanes];
};

}  // namespace bmrm
