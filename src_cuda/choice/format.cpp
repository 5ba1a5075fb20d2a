#include "choice/format.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "choice/shapes.h"
#include "runtime/occupancy.h"

namespace bmrm {

using namespace tuning;

const Format& format_of(int32_t kernel) {
#define BMRM_PLACE(number, name) &name##_format,
    static const Format* const formats[] = {BMRM_FORMATS(BMRM_PLACE)};
#undef BMRM_PLACE
    return *formats[kernel];
}

Prediction impossible() {
    Prediction out{};
    out.seconds = HUGE_VAL;
    return out;
}

double Case::bandwidth(double bytes) const {
    return constants.read * (bytes < kCacheShare * double(device.l2_bytes) ? kCacheSpeed : 1.0);
}

double Case::start(double launches, bool early) const {
    const double spared = early && device.major >= 9 ? kSparedByEarly : 0;
    return constants.launch + kBodyLatency + (launches - 1) * kNextLaunch - spared;
}

double together(std::initializer_list<double> costs) {
    const double most = std::max(costs), all = std::accumulate(costs.begin(), costs.end(), 0.0);
    return most + kOverlap * (all - most);
}

namespace {

// Returns the share of the gathers that find what the rows before have left in L1, of `width` inputs.  If
// rows meet fewer groups of so many neighbouring columns than rows of their lengths would by chance, nonzeros
// are close together, as on grids and in bands, and such rows come in an order in which neighbours share
// inputs.
double local_share(const bb_stats& stats, double width) {
    const double groups = double(stats.cols) / width, filled = double(stats.rows - stats.empty_rows);
    if (groups <= 2) return 0;
    double chance = 0;
    for_each_length(stats, [&](double rows, double length) {
        chance += rows * groups * -std::expm1(length * std::log1p(-1 / groups));
    });
    if (chance <= filled) return 0;
    const double local = (chance - fragments_of(stats, width)) / (chance - filled);
    return std::pow(std::clamp(local, 0.0, 1.0), kLocalPower);
}

}  // namespace

double gather_seconds(const Case& c, double first, bool packed, double level) {
    const double all = double(c.stats.nnz) - top_nnz(c.stats, first);
    if (all < 1) return 0;
    const double vector = c.stats.vector_bytes, columns = double(c.stats.cols) - first;
    const auto beyond = [&](double more) { return top_nnz(c.stats, first + more) - top_nnz(c.stats, first); };
    // Neighbours in a row share a sector, but not if columns are in order of popularity.
    const double shared = packed ? 1.0 : fragments_of(c.stats, kSectorBytes / vector) / double(c.stats.nnz);
    // L1 holds the whole vector, or what is popular: a popular input among unpopular ones takes a sector.
    const double popular = beyond(level / (packed ? vector : kSectorBytes));
    double near = std::max(popular, all * std::min(1.0, level / (columns * vector)));
    if (!packed) near += (all - near) * local_share(c.stats, level / vector);
    // Each multiprocessor has to load what L1 holds once.
    const double sectors =
        std::min({level / kSectorBytes, std::ceil(columns * vector / kSectorBytes), used_columns(c.stats)});
    const double room = sectors * c.device.multiprocessors;
    const double met = room * -std::expm1(-near * shared / room);
    const double far = (all - near) * shared + met;
    const double cacheable = kCacheShare * double(c.device.l2_bytes) / (columns * vector);
    const double cached = cacheable >= 1 ? 1.0 : beyond(cacheable * columns) / all;
    return near / (kFirstLevelSpeed * c.constants.gather_shared) +
           far * (cached / c.constants.gather_l2 + (1 - cached) / c.constants.gather_memory);
}

Prediction predict(const bb_device& device, const bb_constants& constants, const bb_stats& stats,
                   const bb_plan& plan) {
    return format_of(plan.kernel).predict({device, constants, stats, plan});
}

int64_t widest_tile(const bb_device& device, const bb_stats& stats, int64_t shared, int blocks) {
    const int64_t room = std::min(device.shared_per_block, shared / blocks - kReservedShared);
    return std::clamp<int64_t>((room - beside_tile(stats)) / stats.vector_bytes, 0, kShortTile) / kTileGrain *
           kTileGrain;
}

}  // namespace bmrm

extern "C" {

const char* bb_kernel_name(int32_t kernel) {
#define BMRM_NAME(number, name) #name,
    static const char* const names[] = {BMRM_FORMATS(BMRM_NAME)};
#undef BMRM_NAME
    return kernel < BB_KERNELS ? names[kernel] : nullptr;
}

int32_t bb_candidates(const bb_device* device, const bb_stats* stats, bb_plan* list, int32_t capacity) {
    bmrm::Plans plans(list, capacity);
    for (int32_t kernel = 0; kernel < BB_KERNELS; kernel++)
        bmrm::format_of(kernel).offer(*device, *stats, plans);
    return plans.count();
}

}  // extern "C"
