// Neighbours of few axes by a tree of boxes: a warp per group of 32 rows that are near each other.
//
// Points are sorted along a curve. A leaf has 32 of them, a node of another level 32 of the level below, and
// each has a box. A warp descends with all of its rows: a lane looks at one of the 32 children, leaves it out
// if it is too far from the box around the rows, and says how far it is from one of them; those that are near
// come first. Before a child is opened, each lane measures it from its own row.
//
// A box is never left out wrongly, and no bound is needed: what a row and a box measure takes the operations
// of a pair, and each of them, rounded, does not decrease with its arguments. So no point of the box measures
// less. A row keeps its k nearest in order in shared memory, where only its lane looks.
#pragma once
#include "pairs/kernels/near_tiles.cuh"
#include "runtime/dynamic_shared.cuh"

namespace bmrm {

constexpr int kTreeLevels = 7;  // of 32 nodes each: there are fewer than 2^31 points
constexpr int64_t kTreeNeighbourBytes = 32 * 12, kTreeStackBytes = kTreeLevels * 32 * 12;

// Boxes of the nodes of a level, by axis; points are boxes too.
struct TreeBoxes {
    const double *low, *high;  // (axes, count)
    int64_t count;
};

struct TreeView {
    TreeBoxes points;               // in the order of the curve
    const uint32_t* numbers;        // of the points
    TreeBoxes levels[kTreeLevels];  // the leaves first; the last one has one node
    int depth;                      // levels
};

// Some rows that follow one another, in the order of the curve.
struct TreeRows {
    int64_t first, count;
    const uint32_t* order;
};

// Sets the boxes of nodes from those of their children; a warp per node.
static __global__ void __launch_bounds__(256)
    bound_nodes(const TreeBoxes below, int axes, int64_t nodes, double* low, double* high) {
    const int64_t warps = int64_t(gridDim.x) * blockDim.x / 32;
    for (int64_t i = (int64_t(blockIdx.x) * blockDim.x + threadIdx.x) / 32; i < nodes; i += warps) {
        const int64_t child = i * 32 + threadIdx.x % 32;
        for (int k = 0; k < axes; k++) {
            const bool is_there = child < below.count;
            const int64_t at = k * below.count + child;
            const double least = over_warp<Least>(is_there ? below.low[at] : INF);
            const double most = over_warp<Greatest>(is_there ? below.high[at] : -INF);
            if (threadIdx.x % 32 == 0) low[k * nodes + i] = least, high[k * nodes + i] = most;
        }
    }
}

// The least that points of two boxes may measure.
template <Measure MEASURE, int AXES>
__device__ __forceinline__ double measure_gap(const double (&low)[AXES], const double (&high)[AXES],
                                              const TreeBoxes& boxes, int64_t node) {
    double measured = 0;
#pragma unroll
    for (int k = 0; k < AXES; k++) {
        const double above = exact::difference(boxes.low[k * boxes.count + node], high[k]);
        const double below = exact::difference(low[k], boxes.high[k * boxes.count + node]);
        add_axis<MEASURE>(measured, fmax(fmax(above, below), 0.0));
    }
    return measured;
}

// The k nearest so far of the row of a lane, in order.
struct TreeNearest {
    double* distances;  // of 32 rows
    uint32_t* points;
    int k;

    __device__ __forceinline__ void clear() {
        for (int i = 0; i < k; i++) distances[i * 32] = INF, points[i * 32] = ~0u;
    }
    // Returns whether the point is one of them.
    __device__ __forceinline__ bool add(double distance, uint32_t point) {
        int i = k - 1;
        if (!is_nearer(distance, point, distances[i * 32], points[i * 32])) return false;
        for (; i > 0 && is_nearer(distance, point, distances[(i - 1) * 32], points[(i - 1) * 32]); i--)
            distances[i * 32] = distances[(i - 1) * 32], points[i * 32] = points[(i - 1) * 32];
        distances[i * 32] = distance, points[i * 32] = point;
        return true;
    }
    __device__ __forceinline__ double last() const { return distances[(k - 1) * 32]; }
};

// The coordinates of a row; the tree has axes of zeros after those of the sides, up to AXES.
template <int AXES>
__device__ __forceinline__ void read_row(const NearSides& s, int64_t row, double (&x)[AXES]) {
#pragma unroll
    for (int a = 0; a < AXES; a++) x[a] = a < s.axes ? s.rows(row * s.axes + a) : 0;
}

// What a lane knows of the children that are left of each level.
struct TreeStack {
    double* gaps;
    uint32_t* turns;  // how far, and which
};

// The stack of a lane where nothing else is in shared memory.
__device__ __forceinline__ TreeStack lane_stack() {
    double* const shared = dynamic_shared<double>();
    return {shared + threadIdx.x, reinterpret_cast<uint32_t*>(shared + kTreeLevels * 32) + threadIdx.x};
}

// Calls use(measured, place) for the points that measure at most `most` to the row of a lane, which may
// become less by it; all lanes of a warp call it together.
template <Measure MEASURE, int AXES, class Use>
__device__ __forceinline__ void walk_tree(const TreeView& tree, const double (&x)[AXES],
                                          const TreeStack& stack, const double& most, const Use& use) {
    const int lane = int(threadIdx.x);
    double low[AXES], high[AXES], middle[AXES];
#pragma unroll
    for (int a = 0; a < AXES; a++) {
        low[a] = over_warp<Least>(x[a]);
        high[a] = over_warp<Greatest>(x[a]);
        middle[a] = __shfl_sync(kAllLanes, x[a], 16);
    }
    const auto open = [&](int level, int64_t first) {
        const TreeBoxes& boxes = tree.levels[level];
        const bool is_there = first + lane < boxes.count;
        const int64_t child = is_there ? first + lane : first;
        stack.gaps[level * 32] = measure_gap<MEASURE>(low, high, boxes, child);
        const float far = float(measure_gap<MEASURE>(middle, middle, boxes, child));
        stack.turns[level * 32] = is_there ? (__float_as_uint(far) & ~31u) | uint32_t(lane) : ~0u;
    };
    const auto look_at = [&](int64_t leaf) {
        const int64_t end = min(leaf * 32 + 32, tree.points.count);
        for (int64_t p = leaf * 32; p < end; p++) {
            double measured = 0;
#pragma unroll
            for (int a = 0; a < AXES; a++)
                add_axis<MEASURE>(measured,
                                  exact::difference(x[a], tree.points.low[a * tree.points.count + p]));
            if (!(measured > most)) use(measured, p);
        }
        __syncwarp();
    };
    int level = tree.depth - 1;
    int64_t first = 0;  // of the children
    open(level, first);
    while (true) {
        const double widest = over_warp<Greatest>(most);
        uint32_t turn = stack.gaps[level * 32] > widest ? ~0u : stack.turns[level * 32];
        turn = over_warp<Least>(turn);
        if (turn == ~0u) {
            if (++level == tree.depth) break;
            first = first / 1024 * 32;
            continue;
        }
        const int child = int(turn % 32);
        if (lane == child) stack.turns[level * 32] = ~0u;
        const int64_t node = first + child;
        const bool reaches = !(measure_gap<MEASURE>(x, x, tree.levels[level], node) > most);
        if (!__ballot_sync(kAllLanes, reaches)) continue;
        if (level == 0) {
            look_at(node);
            continue;
        }
        first = node * 32;
        open(--level, first);
    }
}

// Writes the k nearest of each row.
template <Measure MEASURE, int AXES>
__global__ void __launch_bounds__(32)
    search_tree(const __grid_constant__ TreeView tree, const NearSides s, const TreeRows rows, int k,
                double* distances, int64_t* indices) {
    const int lane = int(threadIdx.x);
    const int64_t place = int64_t(blockIdx.x) * 32 + lane;
    const int64_t at = rows.order[min(place, rows.count - 1)], row = rows.first + at;
    double* const shared = dynamic_shared<double>();
    uint32_t* const words = reinterpret_cast<uint32_t*>(shared + int64_t(k + kTreeLevels) * 32) + lane;
    const TreeStack stack = {shared + int64_t(k) * 32 + lane, words + int64_t(k) * 32};
    TreeNearest nearest = {shared + lane, words, k};
    nearest.clear();
    double x[AXES], most = INF;  // that a point may measure
    read_row(s, row, x);
    walk_tree<MEASURE>(tree, x, stack, most, [&](double measured, int64_t p) {
        const uint32_t point = tree.numbers[p];
        if (!s.is_own(row, point) && nearest.add(distance_of(s.metric, measured), point))
            most = most_measured(s.metric, nearest.last());
    });
    if (place >= rows.count) return;
    for (int i = 0; i < k; i++) {
        distances[at * k + i] = nearest.distances[i * 32];
        indices[at * k + i] = nearest.points[i * 32];
    }
}

// Counts the points that measure at most `most` to each row.
template <Measure MEASURE, int AXES>
__global__ void __launch_bounds__(32)
    count_in_tree(const __grid_constant__ TreeView tree, const NearSides s, const TreeRows rows, double most,
                  unsigned long long* counts) {
    const int64_t place = int64_t(blockIdx.x) * 32 + threadIdx.x;
    const int64_t at = rows.order[min(place, rows.count - 1)], row = rows.first + at;
    double x[AXES];
    read_row(s, row, x);
    unsigned long long count = 0;
    walk_tree<MEASURE>(tree, x, lane_stack(), most,
                       [&](double, int64_t p) { count += !s.one_set || !s.is_own(row, tree.numbers[p]); });
    if (place < rows.count) counts[at] = count;
}

// Neighbours in the order in which they were found, those of row i from starts[i] - starts[0] on. A key is
// the row and the point: in the order of the keys they are in the order of the results.
struct TreeLists {
    const int64_t* starts;
    uint64_t* keys;
    double* distances;
};

// Lists the points that measure at most `most` to each row.
template <Measure MEASURE, int AXES>
__global__ void __launch_bounds__(32) list_in_tree(const __grid_constant__ TreeView tree, const NearSides s,
                                                   const TreeRows rows, double most, const TreeLists to) {
    const int64_t place = int64_t(blockIdx.x) * 32 + threadIdx.x;
    const int64_t at = rows.order[min(place, rows.count - 1)], row = rows.first + at;
    double x[AXES];
    read_row(s, row, x);
    int64_t next = to.starts[at] - to.starts[0];
    // Of points that have changed since they were counted some are left out.
    const int64_t end = place < rows.count ? to.starts[at + 1] - to.starts[0] : next;
    walk_tree<MEASURE>(tree, x, lane_stack(), most, [&](double measured, int64_t p) {
        const uint32_t point = tree.numbers[p];
        if (next == end || s.is_own(row, point)) return;
        to.keys[next] = uint64_t(at) << 32 | point;
        to.distances[next++] = distance_of(s.metric, measured);
    });
}

// Writes lists whose keys were sorted; from: where they were.
static __global__ void write_lists(int64_t count, const TreeLists lists, const uint32_t* from,
                                   const NearLists to) {
    BB_FOR (i, count) {
        to.distances[i] = lists.distances[from[i]];
        if (to.narrow)
            to.narrow[i] = int32_t(uint32_t(lists.keys[i]));
        else
            to.indices[i] = uint32_t(lists.keys[i]);
    }
}

}  // namespace bmrm
