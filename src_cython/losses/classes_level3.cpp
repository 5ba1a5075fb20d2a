#include <cstring>
#include <vector>

#include "losses/kernels.h"

#ifdef BMRM_X86_LEVELS
#pragma GCC diagnostic ignored "-Wpsabi"  // vectors are passed only between inlined functions
#define BMRM_LANES 4
#pragma GCC push_options
#pragma GCC target("arch=x86-64-v3")
namespace bmrm::level3 {
#include "losses/lanes.inl"
//
#include "losses/class_kernels.inl"
//
#include "losses/soft_kernels.inl"
}  // namespace bmrm::level3
#pragma GCC pop_options
#endif
