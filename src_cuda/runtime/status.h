// A macro around each CUDA call: a failure names the call.
#pragma once
#include <cuda_runtime.h>

#include <string>

#include "runtime/failure.h"

namespace bmrm {

// Throws a Failure that names the call.  A sticky error (an illegal access, say) makes every later call fail:
// it is reported once with the call that found it, and later calls refer to it.
void check_cuda(cudaError_t error, const char* call);

// Formats a number of bytes for people.
std::string size_text(double bytes);

#define BB_CHECK(call) ::bmrm::check_cuda((call), #call)

}  // namespace bmrm
