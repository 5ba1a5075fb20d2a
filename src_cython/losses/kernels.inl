// All kernels for one instruction set, and their table: included once in the translation unit of each, inside
// its namespace and `#pragma GCC target`, with BMRM_LANES doubles per register.
#include "losses/risk_kernels.inl"
//
#include "losses/class_kernels.inl"
//
#include "losses/soft_kernels.inl"

const LossKernels loss_kernels = {kernels, class_kernels, soft_kernels};
