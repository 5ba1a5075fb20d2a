#include "losses/kernels.h"

namespace bmrm::baseline {
#include "losses/lanes.inl"
//
#include "losses/risk_kernels.inl"
}  // namespace bmrm::baseline
