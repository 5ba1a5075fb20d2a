// Tiles of points, and the order of their pairs.  A tile has kTilePoints neighbours in the sorted order, and
// boxes around them: of the coordinates as given, and of those moved into the periodic box, which are off by
// `slip` at most.
#pragma once
#include <stdint.h>

#include "pairs/kernels/exact.cuh"

namespace bmrm {

constexpr int kTilePoints = 1024;
constexpr int kTileThreads = 256;
constexpr int kThreadRows = kTilePoints / kTileThreads;

inline __host__ __device__ int64_t tiles_of(int64_t n) { return (n + kTilePoints - 1) / kTilePoints; }

struct TileBoxes {
    const double* low;  // (tiles, axes)
    const double* high;
};

struct TilePairs {
    int64_t rows, columns;  // tiles
    bool one_set;           // of pairs of tiles of one set only those with row <= column

    __host__ __device__ int64_t count() const { return one_set ? rows * (rows + 1) / 2 : rows * columns; }

    __host__ __device__ void at(int64_t number, int64_t& row, int64_t& column) const {
        if (!one_set) {
            column = number / rows;
            row = number % rows;
            return;
        }
        column = int64_t((sqrt(8.0 * double(number) + 1.0) - 1.0) / 2.0);
        while (column * (column + 1) / 2 > number) column--;
        while ((column + 1) * (column + 2) / 2 <= number) column++;
        row = number - column * (column + 1) / 2;
    }
};

// The points of a tile.
inline __host__ __device__ int tile_size(int64_t tile, int64_t n) {
    const int64_t left = n - tile * kTilePoints;
    return left < kTilePoints ? int(left) : kTilePoints;
}

// Where differences of two tiles lie on an axis.
struct Range {
    double low, high;

    __device__ double least() const { return low > 0 ? low : high < 0 ? -high : 0; }
    __device__ double most() const { return fmax(-low, high); }
};

__device__ inline Range range_of(const TileBoxes& a, int64_t i, const TileBoxes& b, int64_t j, int axes,
                                 int k) {
    return {a.low[i * axes + k] - b.high[j * axes + k], a.high[i * axes + k] - b.low[j * axes + k]};
}

}  // namespace bmrm
