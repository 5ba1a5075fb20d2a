"""What other compiled modules see of `_text`: the texts that they parse."""

cdef extern from "text/bytes.h" namespace "text" nogil:
    const int kPadding

    cdef cppclass Bytes:
        Bytes(const char* memory, size_t size) except +
        Bytes(int descriptor, size_t size) except +
        size_t size()


cdef class Text:
    cdef Bytes* bytes
    cdef const unsigned char[::1] memory

    @staticmethod
    cdef Text of(text)
    cdef int check_range(self, Py_ssize_t start, Py_ssize_t stop) except -1
