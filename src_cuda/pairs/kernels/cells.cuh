// Counts over neighbouring cells, for one to three axes.
//
// Coordinates are whole numbers of 32 bits: parts of the length of a periodic axis, whose differences wrap to
// the nearest image by themselves, or parts of twice the extent of an open one.  They are off by a fixed
// share of the axis, wherever a point is, so one bound of the error of a distance holds for all pairs.  A
// cell is at least half of the reach wide, so that pairs within reach are at most two cells apart on an axis;
// a periodic axis has at least five cells, or is one.  Points are sorted by cell, x fastest: the neighbours
// of a cell are runs of points, one per row of cells.
//
// A thread has one row, or a share of its columns if there are few rows.  Lanes have neighbouring rows, which
// read nearly the same columns.  Candidates beyond the reach are dropped as soon as their distance is known:
// they take 30 instructions, others about 43 (sm_90, nvcc 13.0, 64 registers).
#pragma once
#include "device/rows.cuh"
#include "pairs/kernels/bins.cuh"
#include "pairs/kernels/exact.cuh"
#include "pairs/kernels/tables.cuh"
#include "runtime/dynamic_shared.cuh"

namespace bmrm {

constexpr int kCellAxes = 3;
constexpr int kCellThreads = 256;
constexpr int kReachCells = 2;  // cells on either side that the reach spans

struct CellGrid {
    double origin[kCellAxes], steps[kCellAxes];  // a coordinate is (x - origin) steps, as a whole number
    uint32_t cells[kCellAxes];
    int bits[kCellAxes];       // of a whole coordinate: 32 of a periodic axis, 31 of an open one
    float squares[kCellAxes];  // what the square of a difference is in squared bins

    __host__ __device__ bool periodic(int k) const { return bits[k] == 32; }
    __host__ __device__ int64_t count() const { return int64_t(cells[0]) * cells[1] * cells[2]; }
    __device__ uint32_t cell_of(uint32_t x, int k) const {
        return uint32_t(uint64_t(x) * cells[k] >> bits[k]);
    }
    __device__ uint32_t number(const uint32_t (&cell)[kCellAxes]) const {
        return (cell[2] * cells[1] + cell[1]) * cells[0] + cell[0];
    }
};

// A point on the grid.
struct alignas(16) GridPoint {
    uint32_t at[kCellAxes], cell;
};

// Sets the points on the grid, and their cells.
__global__ void place_in_cells(ExactPoints points, Box box, CellGrid grid, GridPoint* placed,
                               uint32_t* cells) {
    BB_FOR (i, points.n) {
        GridPoint point = {};
        uint32_t cell[kCellAxes] = {};
        for (int k = 0; k < points.axes; k++) {
            const double x = in_box(points.at[k * points.n + i], box.length[k], box.inverse[k]);
            const double there = rint((x - grid.origin[k]) * grid.steps[k]);
            // What rounds to the end of a periodic axis is its beginning.
            point.at[k] = uint32_t(uint64_t(int64_t(there)));
            cell[k] = grid.cell_of(point.at[k], k);
        }
        cells[i] = point.cell = grid.number(cell);
        placed[i] = point;
    }
}

// The neighbour of a cell on an axis, or -1 if there is none.
__device__ __forceinline__ int beside(const CellGrid& grid, int k, int cell, int apart) {
    const int cells = int(grid.cells[k]), to = cell + apart;
    if (to >= 0 && to < cells) return to;
    return grid.periodic(k) ? (to < 0 ? to + cells : to - cells) : -1;
}

__device__ __forceinline__ int span_of(const CellGrid& grid, int k) {
    return grid.cells[k] > 1 ? kReachCells : 0;
}

// Calls use(first, last) for the runs of points in which are the columns of a row: of one set those after it,
// in half of the directions.  A run that reaches beyond a periodic axis has a second part.
template <class Use>
__device__ __forceinline__ void for_each_run(const CellGrid& grid, const uint32_t* starts, bool one_set,
                                             uint32_t cell, uint32_t row, const Use& use) {
    const int cells = int(grid.cells[0]), x = int(cell % grid.cells[0]);
    const int y = int(cell / grid.cells[0] % grid.cells[1]), z = int(cell / grid.cells[0] / grid.cells[1]);
    const int high = x + span_of(grid, 0);
#pragma unroll 1
    for (int dz = one_set ? 0 : -span_of(grid, 2); dz <= span_of(grid, 2); dz++) {
        const int other_z = beside(grid, 2, z, dz);
        if (other_z < 0) continue;
#pragma unroll 1
        for (int dy = one_set && dz == 0 ? 0 : -span_of(grid, 1); dy <= span_of(grid, 1); dy++) {
            const int other_y = beside(grid, 1, y, dy);
            if (other_y < 0) continue;
            const uint32_t* const of =
                starts + (uint32_t(other_z) * grid.cells[1] + uint32_t(other_y)) * grid.cells[0];
            const bool own = one_set && dz == 0 && dy == 0;
            const int low = own ? x : x - span_of(grid, 0);
            const bool wraps = grid.periodic(0) && (low < 0 || high >= cells);
#pragma unroll 1
            for (int part = 0; part <= int(wraps); part++) {
                const int first = part == 0 ? max(low, 0) : low < 0 ? low + cells : 0;
                const int last = part == 0 ? min(high, cells - 1) : low < 0 ? cells - 1 : high - cells;
                use(own && part == 0 ? row + 1 : of[first], of[last + 1]);
            }
        }
    }
}

// Sets the number of candidates of each row.
__global__ void count_candidates(CellGrid grid, const GridPoint* rows, int64_t n, const uint32_t* starts,
                                 bool one_set, int64_t* counts) {
    BB_FOR (i, n) {
        int64_t sum = 0;
        for_each_run(grid, starts, one_set, rows[i].cell, uint32_t(i),
                     [&](uint32_t first, uint32_t last) { sum += last - first; });
        counts[i] = sum;
    }
}

// Sets where tasks begin: the first row whose candidates end beyond as many times `size`.
__global__ void divide_rows(const int64_t* offsets, int64_t n, int64_t size, int64_t tasks, int64_t* first) {
    BB_FOR (t, tasks + 1) {
        int64_t low = 0, high = n;
        while (low < high) {
            const int64_t middle = (low + high) / 2;
            if (offsets[middle] < t * size)
                low = middle + 1;
            else
                high = middle;
        }
        first[t] = t == tasks ? n : low;
    }
}

struct CellSets {
    const GridPoint *rows, *columns;
    ExactPoints a, b;  // in the order of the cells
    const uint32_t* starts;
    CellGrid grid;
    Box box;
    Bounds bounds;
    bool one_set;
    float reach;      // squared distance beyond which a pair is in no bin, with its error
    float threshold;  // of doubt
};

struct CellLaunch {
    int64_t first, last;  // rows
    int shares;           // threads per row
    unsigned long long* state;
    Totals totals;
};

// The squared distance on the grid, and never 0.  A point is read in one load.
__device__ __forceinline__ float grid_distance(const GridPoint& a, const GridPoint* at,
                                               const CellGrid& grid) {
    const auto b = read_unwritten<uint32_t, 4>(at->at);
    float sum = kLeastSquare;
#pragma unroll
    for (int k = 0; k < kCellAxes; k++) {
        const float d = float(int32_t(a.at[k] - b.values[k]));
        sum = fmaf(d * d, grid.squares[k], sum);
    }
    return sum;
}

template <class Bins>
__global__ void __launch_bounds__(kCellThreads)
    count_cells(const CellSets sets, const CellLaunch launch, Bins bins) {
    unsigned char* const shared = dynamic_shared<unsigned char>();
    Table<false> table(reinterpret_cast<uint32_t*>(shared), launch.totals);
    bins.load(shared + (Table<false>::size(launch.totals) * 4 + 15) / 16 * 16);
    __syncthreads();
    uint32_t rechecked = 0;
    const uint32_t apart = uint32_t(launch.shares);
    BB_FOR (item, (launch.last - launch.first) * launch.shares) {
        const uint32_t i = uint32_t(launch.first + item / launch.shares),
                       share = uint32_t(item % launch.shares);
        const GridPoint row = sets.rows[i];
        for_each_run(sets.grid, sets.starts, sets.one_set, row.cell, i, [&](uint32_t first, uint32_t last) {
#pragma unroll 1
            for (uint32_t j = first + share; j < last; j += apart) {
                const float d2 = grid_distance(row, sets.columns + j, sets.grid);
                if (d2 > sets.reach) continue;
                uint32_t key;
                if (!(bins.place(d2, key) <= sets.threshold)) {
                    key = key_near(sets.bounds, exact_square(sets.a, i, sets.b, j, sets.box), key);
                    rechecked++;
                }
                table.add_one(key);
            }
        });
    }
    table.flush();
    if (rechecked) atomicAdd(launch.state + 1, (unsigned long long)rechecked);
}

}  // namespace bmrm
