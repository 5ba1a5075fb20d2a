"""Exceptions of C++ in Python. To be included after `ChangedError` and `LongLineError` are known."""

from cpython.object cimport PyObject

cdef extern from *:
    """
    #include <new>
    #include <system_error>
    #include "text/bytes.h"

    static PyObject* changed_error;
    static PyObject* long_line_error;

    /* Converts an exception of a reader to a Python exception. */
    static void raise_python() {
        try {
            throw;
        } catch (const text::FileChanged&) {
            PyErr_SetNone(changed_error);
        } catch (const text::LineTooLong&) {
            PyErr_SetNone(long_line_error);
        } catch (const std::system_error& error) {
            errno = error.code().value();
            PyErr_SetFromErrno(PyExc_OSError);
        } catch (const std::bad_alloc&) {
            PyErr_NoMemory();
        } catch (const std::exception& error) {
            PyErr_SetString(PyExc_RuntimeError, error.what());
        }
    }
    """
    void raise_python()
    PyObject* changed_error
    PyObject* long_line_error


changed_error = <PyObject*>ChangedError
long_line_error = <PyObject*>LongLineError
