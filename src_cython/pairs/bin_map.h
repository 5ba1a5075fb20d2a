// From squared distances in float32 to bins of the contract, with a bound of every error.
//
// Bins are given by bounds B_0 <= ... <= B_m of the squared distance in float64 (pairs/decision.h): bin k
// holds the pairs with B_k <= d2 < B_{k+1}. Kernels find the bin in float32 and look again in float64 at
// pairs that may be on the other side of a bound. This file says which these are.
//
// Notation. u = 2^-24 is the unit roundoff of float32. A kernel gets points relative to a centre c near its
// rows, times a factor s: A_k = fl32(s (a_k - c_k)), B_k likewise, with |s (a_k - c_k)| <= alpha_k and
// beta_k. It computes S = sum_k (A_k - B_k)^2, with or without fused multiply-adds, in any order. r is the
// distance by the reference formula of decision.h.
//
// Theorem. |sqrt(S) - s r| <= u' (|alpha + beta| + (d / 2 + 1) s r) + s e, with u' = 1.01 u and e the
// roundings in float64 below, if d <= 2^16 and nothing over- or underflows.
//
// Proof. A_k has a relative error of at most u (1 + 2^-27): two roundings in float64 and one in float32. So
// A_k - B_k misses s (a_k - b_k) by at most u (alpha_k + beta_k) (1 + 2^-27), and rounding the difference
// adds at most u |A_k - B_k|. By the triangle inequality the length of the vector of rounded differences
// misses s r by at most u |alpha + beta| + u s r to first order. All terms of S are positive: d products and
// d - 1 sums make a relative error of at most d u of S, so d u / 2 of its root. Terms of second order are
// below 1 % of these as d u <= 2^-8. On a periodic axis, unless points have been wrapped so that the
// difference is the shortest one, kernels take min(D, L' - D) with D = fl32(|A_k - B_k|) and L' = fl32(s L):
// rounding L' and D adds at most 2 u s L to the error of that axis, and rounding L' - D at most u times it.
// In float64, r misses the exact distance by a relative error of (d + 3) 2^-53, which the 1 % have room for,
// and on a periodic axis, where d - L rint(d / L) cancels, by at most 2^-51 (|a_k - b_k| + L); the same holds
// for points that were wrapped.
//
// Evenly spaced roots of bounds, sqrt(B_k) = first + k width up to `deviation`: s is chosen such that a bin
// is 2^(fraction_bits - 1) units wide. A kernel computes q = round(2 sqrt(S) + shift), where shift is
// (1 - first / width) 2^fraction_bits + guard. Roots have a relative error of 1.7 u (lanes.h), the sum one of
// u, and rounding adds 1/2. If guard is at least the sum of all errors plus 1, then q >> fraction_bits is the
// place of the pair (0: below B_0, k + 1: bin k, m + 1: from B_m on) or the next one, and the latter only if
// the fraction of q is less than 2 guard: these pairs are in doubt, and their bound is the lower one of their
// place. guard is a power of two, so that one AND finds them.
//
// Other bounds: s = 1 / sqrt(B_m), and the upper bits of the float S are a slot. A slot which at most one
// bound may touch has this as its threshold t; the pair is in doubt if |S - t| is at most the error. A slot
// with several has t = NaN, and all its pairs are in doubt. Kernels count half slots, 2 slot + (S >= t).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "common/integers.h"
#include "pairs/bin_finder.h"

namespace bmrm {

/// The unit roundoff of float32 and what terms of second order add to it.
constexpr double kFloatRounding = 1.01 * 0x1p-24;
/// Places of points that do not exist, in scaled units: further away than any bound from every other one.
constexpr float kNowhere = 1e18f;
/// Maximum of scaled coordinates.
constexpr double kMaxScaled = 1e17;

/// What a kernel needs to bin the squared distances of one block of pairs.
struct BinScale {
    float low, high;  // squared distances are clamped to these
    float shift;      // evenly spaced: what is added to a root
    int fraction_bits;
    std::int32_t inner_mask;  // evenly spaced: bits of q that are all 0 if and only if it is in doubt
    float root_error, relative, square;  // others: the error of S is root_error sqrt(S) + relative S + square
    float beyond;                        // squared distances from here on are surely beyond the last bound
    int slot_bits;                       // others: bits of a float below the slot
    std::int32_t first_slot;
    const float* thresholds;
};

/// Errors of a block, as lengths: |alpha + beta| and e of the theorem, without the factor s.
struct BlockError {
    double spread, exact;
};

class BinMap {
  public:
    BinMap(const double* bounds, i64 bins, int axes) : finder_(bounds, bins), axes_(axes) {
        const double last = bounds[bins];
        if (axes > (1 << 16) || !(last > 1e-250) || !(last < 1e250)) return;
        if (!spaced_evenly()) make_slots();
    }

    const BinFinder& finder() const { return finder_; }
    i64 bins() const { return finder_.bins(); }
    const double* bounds() const { return finder_.bounds(); }
    /// Whether float32 can be used at all.
    bool usable() const { return unit_ > 0; }
    bool even() const { return even_; }
    /// The factor s.
    double unit() const { return unit_; }
    /// Keys of a kernel: places, or half slots.
    i64 keys() const { return even_ ? bins() + 2 : static_cast<i64>(2 * thresholds_.size()); }
    /// The place of a key; of half slots, one that is not in doubt.
    i64 place(i64 key) const { return even_ ? key : places_[key]; }

    /// The place of a squared distance of the reference formula, which often is `near` or the one before; 0
    /// for all that are in no bin.
    i64 exact_place(double square, i64 near) const {
        const double* B = bounds();
        for (i64 k = std::min(near, bins()); k > 0 && k >= near - 1; --k)
            if (square >= B[k - 1] && square < B[k]) return k;
        return finder_.holds(square) ? finder_.bin<false>(square) + 1 : 0;
    }

    /// How to bin a block with these errors; false if float32 is too coarse for it.
    bool scale(const BlockError& error, BinScale* out) const {
        const double u = kFloatRounding, spread = error.spread * unit_, exact = error.exact * unit_;
        if (!usable() || !(spread < kMaxScaled)) return false;
        BinScale& c = *out;
        c = BinScale{};
        const double absolute = u * spread + exact;
        if (even_) {
            const double one = std::ldexp(1.0, fraction_bits_), end = (first_ + bins()) * one;
            const double exact_shift = (1.0 - first_) * one;
            // Twice a root is at most so much where it matters.
            const double root = std::min(2 * spread, end + one), sum = root + std::max(0.0, exact_shift);
            const double of_shift = std::abs(exact_shift) * (first_ > 0 ? u : 0.0);
            const double found =
                2 * absolute + u * ((0.5 * axes_ + 2.8) * root + sum) + of_shift + deviation_ * one + 1.0;
            const double guard = std::ldexp(1.0, std::ilogb(found) + 1);
            if (guard > std::ldexp(1.0, fraction_bits_ - kLeastFraction)) return false;
            // Nothing is below B_0 = 0: pairs near it are not in doubt. Otherwise they keep their sides of
            // it.
            const double lowest =
                bounds()[0] == 0.0 ? 0.25 * one : std::max(kLeastRoot, (first_ - 0.5) * one);
            c.low = static_cast<float>(0.25 * lowest * lowest);
            const double highest = (first_ + bins() + 0.5) * one;
            c.high = static_cast<float>(0.25 * highest * highest);
            c.shift = static_cast<float>(exact_shift + guard);
            c.fraction_bits = fraction_bits_;
            const auto whole = static_cast<std::int32_t>(1) << fraction_bits_;
            c.inner_mask = (whole - 1) & ~(2 * static_cast<std::int32_t>(guard) - 1);
            const double beyond = end + guard;
            c.beyond = std::min(static_cast<float>(0.25 * beyond * beyond * (1 + 0x1p-20)), c.high);
            return true;
        }
        if (absolute > kMaxSlotError) return false;
        c.low = low_, c.high = 2.0f;
        c.root_error = static_cast<float>(1.05 * absolute);  // times twice the root
        c.relative = static_cast<float>(2.1 * u * (0.5 * axes_ + 3));
        c.square = static_cast<float>(1.1 * absolute * absolute + 1e-37);
        c.beyond = 1.01f;
        c.slot_bits = slot_bits_;
        c.first_slot = first_slot_;
        c.thresholds = thresholds_.data();
        return true;
    }

    i64 bytes() const {
        return finder_.bytes() + static_cast<i64>(4 * thresholds_.size() + 4 * places_.size());
    }

  private:
    /// A guard of 2^-kLeastFraction of a bin puts an eighth of all pairs in doubt.
    static constexpr int kLeastFraction = 4;
    /// Twice the root of a squared distance is made at least so large: roots of 0 are not found.
    static constexpr double kLeastRoot = 1e-15;
    /// Maximum number of slots: their thresholds stay in the second level of cache.
    static constexpr i64 kMaxSlots = i64{1} << 14;
    /// Maximum absolute error of a distance for which slots are made, in units of the last bound.
    static constexpr double kMaxSlotError = 0x1p-15;

    bool spaced_evenly() {
        const i64 m = bins();
        const double first = std::sqrt(bounds()[0]),
                     width = (std::sqrt(bounds()[m]) - first) / static_cast<double>(m);
        if (!(width > 1e-120) || !(width < 1e120)) return false;
        double deviation = 0;
        for (i64 k = 0; k <= m; ++k)
            deviation = std::max(deviation,
                                 std::abs(std::sqrt(bounds()[k]) - (first + width * static_cast<double>(k))));
        first_ = first / width;
        const double top = first_ + static_cast<double>(m) + 2;
        // Roots of bounds are rounded, and so is first / width.
        deviation_ = deviation / width + 8 * 0x1p-53 * top;
        // Numbers of 26 bits: float32 does not resolve more.
        fraction_bits_ = 26 - static_cast<int>(std::ceil(std::log2(top)));
        if (fraction_bits_ <= kLeastFraction || deviation_ > 0x1p-10) return false;
        unit_ = std::ldexp(0.5, fraction_bits_) / width;  // kernels take twice the root
        return even_ = true;
    }

    static std::int32_t bits_of(float value) {
        std::int32_t bits;
        std::memcpy(&bits, &value, 4);
        return bits;
    }
    static double float_of(std::int32_t bits) {
        float value;
        std::memcpy(&value, &bits, 4);
        return value;
    }

    void make_slots() {
        const i64 m = bins();
        unit_ = 1.0 / std::sqrt(bounds()[m]);
        scaled_.clear();
        for (i64 k = 0; k <= m; ++k)
            if (bounds()[k] > 0 && (scaled_.empty() || bounds()[k] != bounds()[k - 1]))
                scaled_.push_back(bounds()[k] / bounds()[m]);
        low_ = static_cast<float>(std::max(0x1p-80, scaled_.front() / 4));
        const std::int32_t lowest = bits_of(low_), highest = bits_of(2.0f);
        for (slot_bits_ = 23; slot_bits_ > 8; --slot_bits_) {
            if (((highest - lowest) >> slot_bits_) + 1 > kMaxSlots) {
                ++slot_bits_;
                break;
            }
            if (fill_slots(lowest, highest) == 0) break;
        }
        fill_slots(lowest, highest);
    }

    /// Thresholds of all slots; returns how many slots have several bounds.
    i64 fill_slots(std::int32_t lowest, std::int32_t highest) {
        first_slot_ = lowest >> slot_bits_;
        const i64 slots = (highest >> slot_bits_) - first_slot_ + 1;
        thresholds_.assign(slots, 0.0f);
        places_.assign(2 * slots, 0);
        const double relative = 2.2 * kFloatRounding * (0.5 * axes_ + 4);
        i64 several = 0;
        for (i64 s = 0; s < slots; ++s) {
            // Distances whose squares may fall into the slot.
            double from = 0, to = std::numeric_limits<double>::infinity();
            if (s > 0) from = float_of(static_cast<std::int32_t>((first_slot_ + s) << slot_bits_));
            if (s + 1 < slots) to = float_of(static_cast<std::int32_t>((first_slot_ + s + 1) << slot_bits_));
            const double below = std::sqrt(from) * (1 - relative) - kMaxSlotError;
            from = below > 0 ? below * below : 0;
            const double above = std::sqrt(to) * (1 + relative) + kMaxSlotError;
            const auto first = std::lower_bound(scaled_.begin(), scaled_.end(), from);
            const auto last = std::upper_bound(first, scaled_.end(), above * above);
            const i64 place = place_after(first);
            places_[2 * s] = static_cast<std::int32_t>(place);
            places_[2 * s + 1] = static_cast<std::int32_t>(last == first ? place : place_after(first + 1));
            // A bound below the least squared distance of kernels cannot be a threshold.
            const bool many = last - first > 1 || (last > first && !(*first > 2.0 * low_));
            several += many;
            thresholds_[s] = many            ? std::numeric_limits<float>::quiet_NaN()
                             : last == first ? std::numeric_limits<float>::infinity()
                                             : static_cast<float>(*first);
        }
        return several;
    }

    /// The place of a squared distance between the bound before `next`, one of `scaled_`, and that one.
    i64 place_after(std::vector<double>::const_iterator next) const {
        if (next == scaled_.end()) return bins() + 1;
        const double *B = bounds(), *end = B + bins() + 1;
        const auto scaled_below = [&](double bound, double scaled) { return bound / B[bins()] < scaled; };
        return std::lower_bound(B, end, *next, scaled_below) - B;
    }

    BinFinder finder_;
    int axes_;
    bool even_ = false;
    double unit_ = 0, first_ = 0, deviation_ = 0;
    int fraction_bits_ = 0;
    std::vector<double> scaled_;  // distinct positive bounds over the last one
    float low_ = 0;
    int slot_bits_ = 0;
    std::int32_t first_slot_ = 0;
    std::vector<float> thresholds_;
    std::vector<std::int32_t> places_;
};

}  // namespace bmrm
