#include "pairs/neighbours.h"

#include "pairs/leaf_search.h"
#include "pairs/product_search.h"

namespace bmrm {

std::unique_ptr<NeighbourSearch> make_neighbour_search(const Sides& sides, Metric metric, bool products,
                                                       int threads) {
    if (products && !sides.has_box() && measure_of(metric) == Measure::squares)
        if (std::unique_ptr<NeighbourSearch> found = ProductSearch::make(sides, metric)) return found;
    return std::make_unique<LeafSearch>(sides, metric, threads);
}

}  // namespace bmrm
