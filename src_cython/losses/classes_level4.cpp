#include <cstring>
#include <vector>

#include "losses/kernels.h"

#ifdef BMRM_X86_LEVELS
#pragma GCC diagnostic ignored "-Wpsabi"  // vectors are passed only between inlined functions
#define BMRM_LANES 8
#pragma GCC push_options
#pragma GCC target("arch=x86-64-v4,prefer-vector-width=512")
namespace bmrm::level4 {
#include "losses/lanes.inl"
//
#include "losses/class_kernels.inl"
//
#include "losses/soft_kernels.inl"
}  // namespace bmrm::level4
#pragma GCC pop_options
#endif
