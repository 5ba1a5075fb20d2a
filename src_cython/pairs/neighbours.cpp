#include "pairs/neighbours.h"

#include "pairs/leaf_search.h"
#include "pairs/product_search.h"

namespace bmrm {

std::unique_ptr<NeighbourSearch> make_neighbour_search(const PlacedPoints& a, const PlacedPoints* b,
                                                       Metric metric, bool products) {
    if (products)
        if (std::unique_ptr<NeighbourSearch> found = ProductSearch::make(a, b, metric)) return found;
    return std::make_unique<LeafSearch>(a, b, metric);
}

}  // namespace bmrm
