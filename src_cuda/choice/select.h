// The choice of a kernel: what a plan needs, what it will cost, which plans are worth a trial.  Host code
// that needs neither a device nor CUDA headers.
//
// The idea is that of Yang, Parthasarathy, Sadayappan (Fast sparse matrix-vector multiplication on GPUs:
// implications for graph mining, VLDB 2011, section 3.2): statistics -> model -> parameters.  Here the model
// has bytes, gathers, fragments and launches, and its constants are measured on the device.  The best few
// plans are timed: this separates plans within the model's error at the price of a few products.
#pragma once
#include <vector>

#include "choice/format.h"

namespace bmrm {

Prediction predict(const bb_device& device, const bb_constants& constants, const bb_stats& stats,
                   const bb_plan& plan);

// Returns the positions of the candidates to build and time, most promising first.  `predicted`: seconds of
// each. They are nearly as good as the best prediction, and some of each kernel; timing them stays within the
// budget of products, and building them within the budget of seconds.
std::vector<int32_t> worth_timing(const bb_constants& constants, const bb_stats& stats, const bb_plan* plans,
                                  const double* predicted, int32_t count);

}  // namespace bmrm
