// Counts over all pairs of tiles, of up to three axes.
#include "pairs/brute.h"

namespace bmrm {

std::unique_ptr<PairKernel> make_wide_brute(const PairSetup& setup);  // brute_wide.cu

std::unique_ptr<PairKernel> make_brute(const PairSetup& setup) {
    if (!setup.bins.one_radius && !setup.bins.usable()) return make_float64(setup, false);
    if (setup.a.axes > 3) return make_wide_brute(setup);
    return std::make_unique<Brute<4>>(setup);
}

}  // namespace bmrm
