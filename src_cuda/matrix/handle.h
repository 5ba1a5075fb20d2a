// A call on a handle: the lock, the device, the check for a fork, and the conversion of exceptions to
// statuses.
#pragma once
#include "matrix/matrix.h"

namespace bmrm {

[[noreturn]] inline void forked() {
    throw Failure(
        BB_FORKED,
        "the process was forked after its first use of the device; start workers by spawn, or before");
}

template <class Body>
bb_status on_matrix(bb_matrix* matrix, Body&& body) noexcept {
    return guarded([&] {
        if (!matrix) throw Failure(BB_INVALID, "no matrix");
        if (getpid() != matrix->process) forked();
        const std::lock_guard<std::recursive_mutex> hold(matrix->lock);
        const OnDevice scope(matrix->device.id);
        body();
    });
}

}  // namespace bmrm
