#include "clusters/draws.h"

#include <algorithm>

#include "parts/parts.h"

namespace bmrm {

double left_in_place(double target, double end, double sum) {
    return std::min(std::max((target - (end - sum)) / sum, 0.0), 1.0);
}

Draw descend(const double* sums, i64 count, double number) {
    double total = 0;
    add_in_order(sums, count, count, &total);
    volatile double product = number * total;
    const double target = product;
    double end = 0;
    i64 place = 0;
    for (;; ++place) {
        end += sums[place];
        if (end > target || end >= total || place + 1 == count) break;
    }
    return {place, left_in_place(target, end, sums[place])};
}

}  // namespace bmrm
