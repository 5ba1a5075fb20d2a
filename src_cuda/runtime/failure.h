// Failures inside the blackbox: a C++ exception within, a status and a text at the C interface.  No CUDA
// headers, so that host code reports failures the same way.
#pragma once
#include <new>
#include <stdexcept>
#include <string>

#include "api/blackbox.h"

namespace bmrm {

struct Failure : std::runtime_error {
    Failure(bb_status status, const std::string& text) : std::runtime_error(text), status(status) {}
    bb_status status;
};

// Sets what bb_last_error() returns in this thread.
void remember_failure(const char* text) noexcept;

// Runs `body` and converts what it throws into a status.
template <class Body>
bb_status guarded(Body&& body) noexcept {
    try {
        body();
        return BB_OK;
    } catch (const Failure& failure) {
        remember_failure(failure.what());
        return failure.status;
    } catch (const std::bad_alloc&) {
        remember_failure("out of main memory");
        return BB_MEMORY;
    } catch (const std::exception& error) {
        remember_failure(error.what());
        return BB_INVALID;
    }
}

}  // namespace bmrm
