// The steps of methods that look for better points, of every loss that they suit: Newton's and dual ascent.
#include "training/kernels/ascent.cuh"
#include "training/kernels/newton.cuh"
#include "training/losses/by_number.h"
#include "training/losses/kernels.h"

namespace bmrm {

template <class T>
void set_step_kernels(int32_t loss, bool rounded, RiskKernels& to) {
    by_number(loss, rounded, [&](auto of, auto searched) {
        using Loss = typename decltype(of)::type;
        using Sloped = typename decltype(searched)::type;
        if constexpr (Sloped::smooth)
            to.curvature = reinterpret_cast<const void*>(&curvature_of_rows<T, Sloped>);
        if constexpr (Dual<Loss>::known) {
            to.begin_ascent = reinterpret_cast<const void*>(&begin_ascent<T, Loss>);
            to.step_up = reinterpret_cast<const void*>(&step_up<T, Loss>);
            to.end_ascent = reinterpret_cast<const void*>(&end_ascent<T, Loss>);
        }
    });
}

template void set_step_kernels<float>(int32_t, bool, RiskKernels&);
template void set_step_kernels<double>(int32_t, bool, RiskKernels&);

}  // namespace bmrm
