// The largest entries of columns side by side. A thread keeps a list per column, and passes over what is
// below its last entry; now and then a list is cut to its largest entries. In most rows no column has one.
#include <algorithm>
#include <limits>

#include "common/memory.h"
#include "graph/walk.h"

namespace bmrm {
namespace {

constexpr i64 kLeaderRows = 4096;  // of a task
constexpr int kLanes = 16;         // entries that are compared at a time if there is one column

/// The largest entries of a column so far.
class Leaders {
  public:
    void open(i64 count) {
        count_ = count;
        entries_.reserve(2 * count + 64);
    }
    /// Returns what an entry must reach to be added.
    double add(Entry entry, double least) {
        if (entries_.size() == entries_.capacity()) least = cut(least);
        if (entry.value >= least) entries_.push_back(entry);
        return least;
    }
    /// Keeps the largest entries, and those that equal the last.
    double cut(double least) {
        if (static_cast<i64>(entries_.size()) <= count_) return least;
        const auto larger = [](const Entry& a, const Entry& b) { return a.value > b.value; };
        std::nth_element(entries_.begin(), entries_.begin() + (count_ - 1), entries_.end(), larger);
        least = entries_[count_ - 1].value;
        const auto below = [least](const Entry& entry) { return entry.value < least; };
        entries_.erase(std::remove_if(entries_.begin(), entries_.end(), below), entries_.end());
        if (entries_.size() > entries_.capacity() / 4 * 3) entries_.reserve(2 * entries_.capacity());
        return least;
    }
    void append(Leaders& other) {
        entries_.insert(entries_.end(), other.entries_.begin(), other.entries_.end());
    }
    std::vector<Entry>& entries() { return entries_; }

  private:
    i64 count_ = 0;
    std::vector<Entry> entries_;
};

/// What a thread has found.
struct Found {
    std::vector<Leaders> columns;
    // What an entry of a column must reach: more than 0, and infinity in columns that nobody asks for.
    double least[kWalkColumns];
};

/// Looks at W entries at a time: a row, or nodes of the only column.
template <int W>
void scan(const double* base, const float* e, i64 first, i64 last, i64 K, Found& found) {
    double least[W];
    const auto set_least = [&] {
        for (int k = 0; k < W; ++k) least[k] = found.least[K == 1 ? 0 : k];
    };
    set_least();
    for (i64 i = first * K; i < last * K; i += W) {
        const int width = static_cast<int>(std::min<i64>(W, last * K - i));
        int any = 0;
        if (width == W)
            for (int k = 0; k < W; ++k) any |= base[i + k] + static_cast<double>(e[i + k]) >= least[k];
        if (width == W && !any) continue;
        for (int k = 0; k < width; ++k) {
            const i64 column = K == 1 ? 0 : k;
            const double value = base[i + k] + static_cast<double>(e[i + k]);
            if (value >= found.least[column])
                found.least[column] = found.columns[column].add({value, (i + k) / K}, found.least[column]);
        }
        set_least();
    }
}

}  // namespace

std::vector<std::vector<Entry>> largest_entries(const double* base, const float* e, i64 n, i64 K,
                                                const i64* columns, i64 n_columns, i64 count, int threads) {
    const auto of_width = K == 1    ? scan<kLanes>
                          : K == 4  ? scan<4>
                          : K == 8  ? scan<8>
                          : K == 16 ? scan<16>
                                    : scan<32>;
    const i64 pieces = (n + kLeaderRows - 1) / kLeaderRows;
    const int team = static_cast<int>(std::clamp<i64>(pieces, 1, threads_for(n * K, threads)));
    std::vector<Found> members(team);
    for (Found& found : members) {
        found.columns.resize(K);
        std::fill_n(found.least, kWalkColumns, std::numeric_limits<double>::infinity());
        for (i64 c = 0; c < n_columns; ++c) {
            found.columns[columns[c]].open(count);
            found.least[columns[c]] = std::numeric_limits<double>::denorm_min();
        }
    }
    for_each_allocating_task(pieces, team, [&](i64 p, int member) {
        of_width(base, e, p * kLeaderRows, std::min(n, (p + 1) * kLeaderRows), K, members[member]);
    });
    std::vector<std::vector<Entry>> found(n_columns);
    for (i64 c = 0; c < n_columns; ++c) {
        Leaders& all = members[0].columns[columns[c]];
        for (int m = 1; m < team; ++m) all.append(members[m].columns[columns[c]]);
        all.cut(0.0);
        found[c].swap(all.entries());
    }
    return found;
}

}  // namespace bmrm
