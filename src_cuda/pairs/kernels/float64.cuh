// Counts over all pairs of tiles in float64: any number of axes, and all images.  It is the reference on the
// device, and what is left where float32 cannot be trusted.
//
// Distances are those of decision.h.  The bin is found in float32, as bins.cuh has it, from the rounded
// squared distance; where that is in doubt, it is searched.  A thread has four rows, of AXES axes in
// registers, or of any number in the cache (AXES = 0), and two columns at once.  In three dimensions a pair
// takes 8 instructions of float64 and about 22 others (sm_90, nvcc 13.0, 64 to 80 registers).
#pragma once
#include "pairs/kernels/bins.cuh"
#include "pairs/kernels/tables.cuh"
#include "pairs/kernels/tile_pairs.cuh"
#include "runtime/dynamic_shared.cuh"

namespace bmrm {

constexpr int kColumnsAtOnce = 2;
constexpr int64_t kFlushedSweeps = 2048;     // sweeps after which a table is flushed: 2^31 pairs
constexpr double kFloat64Doubt = 8 * kUnit;  // relative error of d2 in float32, scaled

struct ExactSets {
    ExactPoints a, b;
    TileBoxes a_boxes, b_boxes;  // of images SHIFTED those of the coordinates as given
    Box box;
    Bounds bounds;
    TilePairs tiles;
    float scale;      // of squared distances
    float threshold;  // of doubt
    double reach;     // the last bound of the distance, rounded up
    double slip;      // how far boxes are off
};

struct ExactLaunch {
    int64_t first, last;
    unsigned long long* state;  // pairs of tiles that have been taken
    Totals totals;
};

// A pair of tiles, and the image of the columns.
struct ExactPair {
    int64_t row, column;
    int rows, columns;
    bool skipped;
};

// The images of a pair of tiles: whole numbers of each axis, which count up like digits.
struct ImageDigits {
    double* shift;          // by axis: number times length, rounded
    int64_t *first, *last;  // by axis
    int64_t* number;
};

template <int IMAGES>
__device__ inline bool is_beyond(const ExactSets& sets, const ExactPair& pair, const double* shift) {
    double sum = 0;
    for (int k = 0; k < sets.a.axes; k++) {
        Range range = range_of(sets.a_boxes, pair.row, sets.b_boxes, pair.column, sets.a.axes, k);
        const double L = sets.box.length[k];
        if (IMAGES == SHIFTED) range.low -= shift[k], range.high -= shift[k];
        double least = range.least();
        if (IMAGES == NEAREST && L > 0)
            least = range.most() < L / 2 ? least : fmax(0.0, fmin(least, L - range.most()));
        sum += least * least;
    }
    return sqrt(sum) * (1 - 1e-9) - 2 * sets.slip > sets.reach;
}

// Sets the digits of the first image, in one thread.
__device__ inline void begin_images(const ExactSets& sets, const ExactPair& pair, const ImageDigits& digits) {
    for (int k = 0; k < sets.a.axes; k++) {
        const double L = sets.box.length[k];
        const Range range = range_of(sets.a_boxes, pair.row, sets.b_boxes, pair.column, sets.a.axes, k);
        const double slack = 1e-9 * (fmax(fabs(range.low), fabs(range.high)) + sets.reach);
        digits.first[k] = L > 0 ? int64_t(ceil((range.low - sets.reach - slack) / L)) : 0;
        digits.last[k] = L > 0 ? int64_t(floor((range.high + sets.reach + slack) / L)) : 0;
        digits.number[k] = digits.first[k];
        digits.shift[k] = exact::product(L, double(digits.number[k]));
    }
}

// Goes to the next image, in one thread; returns false after the last one.
__device__ inline bool next_image(const ExactSets& sets, const ImageDigits& digits) {
    for (int k = 0; k < sets.a.axes; k++) {
        const bool more = digits.number[k] < digits.last[k];
        digits.number[k] = more ? digits.number[k] + 1 : digits.first[k];
        digits.shift[k] = exact::product(sets.box.length[k], double(digits.number[k]));
        if (more) return true;
    }
    return false;
}

// The squared distances of a thread's rows to some columns.
template <int AXES, int IMAGES>
struct ExactRows {
    static constexpr int kHeld = AXES ? AXES : 1;
    double at[kThreadRows][kHeld];
    int64_t row[kThreadRows];

    __device__ __forceinline__ void load(const ExactSets& sets, const ExactPair& pair, int lane) {
#pragma unroll
        for (int k = 0; k < kThreadRows; k++) {
            row[k] = pair.row * kTilePoints + min(lane + k * kTileThreads, pair.rows - 1);
#pragma unroll
            for (int x = 0; x < AXES; x++) at[k][x] = sets.a.at[x * sets.a.n + row[k]];
        }
    }
    __device__ __forceinline__ void to(const ExactSets& sets, const int64_t (&column)[kColumnsAtOnce],
                                       const double* shift,
                                       double (&square)[kColumnsAtOnce][kThreadRows]) const {
        const int axes = AXES ? AXES : sets.a.axes;
#pragma unroll
        for (int x = 0; x < axes; x++) {
            const double length = IMAGES == NEAREST ? sets.box.length[x] : 0.0;
            const double inverse = IMAGES == NEAREST ? sets.box.inverse[x] : 0.0;
            const double moved = IMAGES == SHIFTED ? shift[x] : 0.0;
#pragma unroll
            for (int c = 0; c < kColumnsAtOnce; c++) {
                const double b = __ldg(sets.b.at + x * sets.b.n + column[c]);
#pragma unroll
                for (int k = 0; k < kThreadRows; k++) {
                    const double a = AXES ? at[k][x % kHeld] : __ldg(sets.a.at + x * sets.a.n + row[k]);
                    const double d = image_difference<IMAGES>(a, b, length, inverse, moved);
                    square[c][k] = x == 0 ? exact::product(d, d) : add_square(square[c][k], d);
                }
            }
        }
    }
};

// Finds the keys of a thread's rows; one copy of the search.
__device__ __forceinline__ void search(const ExactSets& sets, const double (&square)[kThreadRows],
                                       uint32_t (&key)[kThreadRows]) {
#pragma unroll 1
    for (int row = 0; row < kThreadRows; row++) {
        double mine = square[0];
#pragma unroll
        for (int k = 1; k < kThreadRows; k++) mine = k == row ? square[k] : mine;
        const uint32_t found = key_of(sets.bounds, mine);
#pragma unroll
        for (int k = 0; k < kThreadRows; k++) key[k] = k == row ? found : key[k];
    }
}

template <int AXES, int IMAGES, class Bins>
__device__ __forceinline__ void sweep_exact(const ExactSets& sets, const ExactPair& pair, const double* shift,
                                            const Bins& bins, Table<false>& table) {
    const int lane = threadIdx.x;
    const bool diagonal = sets.tiles.one_set && pair.row == pair.column;
    ExactRows<AXES, IMAGES> rows;
    rows.load(sets, pair, lane);
    for (int first = 0; first < pair.columns; first += kColumnsAtOnce) {
        int64_t column[kColumnsAtOnce];
        double square[kColumnsAtOnce][kThreadRows];
#pragma unroll
        for (int c = 0; c < kColumnsAtOnce; c++)
            column[c] = pair.column * kTilePoints + min(first + c, pair.columns - 1);
        rows.to(sets, column, shift, square);
#pragma unroll
        for (int c = 0; c < kColumnsAtOnce; c++) {
            uint32_t key[kThreadRows];
            float doubt[kThreadRows];
#pragma unroll
            for (int k = 0; k < kThreadRows; k++)
                doubt[k] = bins.place(fmaf(float(square[c][k]), sets.scale, kLeastSquare), key[k]);
            if (some_above(doubt, sets.threshold)) search(sets, square[c], key);
            const int last_row = first + c >= pair.columns ? 0 : diagonal ? first + c : pair.rows;
            if (last_row < kTilePoints) {
#pragma unroll
                for (int k = 0; k < kThreadRows; k++)
                    key[k] = lane + k * kTileThreads < last_row ? key[k] : 0;
            }
            table.add(key);
        }
    }
}

// Shared memory: a table and the cells of bins (`table_bytes`), then the digits of an image.
template <int AXES, int IMAGES, class Bins>
__global__ void __launch_bounds__(kTileThreads)
    count_exact(const ExactSets sets, const ExactLaunch launch, Bins bins, const int table_bytes) {
    __shared__ ExactPair pair;
    __shared__ bool more;
    unsigned char* const shared = dynamic_shared<unsigned char>();
    double* const shift = reinterpret_cast<double*>(shared + table_bytes);
    int64_t* const numbers = reinterpret_cast<int64_t*>(shift + sets.a.axes);
    const ImageDigits digits{shift, numbers, numbers + sets.a.axes, numbers + 2 * sets.a.axes};
    Table<false> table(reinterpret_cast<uint32_t*>(shared), launch.totals);
    bins.load(shared + (Table<false>::size(launch.totals) * 4 + 15) / 16 * 16);
    for (int64_t swept = 0;;) {
        if (threadIdx.x == 0) {
            const int64_t number = launch.first + int64_t(atomicAdd(launch.state, 1ull));
            pair.row = -1;
            if (number < launch.last) {
                sets.tiles.at(number, pair.row, pair.column);
                pair.rows = tile_size(pair.row, sets.a.n);
                pair.columns = tile_size(pair.column, sets.b.n);
                if (IMAGES == SHIFTED) begin_images(sets, pair, digits);
            }
        }
        __syncthreads();
        if (pair.row < 0) break;
        do {
            if (threadIdx.x == 0) pair.skipped = is_beyond<IMAGES>(sets, pair, shift);
            __syncthreads();
            if (!pair.skipped) {
                sweep_exact<AXES, IMAGES>(sets, pair, shift, bins, table);
                if (++swept % kFlushedSweeps == 0) table.flush();
            }
            __syncthreads();
            if (threadIdx.x == 0) more = IMAGES == SHIFTED && next_image(sets, digits);
            __syncthreads();
        } while (more);
    }
    table.flush();
}

}  // namespace bmrm
