// Bounds on the distances of rows to centres, kept from pass to pass of Lloyd's method, so that most rows
// need few products or none. Centres are in groups by their numbers. For each row there are an upper bound on
// its distance to its own centre and, for each group, a lower bound on that to the others of the group. When
// centres move, the first grows by the move of the own centre, the others fall by the longest move of the
// group. A group whose bound is above the upper one has no nearer centre (Ding, Zhao, Shen, Musuvathi and
// Mytkowicz, Yinyang k-means, ICML 2015; Hamerly's bounds are those of a single group).
//
// All is in the units of packed rows (kmeans.h). A product q of a row y with a centre z has an error of at
// most E, and |y - z|^2 = |y|^2 + 2 q. So with c >= 2 E, the squares are between |y|^2 + 2 q - c and the same
// + c. Bounds are taken with 3/2 c, which leaves room for the three roundings of the sum, as c exceeds 14 u
// (B^2 / 2 + |y| B) and |q| does not exceed B^2 / 2 + |y| B. Factors of 1 -+ 2^-18 cover the rounding of |y|,
// square roots, moves, and distances in float64, by which labels are defined.
//
// Packed rows, 64 side by side, are best if most rows have to be multiplied by most centres. A row alone is
// multiplied by 16 centres side by side: at 50000 x 64 with 100 centres, passes late in a run take a fifth of
// the time. A panel chooses by the number of its products; labels are exact either way, and the sums are the
// same bits.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "clusters/nearest.h"
#include "common/memory.h"

namespace bmrm {

/// Maximum number of groups of centres: a row has as many numbers.
constexpr i64 kMaxCenterGroups = 16;
/// Minimum number of centres that pays for bounds.
constexpr i64 kMinBoundedCenters = 32;
/// Minimum number of multiply-adds per row that pays for them: with 6400 late passes take half the time, with
/// 1024 a quarter more.
constexpr i64 kMinBoundedWork = 4096;
/// Share of the products of a panel from which all of them are computed from packed rows.
constexpr double kManyProducts = 0.5;

class KeptBounds {
  public:
    /// Begins a pass over n rows; returns whether there are bounds, after whose last pass the centres have
    /// moved by `moves`.
    bool begin(const double* centers, i64 k, i64 d, i64 n, double scale) {
        const i64 panels = (n + kPanelRows - 1) / kPanelRows;
        const bool same = k == k_ && d == d_ && n == n_;
        moves.assign(k, 0.0f);
        group_moves.assign(kMaxCenterGroups, 0.0f);
        if (!same) {
            k_ = k, d_ = d, n_ = n;
            const i64 sets = (k + kSetCenters - 1) / kSetCenters;
            sets_per_group = (sets + kMaxCenterGroups - 1) / kMaxCenterGroups;
            groups = (sets + sets_per_group - 1) / sets_per_group;
            upper_ = Buffer<float>(panels * kPanelRows);
            lower_ = Buffer<float>(panels * kPanelRows * groups);
        } else {
            for (i64 j = 0; j < k; ++j) {
                double square = 0.0;
                for (i64 f = 0; f < d; ++f) {
                    const double e = (centers[j * d + f] - centers_[j * d + f]) * scale;
                    square += e * e;
                }
                moves[j] = static_cast<float>(std::sqrt(square) * (1.0 + 0x1p-18)) + 0x1p-120f;
                float& longest = group_moves[group_of(j)];
                longest = std::max(longest, moves[j]);
            }
        }
        centers_.assign(centers, centers + k * d);
        return same;
    }

    i64 group_of(i64 center) const { return center / (sets_per_group * kSetCenters); }
    /// Of a panel that begins at a row.
    float* upper(i64 base) { return upper_.get() + base; }
    /// Group by group, 64 numbers each.
    float* lower(i64 base) { return lower_.get() + base * groups; }

    i64 groups = 0, sets_per_group = 0;
    std::vector<float> moves, group_moves;

  private:
    i64 k_ = 0, d_ = 0, n_ = 0;
    std::vector<double> centers_;
    Buffer<float> upper_, lower_;
};

}  // namespace bmrm
