// The kernels of all losses as tables, two for each instruction set: of scalar losses (risk_*.cpp) and of
// losses of several classes (classes_*.cpp). Each is a translation unit of its own. In larger ones GCC
// inlines less, and then fuses other multiplications with additions.
#pragma once
#include "losses/class_risk.h"
#include "losses/risk.h"
#include "losses/soft_risk.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define BMRM_X86_LEVELS 1
#endif

namespace bmrm {

struct ScalarKernels {
    const Kernels (*of)[2];  // each loss, plain and rounded
};

struct ClassTables {
    const ClassKernels* classes;  // in the order of CLASS_LOSSES in _losses.pyx
    const SoftKernel* soft;       // of each SoftKind
};

namespace baseline {
extern const ScalarKernels scalar_kernels;
extern const ClassTables class_tables;
}  // namespace baseline
#ifdef BMRM_X86_LEVELS
namespace level3 {
extern const ScalarKernels scalar_kernels;
extern const ClassTables class_tables;
}  // namespace level3
namespace level4 {
extern const ScalarKernels scalar_kernels;
extern const ClassTables class_tables;
}  // namespace level4
#endif

}  // namespace bmrm
