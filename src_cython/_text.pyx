"""Texts in memory and in files, which the readers parse, and their faults."""

from bmrm.io._text cimport Bytes, kPadding

import numpy as np


class ChangedError(Exception):
    """A file has fewer bytes than when it was opened."""


class LongLineError(Exception):
    """A line is longer than ``LONGEST_LINE``."""


class TextError(Exception):
    """A fault in a text: its name, and the line, column (both from 1) and offset of the token."""

    def __init__(self, name, line, column, offset):
        super().__init__(name, line, column, offset)
        self.name = name
        self.line = line
        self.column = column
        self.offset = offset


include "text/exceptions.pxi"

cdef extern from "text/bytes.h" namespace "text" nogil:
    const size_t kLongestLine

    void read_at(int descriptor, char* to, size_t size, size_t offset) except +raise_python
    Py_ssize_t c_whole_lines "text::whole_lines"(
        const Bytes& text, size_t start, size_t stop, size_t length) except +raise_python


PADDING = kPadding
LONGEST_LINE = kLongestLine


cdef class Text:
    """A text in memory; see the stub."""

    def __dealloc__(self):
        del self.bytes

    @staticmethod
    cdef Text of(text):
        """Return a text as it is, or that of a buffer."""
        if isinstance(text, Text):
            return text
        cdef Text made = Text.__new__(Text)
        made.memory = text
        cdef const char* p = ""
        if made.memory.shape[0]:
            p = <const char*>&made.memory[0]
        made.bytes = new Bytes(p, made.memory.shape[0])
        return made

    cdef int check_range(self, Py_ssize_t start, Py_ssize_t stop) except -1:
        """Raise unless this is a range of the text, which in memory is followed by padding."""
        cdef Py_ssize_t padding = 0 if isinstance(self, FileText) else kPadding
        if not 0 <= start <= stop <= <Py_ssize_t>self.bytes.size() - padding:
            raise ValueError("range outside the text, or text without its padding")
        return 0


cdef class FileText(Text):
    """The text of a file; see the stub."""

    cdef int descriptor

    def __cinit__(self, int descriptor, Py_ssize_t size):
        if size < 0:
            raise ValueError("size must not be negative")
        self.descriptor = descriptor
        self.bytes = new Bytes(descriptor, size)

    def __len__(self):
        return self.bytes.size()

    def read(self, Py_ssize_t start, Py_ssize_t stop):
        """Return the bytes ``[start, stop)``."""
        self.check_range(start, stop)
        found = np.empty(stop - start, np.uint8)
        read_into(self.descriptor, found, start)
        return found.tobytes()


def read_into(int descriptor, unsigned char[::1] to, size_t offset):
    """Fill an array with the bytes of a file from an offset on."""
    cdef size_t size = to.shape[0]
    cdef char* p = <char*>&to[0] if size else NULL
    with nogil:
        read_at(descriptor, p, size, offset)


def whole_lines(text, Py_ssize_t start, Py_ssize_t size, Py_ssize_t length):
    """Return the end of the last line that ends in ``text[start:start + size]``, else of the next, else -1."""
    cdef Text held = Text.of(text)
    if not 0 <= start <= length <= <Py_ssize_t>held.bytes.size() or size < 1:
        raise ValueError("window outside the text")
    cdef Py_ssize_t stop = start + min(size, length - start)
    cdef Py_ssize_t end
    with nogil:
        end = c_whole_lines(held.bytes[0], start, stop, length)
    return end
