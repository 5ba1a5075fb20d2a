#include "choice/select.h"

#include <algorithm>
#include <iterator>
#include <numeric>

namespace bmrm {

using namespace tuning;

std::vector<int32_t> worth_timing(const bb_constants& constants, const bb_stats& stats, const bb_plan* plans,
                                  const double* predicted, int32_t count) {
    std::vector<int32_t> order(static_cast<size_t>(std::max(count, 0)));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [=](int32_t a, int32_t b) { return predicted[a] < predicted[b]; });
    std::vector<int32_t> chosen;
    if (order.empty()) return chosen;
    const double best = predicted[order[0]];
    const double a_build = kBuildPasses * double(stats.nnz) * 2 * (4 + stats.value_bytes) / constants.copy;
    double products = kTuningBudget, building = kMaxBuilding;
    // First the best of each kernel, then more of them.
    int of_kernel[BB_KERNELS] = {};
    std::vector<char> taken(order.size(), 0);
    for (const int most : {1, kMaxPerKernel})
        for (int32_t i : order) {
            const double cost = kTrialProducts * predicted[i] / best,
                         build = format_of(plans[i].kernel).built ? a_build : 0;
            const double worth = most == 1 ? kWorthAnother : kWorthTiming;
            const bool fits = predicted[i] <= worth * best && cost <= products && build <= building &&
                              of_kernel[plans[i].kernel] < most;
            if (taken[i] || !(fits || i == order[0])) continue;
            products -= cost;
            building -= build;
            of_kernel[plans[i].kernel]++;
            taken[i] = 1;
        }
    std::copy_if(order.begin(), order.end(), std::back_inserter(chosen), [&](int32_t i) { return taken[i]; });
    return chosen;
}

}  // namespace bmrm

// Returns the peak of bytes on the device: the compressed rows of both operators, the formats chosen for
// them, and what building a format takes besides: a key and a position per chunk, sorted from one array to
// another.
extern "C" int64_t bb_predict_bytes(int64_t rows, int64_t cols, int64_t nnz, int32_t value_bytes,
                                    int32_t transpose) {
    const int64_t element = 4 + value_bytes, operators = transpose ? 2 : 1;
    const int64_t compressed = operators * nnz * element + 8 * (rows + 1 + (transpose ? cols + 1 : 0));
    const int64_t formats = operators * (nnz + nnz / 16) * element + 8 * (rows + (transpose ? cols : 0));
    const int64_t chunks = std::max(rows, cols) + nnz / 256;
    return compressed + formats + 2 * chunks * (8 + 8) + (rows + cols) * 8;
}

extern "C" int64_t bb_prepare_bytes(int64_t rows, int64_t cols, int64_t nnz, int32_t value_bytes,
                                    int32_t transpose) {
    return bb_predict_bytes(rows, cols, nnz, value_bytes, transpose) + bmrm::tuning::kPreparation * nnz +
           16 * (rows + cols);
}

extern "C" int64_t bb_format_bytes(int64_t rows, int64_t cols, int64_t nnz, int32_t value_bytes,
                                   int32_t transpose) {
    const int64_t operators = transpose ? 2 : 1;
    return operators * ((nnz + nnz / 16) * (2 + value_bytes) + 4 * (rows + cols));
}
