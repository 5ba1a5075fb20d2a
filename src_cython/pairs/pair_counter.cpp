#include "pairs/pair_counter.h"

#include <cmath>

#include "pairs/brute_counter.h"
#include "pairs/cell_counter.h"
#include "pairs/exact_counter.h"

namespace bmrm {

std::pair<i64, i64> TilePairs::at(i64 number) const {
    if (!triangle) return {number / columns, number % columns};
    // Counted from the end, row r from below has the r + 1 numbers from r (r + 1) / 2 on.
    const i64 left = count() - 1 - number;
    i64 r = static_cast<i64>((std::sqrt(8.0 * static_cast<double>(left) + 1.0) - 1.0) / 2.0);
    while (r * (r + 1) / 2 > left) --r;
    while ((r + 1) * (r + 2) / 2 <= left) ++r;
    return {rows - 1 - r, rows - 1 - (left - r * (r + 1) / 2)};
}

std::unique_ptr<PairCounter> make_pair_counter(const PlacedPoints& a, const PlacedPoints* b,
                                               const double* bounds, i64 bins, PairKernel kernel,
                                               PairImages images, int threads) {
    if (images == PairImages::nearest && kernel == PairKernel::cells && a.axes() <= CellGrid::kAxes)
        return std::make_unique<CellCounter>(a, b, bounds, bins, threads);
    if (images == PairImages::nearest && kernel != PairKernel::float64)
        return std::make_unique<BruteCounter>(a, b, bounds, bins, threads);
    return std::make_unique<ExactCounter>(a, b, bounds, bins, images);
}

}  // namespace bmrm
