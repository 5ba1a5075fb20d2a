// The macro round each call of CUDA: a failure that names the call.
#pragma once
#include <cuda_runtime.h>

#include <string>

#include "runtime/failure.h"

namespace bmrm {

// Throws a Failure that names the call.  An error that stays with the device (an illegal access, say) makes
// every later call fail: it is told once with the call that met it, and later calls refer to it.
void check_cuda(cudaError_t error, const char* call);

// Bytes as people read them.
std::string size_text(double bytes);

#define BB_CHECK(call) ::bmrm::check_cuda((call), #call)

}  // namespace bmrm
