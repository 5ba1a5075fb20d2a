// The passes of a search that the host directs, of every loss.
#include "training/kernels/risk.cuh"
#include "training/losses/by_number.h"
#include "training/losses/kernels.h"

namespace bmrm {

template <class T>
void set_pass_kernels(int32_t loss, bool rounded, RiskKernels& to) {
    by_number(loss, rounded, [&](auto of, auto searched) {
        using Loss = typename decltype(of)::type;
        using Sloped = typename decltype(searched)::type;
        to.points = reinterpret_cast<const void*>(&slopes_at_points<T, Sloped>);
        to.end = reinterpret_cast<const void*>(&end_search<T, Loss, Sloped>);
    });
}

template void set_pass_kernels<float>(int32_t, bool, RiskKernels&);
template void set_pass_kernels<double>(int32_t, bool, RiskKernels&);

}  // namespace bmrm
