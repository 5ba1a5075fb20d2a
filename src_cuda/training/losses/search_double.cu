#include "training/losses/search.cuh"

template void bmrm::set_search_kernel<double>(int32_t, bool, RiskKernels&);
