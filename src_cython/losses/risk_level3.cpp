#include "losses/kernels.h"

#ifdef BMRM_X86_LEVELS
#pragma GCC push_options
#pragma GCC target("arch=x86-64-v3")
namespace bmrm::level3 {
#include "losses/lanes.inl"
//
#include "losses/risk_kernels.inl"
}  // namespace bmrm::level3
#pragma GCC pop_options
#endif
