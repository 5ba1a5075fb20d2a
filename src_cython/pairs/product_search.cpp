#include "pairs/product_search.h"

#include <cmath>
#include <cstring>
#include <numeric>

#include "cpu/simd.h"
#include "pairs/decision.h"

namespace bmrm {

namespace {

/// Bytes of points, and of packed rows, that stay in the second cache.
constexpr i64 kChunkBytes = i64{1} << 18;
constexpr i64 kMaxPanels = 4;
/// Candidates of a row that are decided at once: their sums are computed side by side.
constexpr int kDecided = 8;
/// More than all that underflows: numbers are at most 1, and there are less than 2^30 axes.
constexpr double kUnderflow = 0x1p-110;
/// Sizes within which squares are far from overflow and underflow in float64.
constexpr double kLeast = 0x1p-400, kMost = 0x1p400;
/// With more axes sums of products of bytes might overflow.
constexpr i64 kMaxByteAxes = i64{1} << 15;
/// Candidates of a row per point from which float32 takes less time than bytes.
constexpr double kMaxByteShare = 1.0 / 64;
/// Tasks after which bytes are not tried again, if they were in vain so much more often than not.
constexpr int kMaxVain = 3;
/// A share of both sides of a difference in float32 that is more than three roundings change.
constexpr double kDifferenceSlack = 0x1p-22;

i64 panels_of_task(i64 d) {
    return std::clamp<i64>(kChunkBytes / (kPanelRows * d * static_cast<i64>(sizeof(float))), 1, kMaxPanels);
}

}  // namespace

bool CandidateKernels::has_bytes() const {
#if defined(__x86_64__)
    static const bool can = __builtin_cpu_supports("avx512vnni");
    return bytes && can;
#else
    return false;
#endif
}

std::unique_ptr<ProductSearch> ProductSearch::make(const Sides& sides, Metric metric) {
    const i64 n = sides.point_count, d = sides.axes;
    if (n == 0) return nullptr;
    std::vector<double> shift(d);
    for (i64 i = 0; i < n; ++i)
        for (i64 k = 0; k < d; ++k) shift[k] += sides.points[i * d + k];
    for (double& sum : shift) {
        sum /= static_cast<double>(n);
        if (!(std::abs(sum) < kMost)) return nullptr;
    }
    double largest = 0.0;
    const auto look = [&](const double* rows, i64 count) {
        for (i64 i = 0; i < count; ++i)
            for (i64 k = 0; k < d; ++k) largest = std::max(largest, std::abs(rows[i * d + k] - shift[k]));
    };
    look(sides.points, n);
    if (!sides.same()) look(sides.rows, sides.row_count);
    if (!(largest > kLeast && largest < kMost)) return nullptr;
    return std::unique_ptr<ProductSearch>(new ProductSearch(sides, metric, std::move(shift), largest));
}

ProductSearch::ProductSearch(const Sides& sides, Metric metric, std::vector<double> shift, double largest)
    : metric_(metric),
      n_(sides.row_count),
      m_(sides.point_count),
      d_(sides.axes),
      own_(sides.own),
      shift_(std::move(shift)),
      scale_(std::ldexp(1.0, -std::ilogb(largest) - 1)),
      byte_scale_(kLargestByte / largest),
      error_([this] {
          const double share = static_cast<double>(d_ + 12) * 0x1p-24;
          return share / (1.0 - share);
      }()),
      task_rows_(panels_of_task(d_) * kPanelRows),
      tiles_((m_ + kTilePoints - 1) / kTilePoints),
      chunk_(std::max<i64>(1, kChunkBytes / (kTilePoints * d_ * static_cast<i64>(sizeof(float))))),
      rows_(sides.rows),
      points_(sides.points) {
    if (candidate_kernels().has_bytes() && d_ <= kMaxByteAxes) pack(bytes_);
}

const PointTiles<float>& ProductSearch::floats() const {
    std::call_once(packed_, [this] { pack(floats_); });
    return floats_;
}

template <class V>
void ProductSearch::pack(PointTiles<V>& tiles) const {
    const i64 each = kTilePoints * steps<V>();
    tiles.values = Buffer<V>(tiles_ * each);
    tiles.starts = Buffer<V>(tiles_ * kTilePoints);
    std::fill_n(tiles.values.get() + (tiles_ - 1) * each, each, V{});
    // Past the last point nothing is near, nor surely near.
    std::fill_n(tiles.starts.get() + (tiles_ - 1) * kTilePoints, kTilePoints,
                std::is_same_v<V, float> ? std::numeric_limits<V>::infinity() : V{});
    if (std::is_same_v<V, float>) tiles.slacks.resize(tiles_);
    for (i64 j = 0; j < m_; ++j) {
        V* const to = tiles.values.get() + j / kTilePoints * each + j % kTilePoints;
        const Code code = encode(points_ + j * d_, scale<V>(), true, to, kTilePoints);
        if constexpr (std::is_same_v<V, float>) {
            tiles.starts[j] = static_cast<float>(code.square * (0.5 - error_));
            float& slack = tiles.slacks[j / kTilePoints];
            slack =
                std::max(slack, static_cast<float>(2.0 * error_ * code.square * (1.0 + kDifferenceSlack)));
        } else {
            // Less than the number by more than the roundings of the square; rows are 128 too large.
            const double least = std::floor(0.5 * code.square) - 2.0;
            tiles.starts[j] = static_cast<V>(least) + static_cast<V>((kLargestByte + 1) * code.sum);
            byte_rest_ = std::max(byte_rest_, std::sqrt(code.rest) * (1.0 + 0x1p-40));
            byte_size_ = std::max(byte_size_, std::sqrt(code.square) + std::sqrt(code.rest));
        }
    }
}

/// The rows of a task, while a thread searches for their neighbours.
class ProductSearch::Task {
  public:
    Task(const ProductSearch& search, const Sought& sought, const FoundTarget& target)
        : search_(search),
          patience_(4 * sought.room()),
          indices_(search.task_rows_),
          found_(sought, target, search.task_rows_, target.distances ? search.own_ : -1),
          codes_(search.task_rows_),
          candidates_(search.task_rows_ * kDecided),
          waiting_(search.task_rows_),
          surely_(search.task_rows_, std::numeric_limits<float>::lowest()),
          counts_(search.task_rows_) {}

    void run(i64 first, i64 count) {
        std::iota(indices_.begin(), indices_.end(), first);
        found_.begin(indices_.data(), count);
        const bool try_bytes = search_.bytes_.values.size() > 0 && search_.vain_ < kMaxVain;
        use_bytes_ = try_bytes;
        use_bytes_ ? pack(bytes_) : pack(floats_);
        const double most = static_cast<double>(count) * (kMaxByteShare * static_cast<double>(search_.m_) +
                                                          static_cast<double>(patience_));
        for (i64 begin = 0; begin < search_.tiles_; begin += search_.chunk_) {
            const i64 end = std::min(begin + search_.chunk_, search_.tiles_);
            use_bytes_             ? scan(bytes_, search_.bytes_, candidate_kernels().bytes, begin, end)
            : found_.counts_only() ? count_near(begin, end)
                                   : scan(floats_, search_.floats(), candidate_kernels().floats, begin, end);
            if (use_bytes_ && static_cast<double>(decided_) > most) {
                use_bytes_ = false;
                pack(floats_);
            }
        }
        if (try_bytes) search_.vain_ += use_bytes_ ? -1 : 1;
        for (i64 i = 0; i < count; ++i) {
            decide(i);
            // A row is surely near itself, and was counted.
            if (found_.counts_only()) found_[i].count += i64{counts_[i]} - (search_.own_ >= 0);
            counts_[i] = 0;
        }
        found_.finish();
    }

  private:
    template <class V>
    struct Rows {
        Buffer<V> panels;
        std::vector<V> limits;
    };

    template <class V>
    void pack(Rows<V>& rows) {
        const i64 steps = search_.steps<V>(), all = search_.task_rows_;
        rows.panels = Buffer<V>(all * steps);
        std::fill_n(rows.panels.get(), rows.panels.size(), V{});
        rows.limits.assign(all, std::is_same_v<V, float> ? -std::numeric_limits<V>::infinity()
                                                         : std::numeric_limits<V>::min());
        for (i64 i = 0; i < found_.count(); ++i) {
            V* const to = rows.panels.get() + i / kPanelRows * kPanelRows * steps + i % kPanelRows;
            codes_[i] = search_.encode(search_.rows_ + indices_[i] * search_.d_, search_.scale<V>(), false,
                                       to, kPanelRows);
            set_limit(i);
        }
    }

    void set_limit(i64 i) {
        // More than a measured number is off by its own roundings.
        const double most = most_measured(search_.metric_, found_[i].limit) * (1.0 + 0x1p-40);
        const double square = codes_[i].square;
        if (use_bytes_) {
            const double rest = std::sqrt(codes_[i].rest), size = std::sqrt(square) + rest;
            const double error = size * search_.byte_rest_ + rest * (search_.byte_size_ + search_.byte_rest_);
            const double scale = search_.byte_scale_;
            const double limit = 0.5 * (most * scale * scale - square) + error * (1.0 + 0x1p-40) + 4.0;
            constexpr Bytes kHighest = std::numeric_limits<Bytes>::max();
            bytes_.limits[i] = limit < kHighest ? static_cast<Bytes>(limit) : kHighest;
            return;
        }
        const double limit =
            0.5 * (most * search_.scale_ * search_.scale_ - square) + search_.error_ * square + kUnderflow;
        const auto rounded = static_cast<float>(limit);
        floats_.limits[i] =
            rounded < limit ? std::nextafter(rounded, std::numeric_limits<float>::infinity()) : rounded;
        if (!found_.counts_only()) return;
        const double last = last_measured(search_.metric_, found_[i].limit) * (1.0 - 0x1p-40);
        const double surely = std::min(
            0.5 * (last * search_.scale_ * search_.scale_ - square) - search_.error_ * square - kUnderflow,
            0.5 * std::numeric_limits<float>::max());
        surely_[i] = static_cast<float>(surely - std::abs(surely) * kDifferenceSlack);
    }

    /// Counts what is surely near, and waits with what may be.
    void count_near(i64 first, i64 last) {
        const PointTiles<float>& points = search_.floats();
        const auto find = [&](const float* some, i64 steps, const float* tiles, const float* starts, i64 t,
                              i64 end, const float* limits, std::uint64_t* near) {
            const i64 row = limits - floats_.limits.data();
            const SurelyNear sure = {surely_.data() + row, points.slacks.data(), counts_.data() + row};
            return candidate_kernels().counts(some, steps, tiles, starts, t, end, limits, sure, near);
        };
        scan(floats_, points, find, first, last);
    }

    template <class V, class Find>
    void scan(const Rows<V>& rows, const PointTiles<V>& points, const Find& find, i64 first, i64 last) {
        const i64 steps = search_.steps<V>(), sweep = candidate_kernels().sweep;
        for (i64 row = 0; row < found_.count(); row += sweep) {
            const i64 panel = row / kPanelRows * kPanelRows;
            const V* const some = rows.panels.get() + panel * steps + (row - panel);
            std::uint64_t near[kTilePoints];
            for (i64 t = first;; ++t) {
                t = find(some, steps, points.values.get(), points.starts.get(), t, last,
                         rows.limits.data() + row, near);
                if (t == last) break;
                const i64 in_tile = std::min<i64>(kTilePoints, search_.m_ - t * kTilePoints);
                for (i64 j = 0; j < in_tile; ++j)
                    for (std::uint64_t bits = near[j]; bits; bits &= bits - 1)
                        wait(row + __builtin_ctzll(bits), t * kTilePoints + j);
            }
        }
    }

    void wait(i64 i, i64 candidate) {
        if (i >= found_.count()) return;
        candidates_[i * kDecided + waiting_[i]++] = candidate;
        if (waiting_[i] == kDecided) decide(i);
    }

    /// Adds the candidates of a row by their distances in float64.
    void decide(i64 i) {
        const i64* const candidates = candidates_.data() + i * kDecided;
        const int count = waiting_[i];
        if (count == 0) return;
        const double* const x = search_.rows_ + indices_[i] * search_.d_;
        const double* z[kDecided];
        double squares[kDecided] = {};
        for (int c = 0; c < kDecided; ++c)
            z[c] = search_.points_ + candidates[c < count ? c : 0] * search_.d_;
        for (i64 k = 0; k < search_.d_; ++k)
            for (int c = 0; c < kDecided; ++c) squares[c] = add_square(squares[c], x[k] - z[c][k]);
        Found& row = found_[i];
        const double before = row.limit;
        for (int c = 0; c < count; ++c) row.add(distance_of(search_.metric_, squares[c]), candidates[c]);
        waiting_[i] = 0;
        decided_ += count;
        if (row.limit != before) set_limit(i);
    }

    const ProductSearch& search_;
    const i64 patience_;  // candidates of a row that there are before there is a limit
    std::vector<i64> indices_;
    FoundRows found_;
    std::vector<Code> codes_;
    bool use_bytes_ = false;
    Rows<Bytes> bytes_;
    Rows<float> floats_;
    std::vector<i64> candidates_;
    std::vector<int> waiting_;
    std::vector<float> surely_;  // limits of `SurelyNear`
    std::vector<std::uint32_t> counts_;
    i64 decided_ = 0;
};

void ProductSearch::search(i64 first, i64 last, int threads, const Sought& sought,
                           const FoundTarget& target) const {
    for_each_allocating_task(last - first, threads, [&](i64 task, int) {
        const i64 begin = (first + task) * task_rows_;
        Task(*this, sought, target).run(begin, std::min(task_rows_, n_ - begin));
    });
}

}  // namespace bmrm
