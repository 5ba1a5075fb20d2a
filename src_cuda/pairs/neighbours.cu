// Neighbours of rows on a device; api/neighbours.h.
//
// The nearest are found in passes over more and more points. Each adds what is nearer than the limit of a
// row to its candidates; then the k nearest are kept, and the last of them is the limit of the next pass. The
// points come in an order that spreads the first of them over all, so that a pass adds about as many
// candidates as k times its points over those before; the passes are as long as there is room. A row that
// gets too many loses some: then, and for k beyond kMostKept, all its distances are sorted.
//
// With few axes, a tree of boxes leaves most points out, also of those within a radius (near_tree.cuh).
//
// With many axes, the passes take values from tensor cores instead of distances in float64, and keep what may
// be one of the k nearest (near_rounded.cuh). At last these are decided in float64. A row that has too many
// of them goes through the passes in float64.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

#include "api/neighbours.h"
#include "pairs/kernels/near_rounded.cuh"
#include "pairs/kernels/near_select.cuh"
#include "pairs/kernels/unit_rows.cuh"
#include "pairs/near_tree.h"
#include "rows/resident_rows.h"
#include "runtime/chain.cuh"
#include "runtime/device_sort.cuh"

using namespace bmrm;

namespace {

constexpr int64_t kMostKept = 2048;
constexpr int64_t kMinRoom = 256;
constexpr int64_t kBatchBytes = int64_t(128) << 20;  // of candidates, or of neighbours within a radius
constexpr int kMeasures = 3;
// From these sizes on tensor cores are faster than float64.
constexpr int64_t kMinRoundedAxes = 10, kMinRoundedRows = 16, kMinRoundedPoints = 256;
// Largest numbers for which squares are far from overflow and underflow in float64.
constexpr double kLeast = 0x1p-400, kMost = 0x1p400;
constexpr int kLargestPower = 13;      // of two, of the largest number in float16
constexpr int64_t kMinShareTiles = 8;  // of points per block

int64_t room_for(int64_t k) {
    int64_t room = kMinRoom;
    while (room < 3 * k) room *= 2;
    return room;
}

// Points that the next pass may look at. The number of candidates that it adds is at most x times their share
// of the points before, where x is more than a sum of k exponential variables but once in 10^8.
int64_t pass_points(int64_t k, int64_t room, int64_t before) {
    if (before == 0) return room;
    const double x = double(k) + 6 * std::sqrt(double(k)) + 20;
    return std::max<int64_t>(1, int64_t(double(before) * double(room - k) / x));
}

int64_t step_of(int64_t count) {
    int64_t step = std::max<int64_t>(1, int64_t(0.6180339887498949 * double(count)));
    while (std::gcd(step, count) != 1) step++;
    return step;
}

template <class Kernel>
struct OfMeasures {
    Kernel open[kMeasures], boxed[kMeasures];
};

#define BB_OF_MEASURES(kernel)                                                                               \
    {                                                                                                        \
        {kernel<Measure::squares, false>, kernel<Measure::sizes, false>, kernel<Measure::largest, false>}, { \
            kernel<Measure::squares, true>, kernel<Measure::sizes, true>, kernel<Measure::largest, true>     \
        }                                                                                                    \
    }

constexpr OfMeasures<decltype(&add_candidates<Measure::squares, false>)> kAdd =
    BB_OF_MEASURES(add_candidates);
constexpr OfMeasures<decltype(&count_within<Measure::squares, false>)> kCount = BB_OF_MEASURES(count_within);
constexpr OfMeasures<decltype(&fill_within<Measure::squares, false>)> kFill = BB_OF_MEASURES(fill_within);
constexpr OfMeasures<decltype(&measure_row<Measure::squares, false>)> kMeasureRow =
    BB_OF_MEASURES(measure_row);

}  // namespace

// The nearest of some rows.
struct Found {
    Found(Memory& memory, int64_t rows, int64_t k) : distances(memory, rows * k), indices(memory, rows * k) {}

    Array<double> distances;
    Array<int64_t> indices;
};

// Points rounded for the tensor cores, in the order of the passes.
struct Rounded {
    int chunks = 0;
    PointOrder order = {};
    Origin origin = {};
    FastError error = {};
    Array<double> shift;
    Array<__half> values;
    Array<float> halves;
    Array<WidestNorms> maximum;
};

struct bb_neighbours : Handle {
    bb_neighbours(const bb_device& device, const bb_neighbour_sides& sides)
        : Handle(device.id),
          device(device),
          first_(sides.first),
          metric_(Metric(sides.metric)),
          rows_(sides.rows),
          points_(sides.points) {
        const int64_t m = points_->rows.n;
        if (rows_->rows.d != points_->rows.d || m >= int64_t(1) << 31 || first_ < 0 || sides.count < 0 ||
            first_ + sides.count > rows_->rows.n || rows_->rows.n >= int64_t(1) << 32)
            throw Failure(BB_INVALID, "rows: out of range, or of another width than the points");
        std::vector<double> box(sides.box, sides.box + points_->rows.d);
        if (metric_ == Metric::cosine) divide();
        const int64_t d = points_->rows.d;
        box.resize(size_t(d));
        for (int64_t k = 0; k < d; k++) {
            box.push_back(box[size_t(k)] > 0 ? 1 / box[size_t(k)] : 0);
            is_periodic_ |= box[size_t(k)] > 0;
        }
        box_ = on_device(memory, box);
        sides_ = {where(*rows_), where(*points_),    d,     {box_.data(), box_.data() + d},
                  metric_,       sides.one_set != 0, {m, 1}};
    }

    void nearest(int64_t k, int64_t first, int64_t last, double* distances, int64_t* indices);
    void count(double radius, int64_t first, int64_t last, int64_t* counts);
    void fill(double radius, int64_t first, int64_t last, const int64_t* starts, double* distances,
              void* indices, bool narrow);

    const bb_device device;

  private:
    static NearRows where(const bb_dense_rows& rows) {
        NearRows found = {};
        rows.rows.with([&](auto* at) { found = {at, rows.rows.type == BB_FLOAT64}; });
        return found;
    }
    template <class Kernel>
    Kernel of(const OfMeasures<Kernel>& kernels) const {
        const int measure = int(measure_of(metric_));
        return is_periodic_ ? kernels.boxed[measure] : kernels.open[measure];
    }
    NextLaunch launch(dim3 blocks, int threads, int64_t shared = 0) const {
        return {blocks, threads, shared, memory.stream, false};
    }
    // Blocks of a launch over tiles of rows and points, or the other way round if a device has more of them.
    dim3 tiles(int64_t rows, int64_t points, bool shares) const {
        const int64_t down = (rows + kNearTile - 1) / kNearTile, most = (points + kNearTile - 1) / kNearTile;
        const int64_t wanted = 4 * device.multiprocessors / down;
        return dim3(unsigned(down),
                    shares ? unsigned(std::clamp<int64_t>(wanted, 1, std::min<int64_t>(most, 65535))) : 1);
    }
    NearBatch batch(int64_t first, int64_t count) const { return {nullptr, first_ + first, count}; }
    bool rounding_pays(int64_t rows) const {
        const int64_t m = sides_.order.count;
        return measure_of(metric_) == Measure::squares && !is_periodic_ && device.major >= 8 &&
               sides_.axes >= kMinRoundedAxes && rows >= kMinRoundedRows && m >= kMinRoundedPoints;
    }
    void divide();
    bool round();
    // The tree, if it pays for k neighbours of so many rows, or for all within a radius; made at its first
    // use.
    NearTree* tree(int64_t k, int64_t rows);
    void nearest_by_tree(int64_t k, int64_t first, int64_t last, double* distances, int64_t* indices);
    void find(int64_t k, const NearBatch& rows, const Candidates& candidates);
    void find_rounded(int64_t k, const NearBatch& rows, const Candidates& candidates);
    void keep(int64_t k, int64_t rows, const float* slacks, const Candidates& candidates);
    void sort_row(int64_t k, int64_t row, double* distances, int64_t* indices);
    // Copies what was found of some rows to the results on the host, and waits.
    void hand_over(int64_t k, int64_t first, int64_t count, const Found& found, double* distances,
                   int64_t* indices) const {
        const size_t bytes = size_t(count * k) * 8;
        const auto copy = [&](void* to, const void* from) {
            BB_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, memory.stream));
        };
        copy(distances + first * k, found.distances.data());
        copy(indices + first * k, found.indices.data());
        BB_CHECK(cudaStreamSynchronize(memory.stream));
    }

    const int64_t first_;
    const Metric metric_;
    bb_dense_rows *rows_, *points_;
    struct {
        Array<double> values;
        std::unique_ptr<bb_dense_rows> rows;
    } units_[2];  // of the rows and the points, if lengths do not count
    bool is_periodic_ = false;
    Array<double> box_;
    NearSides sides_ = {};
    std::unique_ptr<NearTree> tree_;  // of the points, from its first use on
    Rounded rounded_;
    Array<__half> row_values_;
    Array<RowNorms> row_norms_;
    Array<float> slacks_;
};

// Puts rows of length 1 in the place of those given; with a column more if one is of zeros.
void bb_neighbours::divide() {
    bb_dense_rows* const given[2] = {rows_, points_};
    const int sides = rows_ == points_ ? 1 : 2;
    Array<int> zeros(memory, 1);
    zeros.fill_bytes(0);
    for (int i = 0; i < sides; i++)
        given[i]->rows.with([&](auto* X) {
            using V = std::remove_const_t<std::remove_pointer_t<decltype(X)>>;
            const int64_t n = given[i]->rows.n;
            launch(blocks_for(32 * n), 256)(find_zero_rows<V>, X, n, given[i]->rows.d, zeros.data());
        });
    const int64_t d = points_->rows.d, width = d + zeros.at(0);
    for (int i = 0; i < sides; i++) {
        const int64_t n = given[i]->rows.n;
        units_[i].values = Array<double>(memory, n * width);
        double* const to = units_[i].values.data();
        given[i]->rows.with([&](auto* X) {
            using V = std::remove_const_t<std::remove_pointer_t<decltype(X)>>;
            launch(blocks_for(32 * n), 256)(divide_rows<V>, X, n, d, width, to);
        });
        units_[i].rows = std::make_unique<bb_dense_rows>(device, BB_FLOAT64, n, width, to, nullptr, 1);
    }
    rows_ = units_[0].rows.get();
    points_ = units_[sides - 1].rows.get();
}

// Rounds the points; false if numbers have no sizes for that.
bool bb_neighbours::round() {
    if (rounded_.values) return true;
    const int64_t m = sides_.order.count, d = sides_.axes;
    Rounded& to = rounded_;
    to.order = {m, step_of(m)};
    to.chunks = int((d + kChunkColumns - 1) / kChunkColumns);
    to.error = tensor_error(d, to.chunks);
    to.shift = Array<double>(memory, d);
    Array<unsigned long long> largest(memory, 1);
    largest.fill_bytes(0);
    const auto spread = [&](const bb_dense_rows& side) {
        side.rows.with([&](auto* X) {
            using V = std::remove_const_t<std::remove_pointer_t<decltype(X)>>;
            const int64_t size = side.rows.n * d;
            launch(std::min(blocks_for(size), unsigned(device.multiprocessors) * 8), 256)(
                find_largest_difference<V>, X, size, d, to.shift.data(), largest.data());
        });
    };
    points_->rows.with([&](auto* X) {
        using V = std::remove_const_t<std::remove_pointer_t<decltype(X)>>;
        launch(blocks_for(d, 32), 32)(sample_mean<V>, X, d, to.order, to.shift.data());
    });
    spread(*points_);
    if (rows_ != points_) spread(*rows_);
    const unsigned long long bits = largest.at(0);
    double most;
    std::memcpy(&most, &bits, sizeof most);
    if (!(most > kLeast && most < kMost)) return false;
    to.origin = {to.shift.data(), nullptr, std::ldexp(1.0, kLargestPower - std::ilogb(most)), {}};
    const int64_t padded = (m + kTensorPoints - 1) / kTensorPoints * kTensorPoints;
    to.halves = Array<float>(memory, padded);
    to.maximum = Array<WidestNorms>(memory, 1);
    to.maximum.fill_bytes(0);
    to.values = Array<__half>(memory, padded * to.chunks * kChunkColumns);
    points_->rows.with([&](auto* X) {
        using V = std::remove_const_t<std::remove_pointer_t<decltype(X)>>;
        launch(blocks_for(32 * padded), 256)(
            round_rows<V, PointOrder>, X, m, padded, d, to.origin, to.chunks, to.order,
            RoundedRows{to.values.data(), nullptr, to.halves.data(), to.maximum.data()});
    });
    return true;
}

void bb_neighbours::keep(int64_t k, int64_t rows, const float* slacks, const Candidates& candidates) {
    const int64_t shared = candidates.room * kCandidateBytes;
    allow_shared(keep_nearest, shared);
    launch(unsigned(std::min<int64_t>(rows, 1 << 20)), kSelectThreads, shared)(keep_nearest, rows, int(k),
                                                                               slacks, candidates);
}

// As `find`, by tensor cores; of rows that follow one another.
void bb_neighbours::find_rounded(int64_t k, const NearBatch& rows, const Candidates& candidates) {
    const int64_t m = sides_.order.count, d = sides_.axes, width = int64_t(rounded_.chunks) * kChunkColumns;
    const int64_t tiles = (rows.count + kTensorRows - 1) / kTensorRows;
    reserve(memory, row_values_, tiles * kTensorRows * width);
    reserve(memory, row_norms_, tiles * kTensorRows);
    reserve(memory, slacks_, rows.count);
    rows_->rows.with([&](auto* X) {
        using V = std::remove_const_t<std::remove_pointer_t<decltype(X)>>;
        launch(blocks_for(32 * tiles * kTensorRows), 256)(
            round_rows<V, InOrder>, X + rows.first * d, rows.count, tiles * kTensorRows, d, rounded_.origin,
            rounded_.chunks, InOrder(), RoundedRows{row_values_.data(), row_norms_.data(), nullptr, nullptr});
    });
    const bool keeps = rounded_.chunks <= kKeptChunks;
    const int64_t bytes = tensor_bytes(keeps, rounded_.chunks);
    const auto add = keeps ? add_rounded<true> : add_rounded<false>;
    allow_shared(add, bytes);
    RoundedPass pass = {reinterpret_cast<const uint4*>(row_values_.data()),
                        reinterpret_cast<const uint4*>(rounded_.values.data()),
                        rounded_.halves.data(),
                        rounded_.chunks,
                        0,
                        0,
                        rounded_.order,
                        rows,
                        sides_.one_set,
                        candidates};
    while (pass.last < m) {
        const int64_t most = pass_points(k, candidates.room, pass.last) / kTensorPoints * kTensorPoints;
        pass.first = pass.last;
        pass.last = std::min(m, pass.first + std::max<int64_t>(kTensorPoints, most));
        if (pass.first == 0)
            launch(blocks_for(rows.count), 256)(begin_rounded, rows.count, d, uint32_t(pass.last),
                                                rounded_.error, row_norms_.data(), rounded_.maximum.data(),
                                                candidates, slacks_.data());
        const int64_t point_tiles = (pass.last - pass.first + kTensorPoints - 1) / kTensorPoints;
        const int64_t wanted = std::max<int64_t>(16 * device.multiprocessors / tiles, 1);
        const int64_t shares = std::min(wanted, std::max<int64_t>(1, point_tiles / kMinShareTiles));
        launch(dim3(unsigned(tiles), unsigned(shares)), kTensorThreads, bytes)(add, pass);
        keep(k, rows.count, slacks_.data(), candidates);
    }
    launch(blocks_for(32 * rows.count), 256)(measure_candidates<Measure::squares, false>, sides_, rows,
                                             candidates);
    keep(k, rows.count, nullptr, candidates);
}

// Finds the k nearest of each row, or too many candidates.
void bb_neighbours::find(int64_t k, const NearBatch& rows, const Candidates& candidates) {
    const int64_t m = sides_.order.count;
    NearSides spread = sides_;
    spread.order.step = step_of(m);
    launch(blocks_for(rows.count), 256)(begin_candidates, rows.count, candidates);
    for (int64_t seen = 0, next; seen < m; seen = next) {
        next = std::min(m, seen + pass_points(k, candidates.room, seen));
        launch(tiles(rows.count, next - seen, true), kNearThreads)(of(kAdd), spread, rows, seen, next,
                                                                   candidates);
        keep(k, rows.count, nullptr, candidates);
    }
}

void bb_neighbours::sort_row(int64_t k, int64_t row, double* distances, int64_t* indices) {
    Array<uint64_t> keys(memory, sides_.order.count);
    launch(blocks_for(keys.size(), kNearThreads), kNearThreads)(of(kMeasureRow), sides_, row, keys.data());
    const Array<uint32_t> points = sort_with_positions(memory, keys, ~uint64_t(0));
    launch(blocks_for(k), 256)(write_sorted, int(k), keys.data(), points.data(), distances, indices);
}

NearTree* bb_neighbours::tree(int64_t k, int64_t rows) {
    if (is_periodic_ || sides_.axes > NearTree::kMostAxes || k > NearTree::kMostNeighbours) return nullptr;
    if (!tree_ && rows >= NearTree::kMinRows && sides_.order.count >= NearTree::kMinPoints)
        tree_ = std::make_unique<NearTree>(memory, *points_);
    return tree_.get();
}

void bb_neighbours::nearest_by_tree(int64_t k, int64_t first, int64_t last, double* distances,
                                    int64_t* indices) {
    const int64_t size = std::min<int64_t>(kBatchBytes / (16 * k), last - first);
    const Found found(memory, size, k);
    for (int64_t begin = first; begin < last; begin += size) {
        const int64_t count = std::min(size, last - begin);
        tree_->search(sides_, *rows_, first_ + begin, count, k, found.distances.data(), found.indices.data());
        hand_over(k, begin, count, found, distances, indices);
    }
}

void bb_neighbours::nearest(int64_t k, int64_t first, int64_t last, double* distances, int64_t* indices) {
    if (tree(k, last - first)) return nearest_by_tree(k, first, last, distances, indices);
    const bool kept = k <= kMostKept;
    const int64_t room = kept ? room_for(k) : 0, each = room * kCandidateBytes + 16 * k;
    const int64_t size = std::clamp<int64_t>(kBatchBytes / each, 1, std::max<int64_t>(1, last - first));
    const Found found(memory, size, k);
    Array<double> of_rows(memory, size * room);
    Array<uint32_t> numbers(memory, size * room), counts(memory, size), crowded(memory, size),
        listed(memory, size);
    Array<NearLimit> limits(memory, size);
    Array<unsigned> crowd(memory, 1);
    const Candidates candidates = {of_rows.data(), numbers.data(), counts.data(), limits.data(), int(room)};
    bool rounds = kept && rounding_pays(last - first) && round();
    // Writes what was found of some rows; returns those that have lost candidates.
    const auto write = [&](const NearBatch& some, int64_t first_row) {
        crowd.fill_bytes(0);
        launch(blocks_for(some.count * k), 256)(write_nearest, some, first_row, int(k), candidates,
                                                found.distances.data(), found.indices.data(),
                                                Crowded{crowded.data(), crowd.data()});
        return int64_t(crowd.at(0));
    };
    for (int64_t begin = first; begin < last; begin += size) {
        const NearBatch rows = batch(begin, std::min(size, last - begin));
        std::vector<uint32_t> rest(size_t(kept ? 0 : rows.count));
        std::iota(rest.begin(), rest.end(), uint32_t(rows.first));
        if (kept) {
            NearBatch some = rows;
            if (rounds) {
                find_rounded(k, rows, candidates);
                some.count = write(rows, rows.first);
                some.list = crowded.data();
                rounds = some.count <= rows.count / 2;  // else there may be as many in the next batch
            }
            if (some.count > 0) {
                find(k, some, candidates);
                std::swap(crowded, listed);
                some.list = some.list ? listed.data() : nullptr;
                rest.resize(size_t(write(some, rows.first)));
                if (!rest.empty())
                    BB_CHECK(cudaMemcpyAsync(rest.data(), crowded.data(), rest.size() * 4, cudaMemcpyDefault,
                                             memory.stream));
                BB_CHECK(cudaStreamSynchronize(memory.stream));
            }
        }
        for (const uint32_t row : rest) {
            const int64_t to = (int64_t(row) - rows.first) * k;
            sort_row(k, row, found.distances.data() + to, found.indices.data() + to);
        }
        hand_over(k, begin, rows.count, found, distances, indices);
    }
}

void bb_neighbours::count(double radius, int64_t first, int64_t last, int64_t* counts) {
    const int64_t rows = last - first;
    Array<unsigned long long> found(memory, rows);
    const double limit = last_measured(metric_, radius);
    if (NearTree* const by_tree = tree(1, rows)) {
        by_tree->count(sides_, *rows_, first_ + first, rows, limit, found.data());
    } else {
        found.fill_bytes(0);
        launch(tiles(rows, sides_.order.count, true), kNearThreads)(of(kCount), sides_, batch(first, rows),
                                                                    limit, found.data());
    }
    BB_CHECK(
        cudaMemcpyAsync(counts + first, found.data(), size_t(rows) * 8, cudaMemcpyDefault, memory.stream));
    BB_CHECK(cudaStreamSynchronize(memory.stream));
}

void bb_neighbours::fill(double radius, int64_t first, int64_t last, const int64_t* starts, double* distances,
                         void* indices, bool narrow) {
    NearTree* const by_tree = tree(1, last - first);
    const int64_t each = 8 + (narrow ? 4 : 8);
    const int64_t most = kBatchBytes / (each + (by_tree ? NearTree::kListBytes : 0));
    const double limit = last_measured(metric_, radius);
    Array<double> found;
    Array<unsigned char> numbers;
    for (int64_t begin = first, end; begin < last; begin = end) {
        end = std::upper_bound(starts + begin + 1, starts + last, starts[begin] + most) - starts;
        end = std::max(begin + 1, starts[end] - starts[begin] > most ? end - 1 : end);
        const int64_t rows = end - begin, size = starts[end] - starts[begin];
        if (size == 0) continue;
        reserve(memory, found, size);
        reserve(memory, numbers, size * (each - 8));
        Array<int64_t> of_rows(memory, rows + 1);
        of_rows.from_host(starts + begin, rows + 1);
        const NearLists to = {of_rows.data(), found.data(),
                              narrow ? nullptr : reinterpret_cast<int64_t*>(numbers.data()),
                              narrow ? reinterpret_cast<int32_t*>(numbers.data()) : nullptr};
        if (by_tree)
            by_tree->list(sides_, *rows_, first_ + begin, rows, limit, size, to);
        else
            launch(tiles(rows, sides_.order.count, false), kNearThreads)(of(kFill), sides_,
                                                                         batch(begin, rows), limit, to);
        BB_CHECK(cudaMemcpyAsync(distances + starts[begin], found.data(), size_t(size) * 8, cudaMemcpyDefault,
                                 memory.stream));
        BB_CHECK(cudaMemcpyAsync(static_cast<unsigned char*>(indices) + starts[begin] * (each - 8),
                                 numbers.data(), size_t(size * (each - 8)), cudaMemcpyDefault,
                                 memory.stream));
        BB_CHECK(cudaStreamSynchronize(memory.stream));
    }
}

extern "C" {

bb_status bb_neighbours_create(const bb_device* device, const bb_neighbour_sides* sides,
                               bb_neighbours** out) {
    return guarded([&] {
        const OnDevice scope(device->id);
        *out = new bb_neighbours(*device, *sides);
    });
}

void bb_neighbours_destroy(bb_neighbours* search) { destroy_handle(search); }

bb_status bb_neighbours_nearest(bb_neighbours* search, int64_t k, int64_t first, int64_t last,
                                double* distances, int64_t* indices) {
    return on_handle(search, [&](bb_neighbours& held) { held.nearest(k, first, last, distances, indices); });
}

bb_status bb_neighbours_count(bb_neighbours* search, double radius, int64_t first, int64_t last,
                              int64_t* counts) {
    return on_handle(search, [&](bb_neighbours& held) { held.count(radius, first, last, counts); });
}

bb_status bb_neighbours_fill(bb_neighbours* search, double radius, int64_t first, int64_t last,
                             const int64_t* starts, double* distances, void* indices, int32_t narrow) {
    return on_handle(search, [&](bb_neighbours& held) {
        held.fill(radius, first, last, starts, distances, indices, narrow);
    });
}

}  // extern "C"
