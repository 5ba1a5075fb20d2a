// What every handle on one device has, and a call on it: the lock, the device, the check for a fork, and the
// conversion of exceptions to statuses.
#pragma once
#include <unistd.h>

#include <mutex>

#include "runtime/device_memory.h"
#include "runtime/failure.h"

namespace bmrm {

[[noreturn]] inline void forked() {
    throw Failure(
        BB_FORKED,
        "the process was forked after its first use of the device; start workers by spawn, or before");
}

// The base of a handle; what it owns on the device is freed before its memory.
struct Handle {
    explicit Handle(int device) : memory(device) {}

    const pid_t process = getpid();
    std::recursive_mutex lock;
    Memory memory;
};

// Runs a body.  If it fails, nothing of what it has queued is left when the call returns: the caller's arrays
// and pinned memory are then free, as after a call that succeeds.
template <class Body>
void settled(Memory& memory, Body&& body) {
    try {
        body();
    } catch (...) {
        cudaStreamSynchronize(memory.stream);
        throw;
    }
}

// Runs body(handle) for a handle derived from `Handle`.
template <class Held, class Body>
bb_status on_handle(Held* handle, Body&& body) noexcept {
    return guarded([&] {
        if (!handle) throw Failure(BB_INVALID, "no handle");
        if (getpid() != handle->process) forked();
        const std::lock_guard<std::recursive_mutex> hold(handle->lock);
        const OnDevice scope(handle->memory.device);
        settled(handle->memory, [&] { body(*handle); });
    });
}

// Deletes a handle on its device, after all work that was queued.
template <class Held>
void destroy_handle(Held* handle) noexcept {
    if (!handle || getpid() != handle->process) return;
    on_handle(handle, [](Held& held) { held.memory.settle(); });
    delete handle;
}

}  // namespace bmrm
