"""What other compiled modules see of `_threads`: the loop on the threads of the process."""

from libc.stdint cimport int64_t

cdef void run_tasks(
    int64_t count, int threads, void (*run)(const void*, int64_t, int) noexcept nogil, const void* context
) noexcept nogil
