// A call on a matrix; as for other handles.
#pragma once
#include "matrix/matrix.h"
#include "runtime/handle.h"

namespace bmrm {

template <class Body>
bb_status on_matrix(bb_matrix* matrix, Body&& body) noexcept {
    return guarded([&] {
        if (!matrix) throw Failure(BB_INVALID, "no matrix");
        if (getpid() != matrix->process) forked();
        const std::lock_guard<std::recursive_mutex> hold(matrix->lock);
        const OnDevice scope(matrix->device.id);
        settled(matrix->memory, body);
    });
}

}  // namespace bmrm
