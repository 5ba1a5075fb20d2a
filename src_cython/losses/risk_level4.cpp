#include "losses/kernels.h"

#ifdef BMRM_X86_LEVELS
#pragma GCC push_options
#pragma GCC target("arch=x86-64-v4,prefer-vector-width=512")
namespace bmrm::level4 {
#include "losses/lanes.inl"
//
#include "losses/risk_kernels.inl"
}  // namespace bmrm::level4
#pragma GCC pop_options
#endif
