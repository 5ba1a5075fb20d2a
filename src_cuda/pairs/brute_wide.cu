// Counts over all pairs of tiles, of four to seven axes.
#include "pairs/brute.h"

namespace bmrm {

std::unique_ptr<PairKernel> make_wide_brute(const PairSetup& setup) {
    static_assert(BB_PAIRS_BRUTE_AXES == 7, "a column has as many, and its squared norm");
    return std::make_unique<Brute<BB_PAIRS_BRUTE_AXES + 1>>(setup);
}

}  // namespace bmrm
