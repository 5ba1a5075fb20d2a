// Tables of counts that a thread fills alone, and their sums by place (bin_map.h).
//
// A kernel's keys are consumed some steps after they are made: reading a key that was just stored as part of
// a register, and adding to a table at once, takes four times as long. Keys wait in a ring meanwhile, and the
// table is updated in the same loop that computes the next ones, by units that the vectors leave idle.
//
// With few bins a key is two places, those of two rows and the same column, or of two registers: half as many
// additions. The table is then a square. With very few bins each lane has its own square, because additions
// to one number in succession wait for each other.
#pragma once

#include <vector>

#include "common/memory.h"
#include "pairs/bin_map.h"

namespace bmrm {

enum class TableKind { spread, joint, single, slots };
constexpr int kTableKinds = 4;

/// Rows, or registers, of a step, at most, and lanes of a register.
constexpr int kMaxStepRows = 4, kMaxLanes = 16;
/// Steps that keys wait in the ring.
constexpr int kRingSteps = 8;
/// Places with squares per lane, and numbers from one to the next; a few more than a power of two, so that
/// they do not share cache lines' sets.
constexpr i64 kSpreadPlaces = 32, kSpreadStride = 1024 + 16;
/// Places with one square: it stays in the second level of cache.
constexpr i64 kJointPlaces = 256;
/// Additions after which a table of 32 bits is emptied; those of one block fit into the rest.
constexpr i64 kTableRoom = i64{4} << 30;

class Tally {
  public:
    explicit Tally(const BinMap& map) : map_(&map), counts_(map.bins() + 2) {
        const i64 keys = map.keys();
        kind_ = !map.even()             ? TableKind::slots
                : keys <= kSpreadPlaces ? TableKind::spread
                : keys <= kJointPlaces  ? TableKind::joint
                                        : TableKind::single;
        while ((i64{1} << place_bits_) < keys) ++place_bits_;
        size_ = kind_ == TableKind::spread  ? kMaxLanes * kSpreadStride
                : kind_ == TableKind::joint ? i64{1} << (2 * place_bits_)
                                            : keys + 1;
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
    /// A key that counts for no bin.
    std::uint32_t idle() const { return kind_ == TableKind::slots ? static_cast<std::uint32_t>(map_->keys()) : 0; }

    void empty_table() {
        const i64 keys = map_->keys();
        if (kind_ == TableKind::spread) {
            for (int lane = 0; lane < kMaxLanes; ++lane) add_square(table_.get() + lane * kSpreadStride, keys);
        } else if (kind_ == TableKind::joint) {
            add_square(table_.get(), keys);
        } else {
            for (i64 k = 0; k < keys; ++k) counts_[map_->place(k)] += table_[k];
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
    TableKind kind_;
    int place_bits_ = 0;
    i64 size_, since_ = 0;
    Buffer<std::uint32_t> table_;
    alignas(64) std::uint32_t ring_[kRingSteps * kMaxStepRows * kMaxLanes];
};

}  // namespace bmrm
