"""The threads of the process, which all compiled loops share (``common/pool.h``)."""

from libc.stdint cimport int64_t


cdef extern from "common/pool.h" namespace "bmrm" nogil:
    cdef cppclass Pool:
        @staticmethod
        Pool& get()
        void run(int64_t, int, void (*)(const void*, int64_t, int) noexcept, const void*)


cdef void run_tasks(
    int64_t count, int threads, void (*run)(const void*, int64_t, int) noexcept nogil, const void* context
) noexcept nogil:
    Pool.get().run(count, threads, run, context)


cdef void _call(const void* job, int64_t number, int member) noexcept with gil:
    work, failures = <object> job
    if failures:
        return
    try:
        work(number, member)
    except BaseException as failure:
        failures.append(failure)


def run(work, int64_t count, int threads):
    """Call ``work(i, member)`` for each i below a number, lowest first, on several threads.

    After an exception no other call begins.

    Parameters
    ----------
    work : callable
        Should release the global interpreter lock for most of its time. Calls that run at the same time have
        different members, less than `threads`.
    count : int
    threads : int
        Maximum number of threads. The calling one takes part, and waits for no other one that has not begun.

    Raises
    ------
    BaseException
        The first one of a call.

    Examples
    --------
    >>> squares = [0] * 4
    >>> def work(i, member):
    ...     squares[i] = i * i
    >>> run(work, 4, threads=2)
    >>> squares
    [0, 1, 4, 9]
    """
    failures = []
    job = (work, failures)
    if count == 1 or threads == 1:
        for number in range(count):
            work(number, 0)
        return
    with nogil:
        run_tasks(count, threads, _call, <const void*> job)
    if failures:
        raise failures[0]
