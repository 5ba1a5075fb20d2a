"""What every reader of texts needs: exceptions, signals, places of faults, bytes parsed, arrays."""

from libc.stdint cimport int64_t

from bmrm.io._text import ChangedError, LongLineError, TextError

include "common/pool.pxi"
include "text/exceptions.pxi"

cdef extern from *:
    """
    /* Raises in Cython code the exception that PyErr_CheckSignals has left pending. */
    static int raise_pending(void) { return PyErr_Occurred() ? -1 : 0; }
    """
    int raise_pending() except -1
    int PyErr_CheckSignals()  # no `except`: the exception stays pending until the threads have ended

cdef extern from "text/blocks.h" namespace "text" nogil:
    ctypedef int (*Poll)() noexcept nogil

    cdef struct Place:
        int64_t line
        int64_t column
        int64_t token

    cdef cppclass Counter "std::atomic<int64_t>":
        int64_t load()

    Counter c_parsed_bytes "text::parsed_bytes"


def parsed_bytes():
    """Return the number of bytes that this module has parsed so far; see the stub."""
    return c_parsed_bytes.load()


cdef int check_signals() noexcept with gil:
    return PyErr_CheckSignals()


cdef int poll() noexcept nogil:
    return check_signals()


cdef fault(name, const Place& at):
    return TextError(name, at.line, at.column, at.token) if at.line else None


cdef void* address(array):
    return NULL if array is None else <void*><size_t>array.ctypes.data


cdef shrunk(array, Py_ssize_t size):
    """Return the array with the memory after the first ``size`` elements released."""
    if array.size != size:
        array.resize(size, refcheck=False)
    return array
