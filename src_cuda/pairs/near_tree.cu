// Trees of boxes; near_tree.h.
#include <type_traits>

#include "pairs/near_tree.h"
#include "runtime/device_sort.cuh"

namespace bmrm {

namespace {

constexpr int kNarrow = 3;  // axes of the kernels that are compiled for fewer than kMostAxes

// Rows from `first` on, by axis, in float64.
Array<double> by_axis(Memory& memory, const bb_dense_rows& rows, int64_t first, int64_t count) {
    const int64_t d = rows.rows.d;
    Array<double> found(memory, count * d);
    rows.rows.with([&](auto* X) {
        using V = std::remove_const_t<std::remove_pointer_t<decltype(X)>>;
        const NextLaunch launch(blocks_for(count * d), 256, 0, memory.stream, false);
        launch(turn_points<V>, X + first * d, count, int(d), d, int64_t(1), found.data());
    });
    return found;
}

}  // namespace

NearTree::NearTree(Memory& memory, const bb_dense_rows& points)
    : memory_(memory), axes_(int(points.rows.d)), width_(axes_ <= kNarrow ? kNarrow : int(kMostAxes)) {
    const int64_t n = points.rows.n;
    const Array<double> given = by_axis(memory, points, 0, n);
    at_ = Array<double>(memory, n * width_);
    at_.fill_bytes(0);
    BB_CHECK(cudaMemcpyAsync(at_.data(), given.data(), size_t(given.size()) * 8, cudaMemcpyDefault,
                             memory.stream));
    view_.points = {at_.data(), at_.data(), n};
    bound();
    const std::vector<double> extents = boxes_.back().to_host(), open(size_t(axes_), 0.0);
    range_ = CurveRange(axes_, extents.data(), extents.data() + width_, open.data());
    numbers_ = along_curve(memory, {given.data(), n, axes_}, {nullptr, nullptr}, range_);
    launch(blocks_for(given.size()), 256)(gather_points<double>, given.data(), numbers_.data(), n, axes_,
                                          at_.data());
    view_.numbers = numbers_.data();
    bound();
}

NextLaunch NearTree::launch(int64_t blocks, int threads, int64_t shared) const {
    return {unsigned(blocks), threads, shared, memory_.stream, false};
}

// Sets the boxes of all levels.
void NearTree::bound() {
    TreeBoxes below = view_.points;
    view_.depth = 0;
    do {
        const int64_t nodes = (below.count + 31) / 32;
        if (size_t(view_.depth) == boxes_.size()) boxes_.emplace_back(memory_, 2 * nodes * width_);
        double* const low = boxes_[size_t(view_.depth)].data();
        launch(blocks_for(32 * nodes), 256)(bound_nodes, below, width_, nodes, low, low + nodes * width_);
        below = view_.levels[view_.depth++] = {low, low + nodes * width_, nodes};
    } while (below.count > 1);
}

template <class Use>
void NearTree::visit(const NearSides& sides, const bb_dense_rows& rows, int64_t first, int64_t count,
                     const Use& use) const {
    const Array<double> given = by_axis(memory_, rows, first, count);
    const Array<uint32_t> order =
        along_curve(memory_, {given.data(), count, axes_}, {nullptr, nullptr}, range_);
    const TreeRows some = {first, count, order.data()};
    const auto with_axes = [&](auto measure) {
        if (width_ == kNarrow) return use(measure, std::integral_constant<int, kNarrow>(), some);
        use(measure, std::integral_constant<int, int(kMostAxes)>(), some);
    };
    switch (measure_of(sides.metric)) {
        case Measure::sizes:
            return with_axes(std::integral_constant<Measure, Measure::sizes>());
        case Measure::largest:
            return with_axes(std::integral_constant<Measure, Measure::largest>());
        default:
            return with_axes(std::integral_constant<Measure, Measure::squares>());
    }
}

void NearTree::search(const NearSides& sides, const bb_dense_rows& rows, int64_t first, int64_t count,
                      int64_t k, double* distances, int64_t* indices) {
    visit(sides, rows, first, count, [&](auto measure, auto axes, const TreeRows& some) {
        const auto kernel = search_tree<measure.value, axes.value>;
        const int64_t shared = kTreeStackBytes + k * kTreeNeighbourBytes;
        allow_shared(kernel, shared);
        launch((count + 31) / 32, 32, shared)(kernel, view_, sides, some, int(k), distances, indices);
    });
}

void NearTree::count(const NearSides& sides, const bb_dense_rows& rows, int64_t first, int64_t count,
                     double most, unsigned long long* counts) {
    visit(sides, rows, first, count, [&](auto measure, auto axes, const TreeRows& some) {
        launch((count + 31) / 32, 32, kTreeStackBytes)(count_in_tree<measure.value, axes.value>, view_, sides,
                                                       some, most, counts);
    });
}

void NearTree::list(const NearSides& sides, const bb_dense_rows& rows, int64_t first, int64_t count,
                    double most, int64_t size, const NearLists& to) {
    Array<uint64_t> keys(memory_, size);
    const Array<double> distances(memory_, size);
    const TreeLists lists = {to.starts, keys.data(), distances.data()};
    visit(sides, rows, first, count, [&](auto measure, auto axes, const TreeRows& some) {
        launch((count + 31) / 32, 32, kTreeStackBytes)(list_in_tree<measure.value, axes.value>, view_, sides,
                                                       some, most, lists);
    });
    const Array<uint32_t> from = sort_with_positions(memory_, keys, uint64_t(count) << 32);
    launch(blocks_for(size), 256)(write_lists, size, TreeLists{to.starts, keys.data(), distances.data()},
                                  from.data(), to);
}

}  // namespace bmrm
