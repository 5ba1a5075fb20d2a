// Neighbours of points, the k nearest or all within a radius: the interface that Python sees, and what both
// ways to find them share.
//
// Neighbours are ordered by their distance in float64 and then by their index. Distances are those of
// metrics.h and of a few lines of leaf_kernels.h; whatever leaves out pairs before has to prove that they
// are too far. So results do not depend on the way, on the other rows, on k or on threads.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "common/memory.h"
#include "pairs/metrics.h"

namespace bmrm {

struct Neighbour {
    double distance;
    i64 index;

    bool operator<(const Neighbour& other) const {
        return is_nearer(distance, index, other.distance, other.index);
    }
};

/// What is sought of each row.
struct Sought {
    i64 nearest;    // how many; 0: all within the radius
    double radius;  // infinite for the nearest

    /// Neighbours of a row that may be kept before those beyond the nearest are dropped.
    i64 room() const { return nearest + std::max<i64>(nearest, 8); }
};

/// The neighbours of a row so far.
struct Found {
    Neighbour* entries = nullptr;  // null: they are counted
    i64 room = 0, nearest = 0, count = 0;
    i64 own = -1;  // the row itself, which is no neighbour
    double limit = 0;

    void add(double distance, i64 index) {
        if (!(distance <= limit) || index == own) return;
        if (entries) {
            if (count == room) return;  // points that have changed since they were counted
            entries[count] = {distance, index};
        }
        if (++count == room && nearest) settle();
    }
    /// Drops all but the nearest.
    void settle() {
        std::nth_element(entries, entries + nearest - 1, entries + count);
        count = nearest;
        limit = entries[nearest - 1].distance;
    }
};

/// Where the results of some rows go.
struct FoundTarget {
    double* distances = nullptr;
    i64* indices = nullptr;          // or
    std::int32_t* narrow = nullptr;  // indices in 32 bits
    const i64* starts = nullptr;     // of each row of a sparse matrix; null: rows are `nearest` long
    i64* counts = nullptr;           // of each row; alone: neighbours are counted
};

class NeighbourSearch {
  public:
    virtual ~NeighbourSearch() = default;
    /// Number of tasks, which together have each row once.
    virtual i64 tasks() const = 0;
    /// Searches for the rows of tasks first to last.
    virtual void search(i64 first, i64 last, int threads, const Sought& sought,
                        const FoundTarget& target) const = 0;
};

/// Whose neighbours are sought, and among which points: coordinates by rows.
struct Sides {
    const double *rows, *points;
    i64 row_count, point_count, axes;
    const double* box;  // lengths of the axes, 0 for open ones
    i64 own;  // the rows are the points from this one on, none of which is its own neighbour; -1: others

    bool same() const { return rows == points && row_count == point_count; }
    bool has_box() const {
        return std::any_of(box, box + axes, [](double length) { return length > 0.0; });
    }
};

/// Prepares a search; coordinates outlive it. With `products`, for distances of squares on open axes,
/// candidates come from products in low precision, if numbers have sizes for that.
std::unique_ptr<NeighbourSearch> make_neighbour_search(const Sides& sides, Metric metric, bool products,
                                                       int threads);

/// The rows that a thread is searching for, and their results.
class FoundRows {
  public:
    /// For up to `rows` rows; `own` as of `Sides`.
    FoundRows(const Sought& sought, const FoundTarget& target, i64 rows, i64 own)
        : sought_(sought), target_(target), own_(own), found_(rows) {
        if (sought.nearest) entries_.resize(rows * sought.room());
    }

    /// Begins with rows whose indices are known.
    void begin(const i64* indices, i64 count) {
        indices_ = indices;
        count_ = count;
        i64 all = 0;
        if (target_.starts) {
            for (i64 i = 0; i < count; ++i) all += length(i);
            if (static_cast<i64>(entries_.size()) < all) entries_.resize(all);
        }
        Neighbour* at = entries_.data();
        for (i64 i = 0; i < count; ++i) {
            Found& row = found_[i];
            row = {};
            row.own = own_ < 0 ? -1 : own_ + indices[i];
            row.limit = sought_.radius;
            row.nearest = sought_.nearest;
            row.entries = target_.distances ? at : nullptr;
            row.room = target_.starts ? length(i) : sought_.nearest ? sought_.room() : 0;
            at += row.room;
        }
    }
    Found& operator[](i64 i) { return found_[i]; }
    i64 count() const { return count_; }
    bool counts_only() const { return !target_.distances; }

    /// Writes the results of all rows.
    void finish() {
        for (i64 i = 0; i < count_; ++i) {
            Found& row = found_[i];
            if (target_.counts) target_.counts[indices_[i]] = row.count;
            if (!target_.distances) continue;
            i64 to;
            if (target_.starts) {
                to = target_.starts[indices_[i]];
                std::sort(row.entries, row.entries + row.count,
                          [](const Neighbour& a, const Neighbour& b) { return a.index < b.index; });
            } else {
                to = indices_[i] * sought_.nearest;
                if (row.count > sought_.nearest) row.settle();
                std::sort(row.entries, row.entries + row.count);
            }
            for (i64 n = 0; n < row.count; ++n) {
                target_.distances[to + n] = row.entries[n].distance;
                if (target_.narrow)
                    target_.narrow[to + n] = static_cast<std::int32_t>(row.entries[n].index);
                else
                    target_.indices[to + n] = row.entries[n].index;
            }
        }
    }

  private:
    i64 length(i64 i) const { return target_.starts[indices_[i] + 1] - target_.starts[indices_[i]]; }

    const Sought sought_;
    const FoundTarget target_;
    const i64 own_;
    std::vector<Found> found_;
    std::vector<Neighbour> entries_;
    const i64* indices_ = nullptr;
    i64 count_ = 0;
};

}  // namespace bmrm
