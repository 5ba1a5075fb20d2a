// The risk at a point of a line, its slope and its derivatives, of every loss.
#include "training/kernels/risk.cuh"
#include "training/losses/by_number.h"
#include "training/losses/kernels.h"

namespace bmrm {

template <class T>
void set_line_kernels(int32_t loss, bool rounded, RiskKernels& to) {
    by_number(loss, rounded, [&](auto of, auto searched) {
        using Loss = typename decltype(of)::type;
        using Sloped = typename decltype(searched)::type;
        to.slope = reinterpret_cast<const void*>(&slope_of_line<T, Sloped>);
        to.value = reinterpret_cast<const void*>(&risk_of_line<T, Loss, false>);
        to.derivatives = reinterpret_cast<const void*>(&risk_of_line<T, Sloped, true>);
    });
}

template void set_line_kernels<float>(int32_t, bool, RiskKernels&);
template void set_line_kernels<double>(int32_t, bool, RiskKernels&);

}  // namespace bmrm
