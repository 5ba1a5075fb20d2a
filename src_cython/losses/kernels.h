// The kernels of all losses as tables, one for each instruction set, which a translation unit of its own
// defines (baseline.cpp, level3.cpp, level4.cpp).
#pragma once
#include "losses/class_risk.h"
#include "losses/risk.h"
#include "losses/soft_risk.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define BMRM_X86_LEVELS 1
#endif

namespace bmrm {

struct LossKernels {
    const Kernels (*scalar)[2];   // of each loss, plain and rounded
    const ClassKernels* classes;  // in the order of CLASS_LOSSES in _losses.pyx
    const SoftKernel* soft;       // of each SoftKind
};

namespace baseline {
extern const LossKernels loss_kernels;
}
#ifdef BMRM_X86_LEVELS
namespace level3 {
extern const LossKernels loss_kernels;
}
namespace level4 {
extern const LossKernels loss_kernels;
}
#endif

}  // namespace bmrm
