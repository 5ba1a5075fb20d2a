// The kernels of a loss.  Those of all losses are most of what there is to compile: each kind of kernel has a
// file of its own.
#pragma once
#include <stdint.h>

namespace bmrm {

struct RiskKernels {
    const void *slope, *value, *derivatives, *search, *points, *end;
    const void* curvature;                            // null if the kinks are not smoothed
    const void *begin_ascent, *step_up, *end_ascent;  // null if the conjugate is not known
};

// Each sets some of the kernels for margins of type T.  loss: position in BMRM_LOSSES; rounded: whether the
// loss that is searched and cut has smoothed kinks.
template <class T>
void set_line_kernels(int32_t loss, bool rounded, RiskKernels& to);
template <class T>
void set_search_kernel(int32_t loss, bool rounded, RiskKernels& to);
template <class T>
void set_pass_kernels(int32_t loss, bool rounded, RiskKernels& to);
template <class T>
void set_step_kernels(int32_t loss, bool rounded, RiskKernels& to);

}  // namespace bmrm
