"""The argument `threads` of loops with OpenMP."""

cdef extern from "<omp.h>" nogil:
    int omp_get_max_threads()


cdef extern from "common/team.h" namespace "bmrm" nogil:
    int team_of(int)


cdef int _threads(threads) except -1:
    """Number of threads asked for, OpenMP's default for None."""
    if threads is None:
        return team_of(omp_get_max_threads())
    if isinstance(threads, bool) or not isinstance(threads, (int, np.integer)) or not 1 <= threads <= 4096:
        raise ParameterError(f"threads: found {threads!r}, expected an integer from 1 to 4096 or None")
    return threads
