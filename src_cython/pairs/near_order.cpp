#include "pairs/near_order.h"

#include <algorithm>
#include <numeric>

#include "common/team.h"

namespace bmrm {

namespace {

/// Points that are next to each other in the order.
struct Part {
    i64 *begin, *end;
};

/// Halves a part across its widest axis; returns where the second half begins.
i64* halve(const PlacedPoints& points, i64 leaf, const Part& part) {
    const auto [begin, end] = part;
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
    return middle;
}

void split(const PlacedPoints& points, i64 leaf, Part part) {
    while (part.end - part.begin > leaf) {
        i64* const middle = halve(points, leaf, part);
        split(points, leaf, {part.begin, middle});
        part.begin = middle;
    }
}

}  // namespace

std::vector<i64> near_order(const PlacedPoints& points, i64 leaf, int threads) {
    constexpr size_t kPartsPerThread = 4;  // of about the same size
    std::vector<i64> order(points.points());
    std::iota(order.begin(), order.end(), i64{0});
    std::vector<Part> parts{{order.data(), order.data() + order.size()}};
    const size_t enough = threads > 1 ? kPartsPerThread * threads : 1;
    while (parts.size() < enough && parts[0].end - parts[0].begin > leaf) {
        std::vector<Part> halves(2 * parts.size());
        for_each_task(static_cast<i64>(parts.size()), threads, [&](i64 p) {
            const Part& part = parts[p];
            i64* const middle = part.end - part.begin > leaf ? halve(points, leaf, part) : part.end;
            halves[2 * p] = {part.begin, middle};
            halves[2 * p + 1] = {middle, part.end};
        });
        parts.swap(halves);
    }
    for_each_task(static_cast<i64>(parts.size()), threads, [&](i64 p) { split(points, leaf, parts[p]); });
    return order;
}

}  // namespace bmrm
