"""The argument `threads`, and the threads that the loops of this module run on."""

from bmrm.base.threads import preferred_threads

include "common/pool.pxi"


cdef int _threads(threads) except -1:
    """Number of threads asked for, the default for None."""
    if threads is None:
        return preferred_threads()
    if isinstance(threads, bool) or not isinstance(threads, (int, np.integer)) or not 1 <= threads <= 4096:
        raise ParameterError(f"threads: found {threads!r}, expected an integer from 1 to 4096 or None")
    return threads
