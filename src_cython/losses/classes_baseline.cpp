#include <cstring>
#include <vector>

#include "losses/kernels.h"

#pragma GCC diagnostic ignored "-Wpsabi"  // vectors are passed only between inlined functions
#define BMRM_LANES 2
namespace bmrm::baseline {
#include "losses/lanes.inl"
//
#include "losses/class_kernels.inl"
//
#include "losses/soft_kernels.inl"
}  // namespace bmrm::baseline
