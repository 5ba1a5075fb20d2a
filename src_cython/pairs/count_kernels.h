// Counting the pairs of a block by bins, for one instruction set (cpu/isa.h).
//
// Squared distances are computed for some rows in registers and a register of columns at a time. The bins
// follow from them as bin_map.h proves; what is in doubt is decided in float64 by pairs/decision.h. In blocks
// of cells most pairs are beyond the last bound: these are squeezed out first, so that bins are found for
// full registers. Of the others only the mask of each register is kept, from which a pair in doubt is found
// again.
#pragma once

#include "cpu/lanes.h"
#include "pairs/blocks.h"
#include "pairs/decision.h"

namespace bmrm::BMRM_ISA {

struct CountLoops {
    /// Rows of a step: as many as leave registers for the rest.
    static constexpr int kRows = BMRM_DOUBLES == 8 ? 4 : 2;
    static constexpr int kSqueezed = 2;

    typedef double Doubles __attribute__((vector_size(8 * BMRM_DOUBLES), aligned(8)));
    typedef float Halves __attribute__((vector_size(4 * BMRM_DOUBLES), aligned(4)));
    typedef i64 Longs __attribute__((vector_size(8 * BMRM_DOUBLES), aligned(8)));

    template <bool wraps>
    BMRM_TARGET static double scale_axis(const double* x, const PointRange* ranges, i64 count, double centre,
                                         double period, double unit, float* out) {
        // Adding it rounds to whole numbers, if turns are less than 2^51; with more, float32 is too coarse.
        constexpr double kWhole = 0x1.8p52;
        const double turns = wraps ? 1.0 / period : 0.0;
        Longs lanes;
        for (int l = 0; l < BMRM_DOUBLES; ++l) lanes[l] = l;
        Doubles largest{};
        for (const PointRange* range = ranges; range < ranges + count; ++range) {
            const double* const from = x + range->begin;
            const i64 size = range->size();
            for (i64 i = 0; i < size; i += BMRM_DOUBLES) {
                Doubles v = *reinterpret_cast<const Doubles*>(from + i) - centre;
                if (wraps) v -= period * ((v * turns + kWhole) - kWhole);
                *reinterpret_cast<Halves*>(out + i) = __builtin_convertvector(v * unit, Halves);
                const Doubles length = (Doubles)((Longs)v & (lanes < size - i) & 0x7fffffffffffffff);
                largest = length > largest ? length : largest;
            }
            out += size;
        }
        double most = 0;
        for (int l = 0; l < BMRM_DOUBLES; ++l) most = largest[l] > most ? largest[l] : most;
        return most;
    }
    static double scale(const double* x, const PointRange* ranges, i64 count, double centre, double period,
                        double unit, float* out) {
        return (period > 0 ? scale_axis<true> : scale_axis<false>)(x, ranges, count, centre, period, unit,
                                                                   out);
    }

    /// The numbers of a BinScale in registers.
    template <TableKind kind>
    struct Bins {
        Floats low, high, shift;
        Words inner, bits, upper_bits, upper_mask;
        Floats root_error, relative, square;
        const float* thresholds;
        Words slot_bits;
        std::uint32_t first_slot;

        BMRM_INLINE Bins(const BinScale& c, const Tally& tally)
            : low(all(c.low)),
              high(all(c.high)),
              shift(all(c.shift)),
              inner(Words{} + static_cast<std::uint32_t>(c.inner_mask)),
              bits(Words{} + static_cast<std::uint32_t>(c.fraction_bits)),
              upper_bits(Words{} + static_cast<std::uint32_t>(c.fraction_bits - tally.place_bits())),
              upper_mask(Words{} + (~0u << tally.place_bits())),
              root_error(all(c.root_error)),
              relative(all(c.relative)),
              square(all(c.square)),
              thresholds(c.thresholds),
              slot_bits(Words{} + static_cast<std::uint32_t>(c.slot_bits)),
              first_slot(static_cast<std::uint32_t>(c.first_slot)) {}
    };

    /// The ring of a tally while a block is counted.
    struct Ring {
        std::uint32_t* table;
        std::uint32_t* ring;
        int step;
    };

    /// Adds the keys of some registers that are in the ring to the table.
    template <TableKind kind>
    BMRM_INLINE static void consume(const Ring& at, const std::uint32_t* keys, int first, int count) {
#pragma GCC unroll 16
        for (int l = first; l < first + count; ++l)
            ++at.table[l % shape_of(kind).copies * shape_of(kind).stride + keys[l]];
    }

    /// Counts R registers of squared distances; calls doubt(r, lanes, keys) for what is in doubt.
    template <TableKind kind, int R, class Doubt>
    BMRM_INLINE static void count(const Bins<kind>& c, Ring& at, const Floats (&squares)[R],
                                  const Doubt& doubt) {
        std::uint32_t* const keys = at.ring + at.step * (kMaxStepRows * kMaxLanes);
        at.step = at.step + 1 == kRingSteps ? 0 : at.step + 1;
        constexpr bool two = has_squares(kind);
        Words key[R];
        LaneBits in_doubt[R], any = 0;
#pragma GCC unroll 4
        for (int r = 0; r < R; ++r) {
            const Floats s = least(most(squares[r], c.low), c.high);
            if constexpr (kind == TableKind::slots) {
                const Floats error = fused(s, c.relative, fused(twice_root(s), c.root_error, c.square));
                const Words slot = shifted((Words)s, c.slot_bits) - c.first_slot;
                const Floats threshold = gathered(c.thresholds, slot);
                // A threshold of NaN is neither above nor below anything.
                in_doubt[r] = kAllLanes & ~(below(s + error, threshold) | at_least(s - error, threshold));
                key[r] = slot + slot + (Words)((Ints)((s + error) >= threshold) & 1);
            } else {
                key[r] = (Words)nearest(twice_root_plus(s, c.shift));
                in_doubt[r] = zeros(key[r], c.inner);
            }
            any |= in_doubt[r];
            // Here, between the rows: the additions would fill the queue of stores if they were together.
            std::uint32_t* const old = keys + (two ? r / 2 : r) * kLanes;
            if constexpr (two)
                consume<kind>(at, old, r % 2 * (kLanes / 2), kLanes / 2);
            else
                consume<kind>(at, old, 0, kLanes);
            if (two && r % 2)
                store(old, spliced(shifted(key[r - 1], c.upper_bits), shifted(key[r], c.bits), c.upper_mask));
            else if (!two)
                store(old, kind == TableKind::slots ? key[r] : shifted(key[r], c.bits));
        }
        if (__builtin_expect(any != 0, 0))
            for (int r = 0; r < R; ++r)
                if (in_doubt[r]) {
                    alignas(64) std::uint32_t of_row[kLanes];
                    store(of_row, kind == TableKind::slots ? key[r] : shifted(key[r], c.bits));
                    doubt(r, in_doubt[r], of_row);
                }
    }

    template <bool wraps>
    BMRM_INLINE static Floats difference(Floats a, Floats b, Floats side) {
        if constexpr (!wraps) return a - b;
        const Floats d = magnitude(a - b);
        return least(d, side - d);
    }

    /// Decides the pairs of a row and some columns next to each other that are in doubt.
    BMRM_TARGET __attribute__((noinline)) static void decide(const BruteBlock& block, Tally& tally, i64 row,
                                                             i64 column, LaneBits lanes,
                                                             const std::uint32_t* keys) {
        const PlacedPoints &a = block.exact->a, &b = block.exact->b;
        double squares[kLanes];
        for (int k = 0; k < a.axes(); ++k) {
            const double at = a.axis(k)[block.first_row + row], period = a.box()[k];
            const double* const columns = b.axis(k) + block.first_column + column;
            for (int l = 0; l < kLanes; ++l)
                squares[l] = add_square(k ? squares[l] : 0.0, nearest_difference(at, columns[l], period));
        }
        for (; lanes; lanes &= lanes - 1) {
            const int l = __builtin_ctz(lanes);
            tally.settle(keys[l], squares[l]);
        }
    }
    /// The pairs of rows that are processed together.
    BMRM_TARGET __attribute__((noinline)) static void count_own(const BruteBlock& block, Tally& tally,
                                                                i64 row) {
        const i64 end = std::min<i64>(row + kRows, block.rows.count);
        for (i64 i = block.first_row + row; i < block.first_row + end; ++i)
            for (i64 j = i + 1; j < block.first_row + end; ++j)
                tally.add(tally.map().exact_place(block.exact->squared(i, j), 0), 1);
    }

    template <TableKind kind, bool three, bool wraps>
    BMRM_TARGET static void count_brute(const BruteBlock& block, Tally& tally) {
        const Bins<kind> bins(block.scale, tally);
        Ring ring{tally.table(), tally.ring(), tally.step};
        const i64 rs = block.rows.stride, cs = block.columns.stride;
        Floats side[3] = {};
        if (wraps && three)
            for (int k = 0; k < 3; ++k) side[k] = all(block.sides[k]);
        for (i64 i = 0; i < block.rows.count; i += kRows) {
            i64 j = 0;
            if (block.one_set) {
                j = std::max<i64>(0, block.first_row + i + kRows - block.first_column);
                if (block.first_column <= block.first_row + i) count_own(block, tally, i);
            }
            Floats x[kRows][3];
            if (three)
                for (int r = 0; r < kRows; ++r)
                    for (int k = 0; k < 3; ++k) x[r][k] = all(block.rows.at[k * rs + i + r]);
            for (; j < block.columns.count; j += kLanes) {
                Floats squares[kRows];
                if constexpr (three) {
                    const float* const at = block.columns.at + j;
                    const Floats y[3] = {load(at), load(at + cs), load(at + 2 * cs)};
#pragma GCC unroll 4
                    for (int r = 0; r < kRows; ++r) {
                        const Floats d0 = difference<wraps>(x[r][0], y[0], side[0]);
                        const Floats d1 = difference<wraps>(x[r][1], y[1], side[1]);
                        const Floats d2 = difference<wraps>(x[r][2], y[2], side[2]);
                        squares[r] = fused(d2, d2, fused(d1, d1, d0 * d0));
                    }
                } else {
                    for (int r = 0; r < kRows; ++r) squares[r] = Floats{};
                    for (int k = 0; k < block.axes; ++k) {
                        const Floats y = load(block.columns.at + k * cs + j);
                        const Floats s = wraps ? all(block.sides[k]) : Floats{};
#pragma GCC unroll 4
                        for (int r = 0; r < kRows; ++r) {
                            const Floats d = difference<wraps>(all(block.rows.at[k * rs + i + r]), y, s);
                            squares[r] = fused(d, d, squares[r]);
                        }
                    }
                }
                count<kind, kRows>(bins, ring, squares,
                                   [&](int r, LaneBits lanes, const std::uint32_t* keys) {
                                       decide(block, tally, i + r, j, lanes, keys);
                                   });
            }
        }
        tally.step = ring.step;
    }

    template <TableKind kind>
    static void brute(const BruteBlock& block, Tally& tally) {
        tally.expect((block.rows.count + kRows) * (block.columns.count + kLanes));
        if (block.axes == 3)
            (block.sides ? count_brute<kind, true, true> : count_brute<kind, true, false>)(block, tally);
        else
            (block.sides ? count_brute<kind, false, true> : count_brute<kind, false, false>)(block, tally);
    }

    /// Squared distances within the last bound of some rows, and how to find the pairs again.
    struct Near {
        static constexpr i64 kRoom = 2 * kBlockColumns;
        static constexpr i64 kMaxMasks = kBlockRows * (kBlockColumns / kLanes + 1);
        alignas(64) float squares[kRoom + kBlockColumns + 2 * kMaxLanes];
        std::uint16_t masks[kMaxMasks];
        struct Row {
            i64 row, column, fill, mask;
        } rows[kBlockRows + 1];
        i64 count, fill, mask;
    };

    template <TableKind kind>
    BMRM_TARGET static void drain(const Bins<kind>& bins, Ring& ring, const CellBlock& block, Near& near,
                                  Tally& tally) {
        for (int l = 0; l < 2 * kLanes; ++l) near.squares[near.fill + l] = kNowhere;
        near.rows[near.count].fill = near.fill;
        // The place of the walk: a row, a mask, and the number of pairs before that mask.
        i64 row = 0, mask = 0, before = 0;
        const auto settle_at = [&](i64 at, std::uint32_t key) {
            if (at >= near.fill) return;
            if (at >= near.rows[row + 1].fill) {
                while (at >= near.rows[row + 1].fill) ++row;
                mask = near.rows[row].mask;
                before = near.rows[row].fill;
            }
            for (int has; at >= before + (has = __builtin_popcount(near.masks[mask])); ++mask) before += has;
            std::uint32_t bits = near.masks[mask];
            for (i64 k = before; k < at; ++k) bits &= bits - 1;
            const Near::Row& found = near.rows[row];
            const i64 column = found.column + (mask - found.mask) * kLanes + __builtin_ctz(bits);
            tally.settle(key, block.exact->squared(block.first_row + found.row, block.ids[column]));
        };
        for (i64 v = 0; v < near.fill; v += kSqueezed * kLanes) {
            const Floats squares[kSqueezed] = {load(near.squares + v), load(near.squares + v + kLanes)};
            count<kind, kSqueezed>(bins, ring, squares,
                                   [&](int r, LaneBits lanes, const std::uint32_t* keys) {
                                       for (; lanes; lanes &= lanes - 1) {
                                           const int l = __builtin_ctz(lanes);
                                           settle_at(v + r * kLanes + l, keys[l]);
                                       }
                                   });
        }
        near.count = near.fill = near.mask = 0;
    }

    template <TableKind kind, bool wraps>
    BMRM_TARGET static void count_cells(const CellBlock& block, Tally& tally) {
        const Bins<kind> bins(block.scale, tally);
        Ring ring{tally.table(), tally.ring(), tally.step};
        const i64 rs = block.rows.stride, cs = block.columns.stride;
        const Floats beyond = all(block.scale.beyond);
        Floats side[3] = {};
        if (wraps)
            for (int k = 0; k < 3; ++k) side[k] = all(block.sides[k]);
        Near near;
        near.count = near.fill = near.mask = 0;
        for (i64 i = 0; i < block.rows.count; ++i) {
            const i64 first = block.one_set ? std::max<i64>(0, i + 1 - block.skipped) : 0;
            if (first >= block.columns.count) continue;
            const float* const row = block.rows.at + i;
            const Floats x = all(row[0]), y = all(row[rs]), z = all(row[2 * rs]);
            i64 fill = near.fill, mask = near.mask;
            near.rows[near.count++] = {i, first, fill, mask};
            for (const float *at = block.columns.at + first, *end = block.columns.at + block.columns.count;
                 at < end; at += kLanes) {
                const Floats d0 = difference<wraps>(x, load(at), side[0]);
                const Floats d1 = difference<wraps>(y, load(at + cs), side[1]);
                const Floats d2 = difference<wraps>(z, load(at + 2 * cs), side[2]);
                const Floats s = fused(d2, d2, fused(d1, d1, d0 * d0));
                const LaneBits within = below(s, beyond);
                store_some(near.squares + fill, within, s);
                near.masks[mask++] = static_cast<std::uint16_t>(within);
                fill += __builtin_popcount(within);
            }
            near.fill = fill;
            near.mask = mask;
            if (fill > Near::kRoom) drain<kind>(bins, ring, block, near, tally);
        }
        drain<kind>(bins, ring, block, near, tally);
        tally.step = ring.step;
    }

    template <TableKind kind>
    static void cells(const CellBlock& block, Tally& tally) {
        tally.expect((block.rows.count + 1) * (block.columns.count + 2 * kLanes));
        (block.sides ? count_cells<kind, true> : count_cells<kind, false>)(block, tally);
    }
};

template <TableKind... kinds>
constexpr CountKernels kernels_of() {
    return {CountLoops::scale, {CountLoops::brute<kinds>...}, {CountLoops::cells<kinds>...}};
}

const CountKernels count_kernels =
    kernels_of<TableKind::spread, TableKind::joint, TableKind::single, TableKind::wide, TableKind::slots>();

}  // namespace bmrm::BMRM_ISA
