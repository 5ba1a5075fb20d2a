#include "pairs/product_search.h"

#include <cmath>
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

Buffer<double> by_rows(const PlacedPoints& points) {
    const i64 n = points.points(), d = points.axes();
    Buffer<double> rows(n * d);
    for (i64 first = 0; first < n; first += kPanelRows)
        for (i64 k = 0; k < d; ++k) {
            const double* const x = points.axis(static_cast<int>(k));
            for (i64 i = first; i < std::min(first + kPanelRows, n); ++i) rows[i * d + k] = x[i];
        }
    return rows;
}

i64 panels_of_task(i64 d) {
    return std::clamp<i64>(kChunkBytes / (kPanelRows * d * static_cast<i64>(sizeof(float))), 1, kMaxPanels);
}

}  // namespace

std::unique_ptr<ProductSearch> ProductSearch::make(const Sides& sides, Metric metric) {
    const PlacedPoints& points = sides.points;
    if (points.points() == 0) return nullptr;
    std::vector<double> shift(points.axes());
    double largest = 0.0;
    for (int k = 0; k < points.axes(); ++k) {
        const double* const x = points.axis(k);
        const auto n = static_cast<double>(points.points());
        shift[k] = std::accumulate(x, x + points.points(), 0.0) / n;
        for (const PlacedPoints* some : {&sides.rows, &points}) {
            if (some->points() == 0) continue;
            const auto [low, high] = some->range(k, 0, some->points());
            largest = std::max({largest, shift[k] - low, high - shift[k]});
        }
        if (!(std::abs(shift[k]) < kMost)) return nullptr;
    }
    if (!(largest > kLeast && largest < kMost)) return nullptr;
    const double scale = std::ldexp(1.0, -std::ilogb(largest) - 1);
    return std::unique_ptr<ProductSearch>(new ProductSearch(sides, metric, std::move(shift), scale));
}

ProductSearch::ProductSearch(const Sides& sides, Metric metric, std::vector<double> shift, double scale)
    : metric_(metric),
      n_(sides.rows.points()),
      m_(sides.points.points()),
      d_(sides.points.axes()),
      own_(sides.own),
      shift_(std::move(shift)),
      scale_(scale),
      error_([this] {
          const double share = static_cast<double>(d_ + 12) * 0x1p-24;
          return share / (1.0 - share);
      }()),
      task_rows_(panels_of_task(d_) * kPanelRows),
      tiles_((m_ + kTilePoints - 1) / kTilePoints),
      chunk_(std::max<i64>(1, kChunkBytes / (kTilePoints * d_ * static_cast<i64>(sizeof(float))))),
      points_(by_rows(sides.points)),
      other_rows_(sides.same() ? Buffer<double>() : by_rows(sides.rows)),
      values_(tiles_ * kTilePoints * d_),
      starts_(tiles_ * kTilePoints) {
    pack_points();
}

void ProductSearch::pack_points() {
    std::fill_n(values_.get(), values_.size(), 0.0f);
    for (i64 j = 0; j < tiles_ * kTilePoints; ++j) {
        if (j >= m_) {
            starts_[j] = std::numeric_limits<float>::quiet_NaN();  // at most nothing
            continue;
        }
        float* const to = values_.get() + j / kTilePoints * kTilePoints * d_ + j % kTilePoints;
        double square = 0.0;
        for (i64 k = 0; k < d_; ++k) {
            const auto z = static_cast<float>((points_[j * d_ + k] - shift_[k]) * scale_);
            to[k * kTilePoints] = z;
            square += static_cast<double>(z) * z;
        }
        starts_[j] = static_cast<float>(square * (0.5 - error_));
    }
}

/// The rows of a task, while a thread searches for their neighbours.
class ProductSearch::Task {
  public:
    Task(const ProductSearch& search, const Sought& sought, const FoundTarget& target)
        : search_(search),
          indices_(search.task_rows_),
          found_(sought, target, search.task_rows_, search.own_),
          panels_(search.task_rows_ * search.d_),
          squares_(search.task_rows_),
          limits_(search.task_rows_),
          candidates_(search.task_rows_ * kDecided),
          waiting_(search.task_rows_) {}

    void run(i64 first, i64 count) {
        std::iota(indices_.begin(), indices_.end(), first);
        found_.begin(indices_.data(), count);
        for (i64 i = 0; i < search_.task_rows_; ++i) pack(first, i);
        for (i64 begin = 0; begin < search_.tiles_; begin += search_.chunk_)
            for (i64 panel = 0; panel < count; panel += kPanelRows)
                for (i64 row = panel; row < panel + kPanelRows; row += candidate_kernels().sweep)
                    scan(panel, row, begin, std::min(begin + search_.chunk_, search_.tiles_));
        for (i64 i = 0; i < count; ++i) decide(i);
        found_.finish();
    }

  private:
    void pack(i64 first, i64 i) {
        float* const to = panels_.get() + i / kPanelRows * kPanelRows * search_.d_ + i % kPanelRows;
        double square = 0.0;
        for (i64 k = 0; k < search_.d_; ++k) {
            float y = 0.0f;
            if (i < found_.count())
                y = static_cast<float>((search_.row(first + i)[k] - search_.shift_[k]) * search_.scale_);
            to[k * kPanelRows] = y;
            square += static_cast<double>(y) * y;
        }
        squares_[i] = square;
        limits_[i] = -std::numeric_limits<float>::infinity();
        if (i < found_.count()) set_limit(i);
    }

    void set_limit(i64 i) {
        // More than a measured number is off by its own roundings.
        const double most = most_measured(search_.metric_, found_[i].limit) * (1.0 + 0x1p-40);
        const double limit = 0.5 * (most * search_.scale_ * search_.scale_ - squares_[i]) +
                             search_.error_ * squares_[i] + kUnderflow;
        const auto rounded = static_cast<float>(limit);
        limits_[i] =
            rounded < limit ? std::nextafter(rounded, std::numeric_limits<float>::infinity()) : rounded;
    }

    void scan(i64 panel, i64 row, i64 first, i64 last) {
        const auto& loops = candidate_kernels();
        const float* const rows = panels_.get() + panel * search_.d_ + (row - panel);
        std::uint64_t near[kTilePoints];
        for (i64 t = first;; ++t) {
            t = loops.find(rows, search_.d_, search_.values_.get(), search_.starts_.get(), t, last,
                           limits_.data() + row, near);
            if (t == last) return;
            for (int j = 0; j < kTilePoints; ++j)
                for (std::uint64_t bits = near[j]; bits; bits &= bits - 1) {
                    const i64 i = row + __builtin_ctzll(bits);
                    candidates_[i * kDecided + waiting_[i]++] = t * kTilePoints + j;
                    if (waiting_[i] == kDecided) decide(i);
                }
        }
    }

    /// Adds the candidates of a row by their distances in float64.
    void decide(i64 i) {
        const i64* const candidates = candidates_.data() + i * kDecided;
        const int count = waiting_[i];
        if (count == 0) return;
        const double* const x = search_.row(indices_[i]);
        const double* z[kDecided];
        double squares[kDecided] = {};
        for (int c = 0; c < kDecided; ++c)
            z[c] = search_.points_.get() + candidates[c < count ? c : 0] * search_.d_;
        for (i64 k = 0; k < search_.d_; ++k)
            for (int c = 0; c < kDecided; ++c) squares[c] = add_square(squares[c], x[k] - z[c][k]);
        Found& row = found_[i];
        const double before = row.limit;
        for (int c = 0; c < count; ++c) row.add(distance_of(search_.metric_, squares[c]), candidates[c]);
        waiting_[i] = 0;
        if (row.limit != before) set_limit(i);
    }

    const ProductSearch& search_;
    std::vector<i64> indices_;
    FoundRows found_;
    Buffer<float> panels_;
    std::vector<double> squares_;
    std::vector<float> limits_;
    std::vector<i64> candidates_;
    std::vector<int> waiting_;
};

void ProductSearch::search(i64 first, i64 last, int threads, const Sought& sought,
                           const FoundTarget& target) const {
    search_tasks(first, last, threads, [&](i64 task) {
        const i64 begin = task * task_rows_;
        Task(*this, sought, target).run(begin, std::min(task_rows_, n_ - begin));
    });
}

}  // namespace bmrm
