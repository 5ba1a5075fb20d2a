#include "pairs/near_order.h"

#include <algorithm>
#include <numeric>

namespace bmrm {

namespace {

void split(const PlacedPoints& points, i64 leaf, i64* begin, i64* end) {
    while (end - begin > leaf) {
        int widest = 0;
        double width = -1.0;
        for (int k = 0; k < points.axes(); ++k) {
            const double* x = points.axis(k);
            double low = x[*begin], high = low;
            for (const i64* i = begin; i < end; ++i) {
                low = std::min(low, x[*i]);
                high = std::max(high, x[*i]);
            }
            if (high - low > width) {
                width = high - low;
                widest = k;
            }
        }
        const i64 leaves = (end - begin + leaf - 1) / leaf;
        i64* const middle = begin + leaves / 2 * leaf;
        const double* const x = points.axis(widest);
        std::nth_element(begin, middle, end, [x](i64 i, i64 j) { return x[i] < x[j]; });
        split(points, leaf, begin, middle);
        begin = middle;
    }
}

}  // namespace

std::vector<i64> near_order(const PlacedPoints& points, i64 leaf) {
    std::vector<i64> order(points.points());
    std::iota(order.begin(), order.end(), i64{0});
    split(points, leaf, order.data(), order.data() + order.size());
    return order;
}

}  // namespace bmrm
