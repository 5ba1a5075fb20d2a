// The search along a line, of every loss; a file for each type of margins.
#pragma once
#include "training/kernels/search.cuh"
#include "training/losses/by_number.h"
#include "training/losses/kernels.h"

namespace bmrm {

template <class T>
void set_search_kernel(int32_t loss, bool rounded, RiskKernels& to) {
    by_number(loss, rounded, [&](auto of, auto searched) {
        using Loss = typename decltype(of)::type;
        using Sloped = typename decltype(searched)::type;
        to.search = reinterpret_cast<const void*>(&search_line<T, Loss, Sloped>);
    });
}

}  // namespace bmrm
