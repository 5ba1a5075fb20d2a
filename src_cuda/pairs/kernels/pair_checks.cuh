// Numbers of pairs on their way to the passes: checked, packed into the upper triangle, computed of features.
#pragma once
#include <stdint.h>

#include "pairs/kernels/pair_tiles.cuh"
#include "runtime/device_memory.h"

namespace bmrm {

constexpr unsigned long long kNoDefect = ~0ull;
constexpr int kDefectKinds = 8;
constexpr int kCheckedTile = 32;
constexpr int kCheckThreads = 256;

// Where the worst of a number is: the least of (row * n + column) * kDefectKinds + kind; the bits of the
// largest number, which are ordered as the numbers are; whether there are NaN.
struct CheckedPairs {
    unsigned long long first, largest, missing;
};

struct PairRules {
    int32_t nan_allowed;
    double diagonal;   // of |a_ii|; negative: the diagonal is not looked at
    double tolerance;  // of |a_ij - a_ji|
};

// A block per tile of the upper triangle; the tile below the diagonal is read by rows too, through shared
// memory.
template <class T>
__global__ void __launch_bounds__(kCheckThreads)
    check_pairs(PairTable table, PairRules rules, int64_t tiles, CheckedPairs* found) {
    __shared__ T other[kCheckedTile][kCheckedTile + 1];
    const int64_t n = table.n, down = int64_t(blockIdx.x) / tiles, across = int64_t(blockIdx.x) % tiles;
    if (across < down) return;
    const T* const values = static_cast<const T*>(table.values);
    const int lane = int(threadIdx.x) % kCheckedTile, part = int(threadIdx.x) / kCheckedTile;
    const int64_t first = down * kCheckedTile, column = across * kCheckedTile + lane;
    if (table.square)
        for (int r = part; r < kCheckedTile; r += kCheckThreads / kCheckedTile) {
            const int64_t i = across * kCheckedTile + r, j = first + lane;
            other[r][lane] = i < n && j < n ? values[i * n + j] : T(0);
        }
    __syncthreads();
    unsigned long long worst = kNoDefect, missing = 0;
    double most = 0.0;
    for (int r = part; r < kCheckedTile; r += kCheckThreads / kCheckedTile) {
        const int64_t i = first + r;
        if (i >= n || column >= n || column < i || (column == i && !table.square)) continue;
        const double a = double(values[table.row(i) + column]);
        int kind = 0;
        if (column == i) {
            if (rules.diagonal >= 0.0 && !(fabs(a) <= rules.diagonal)) kind = 4;
        } else {
            if (a > most) most = a;
            if (a < 0.0)
                kind = 1;
            else if (isinf(a))
                kind = 2;
            else if (a != a) {
                missing = 1;
                if (!rules.nan_allowed) kind = 5;
            }
            if (!kind && table.square) {
                const double b = double(other[lane][r]);
                const bool same = a == b || (a != a && b != b);
                if (!same && !(fabs(a - b) <= rules.tolerance)) kind = 3;
            }
        }
        if (kind) {
            const unsigned long long place =
                (static_cast<unsigned long long>(i) * n + column) * kDefectKinds + kind;
            if (place < worst) worst = place;
        }
    }
    if (worst != kNoDefect) atomicMin(&found->first, worst);
    if (missing) atomicMax(&found->missing, missing);
    if (most > 0.0) {
        const auto bits = static_cast<unsigned long long>(__double_as_longlong(most));
        if (bits > *static_cast<volatile unsigned long long*>(&found->largest))
            atomicMax(&found->largest, bits);
    }
}

// Copies the upper triangle of some rows of a square matrix, from `first` on, row by row.
template <class T>
__global__ void pack_rows(const T* from, int64_t n, int64_t first, int64_t rows, T* to) {
    const PairTable half{to, sizeof(T) == 8, 0, n};
    BB_FOR (at, rows * n) {
        const int64_t i = first + at / n, j = at % n;
        if (j > i) to[half.row(i) + j] = from[at];
    }
}

// Features by columns, in float64, with zeros after the last point.
template <class T>
__global__ void turn_features(const T* from, int64_t n, int64_t m, int64_t stride, double* to) {
    BB_FOR (at, m * stride) {
        const int64_t f = at / stride, i = at % stride;
        to[at] = i < n ? double(from[i * m + f]) : 0.0;
    }
}

// The distances of some rows with later ones.
static __global__ void store_distances(FeaturePairs pairs, int64_t n, int64_t first, int64_t rows,
                                       double* to) {
    const PairTable half{to, 1, 0, n};
    BB_FOR (at, rows * n) {
        const int64_t i = first + at / n, j = at % n;
        if (j > i) to[half.row(i) + j] = pairs.at(i, j);
    }
}

// The dissimilarities of a point to all.
template <class Source>
__global__ void read_row(Source source, int64_t n, int64_t i, double* to) {
    BB_FOR (j, n) to[j] = i == j ? 0.0 : i < j ? source.at(i, j) : source.at(j, i);
}

}  // namespace bmrm
