"""Binding of the SVMlight reader: text in memory to CSR arrays, and the checksum of the cache."""

from cpython.buffer cimport PyBuffer_FillInfo
from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libcpp cimport bool as cbool
from sink cimport *

import numpy as np


cdef extern from "svmlight/block.h" namespace "svmlight" nogil:
    const int64_t kMaxIndex
    const int kPadding

    cdef enum class CFault "svmlight::Fault"(int):
        kNone

    cdef struct Place:
        int64_t line
        int64_t column
        const char* token

    cdef cppclass Options:
        int64_t smallest
        int64_t largest
        int32_t base
        cbool query_id
        cbool sum_duplicates

    cdef cppclass Arrays[Value]:
        int64_t* row_ends
        int32_t* indices
        Value* values
        double* labels
        int64_t* queries

cdef extern from "svmlight/reader.h" namespace "svmlight" nogil:
    ctypedef int (*Poll)() noexcept nogil

    cdef cppclass Reader:
        Reader(const char* text, size_t length, size_t block_bytes, int threads, Poll poll) except +
        cbool count_all() except +
        cbool parse_all[Value](
            const Options& options, const Arrays[Value]& arrays, const svmlight_sink* sink) except +
        cbool find_zero() except +
        int64_t label_count()
        void gather_labels(const double* single, double* labels, int64_t* starts)
        int64_t rows
        int64_t nonzeros
        int64_t lines
        int64_t most_pairs
        int64_t max_index
        int32_t index_shift
        cbool sink_failed
        cbool has_zero
        cbool ones
        cbool has_lists
        CFault fault
        Place fault_at
        Place no_label_at
        Place largest_at

cdef extern from "svmlight/entries.h" namespace "svmlight" nogil:
    cdef struct Entries:
        int64_t count
        int64_t row_count
        int64_t column_count
        int64_t* rows
        int64_t* columns
        double* values

    int64_t c_read_entries "svmlight::read_entries"(
        const char* text, int64_t start, int64_t length, const Entries& entries
    )

cdef extern from "svmlight/rows.h" namespace "svmlight" nogil:
    cdef struct RowSource:
        const int64_t* indptr
        const void* columns
        const void* values
        int column_bytes, value_bytes

    cbool take_rows_of(
        const RowSource& source, const int64_t* rows, int64_t count, const int64_t* indptr, void* columns,
        void* values, int threads, Poll poll) except +


cdef extern from "svmlight/mapped_file.h" namespace "svmlight" nogil:
    cdef cppclass CMappedFile "svmlight::MappedFile":
        CMappedFile(int descriptor, size_t size) except +
        char* data()
        void release(int threads) except +

cdef extern from "svmlight/checksum.h" namespace "svmlight" nogil:
    uint64_t c_checksum "svmlight::checksum"(
        const unsigned char* p, size_t size, int threads, cbool indices, uint32_t columns, cbool* in_range
    ) except +

cdef extern from "<cstring>" nogil:
    const void* memchr(const void* p, int c, size_t size)
    const void* memrchr(const void* p, int c, size_t size)

cdef extern from *:
    """
    /* Gives the exception that PyErr_CheckSignals has left a way out of Cython code. */
    static int raise_pending(void) { return PyErr_Occurred() ? -1 : 0; }
    """
    int raise_pending() except -1
    int PyErr_CheckSignals()  # no `except`: the exception stays pending until the threads have ended


MAX_INDEX = kMaxIndex
PADDING = kPadding


cdef int check_signals() noexcept with gil:
    return PyErr_CheckSignals()


cdef int poll() noexcept nogil:
    return check_signals()


cdef class MappedFile:
    """A file mapped for reading, as a buffer of its bytes followed by ``PADDING`` zeros."""

    cdef CMappedFile* mapped
    cdef Py_ssize_t size

    def __cinit__(self, int descriptor, Py_ssize_t size):
        self.mapped = new CMappedFile(descriptor, size)
        self.size = size + kPadding

    def __dealloc__(self):
        del self.mapped

    def release(self, int threads):
        """Give the pages back, faster than ending the mapping does; the bytes stay readable."""
        with nogil:
            self.mapped.release(threads)

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, self.mapped.data(), self.size, 1, flags)


class TextError(Exception):
    """What is wrong with a text: a name, and the line, column (from 1) and offset of the token."""

    def __init__(self, name, line, column, offset):
        super().__init__(name, line, column, offset)
        self.name = name
        self.line = line
        self.column = column
        self.offset = offset


FAULTS = ("", "label", "no_label", "pair", "index", "value", "range", "repeated", "query", "changed")


class Parsed:
    """What `parse` found; see the stub for the fields."""

    __slots__ = (
        "has_lists", "has_zero", "indices", "indptr", "labels", "label_starts", "lines", "largest_at",
        "max_index", "no_label_at", "query", "values",
    )


def parse(
    const unsigned char[::1] text,
    Py_ssize_t start,
    Py_ssize_t stop,
    *,
    zero_based,
    int64_t largest,
    dtype,
    bint query_id,
    bint sum_duplicates,
    int threads,
    size_t block_bytes,
    land=None,
):
    """Parse whole lines ``text[start:stop]``; see the stub for the arguments."""
    if not 0 <= start <= stop <= text.shape[0] - kPadding:
        raise ValueError("text lacks its padding")
    if block_bytes < 1:
        raise ValueError("block_bytes must be positive")
    cdef bint single = np.dtype(dtype) == np.float32
    cdef Options options
    options.smallest = 1 if zero_based is False else 0
    options.largest = largest
    options.base = 0 if zero_based is True else 1
    options.query_id = query_id
    options.sum_duplicates = sum_duplicates

    cdef Reader* reader = new Reader(<const char*>&text[0] + start, stop - start, block_bytes, threads, poll)
    try:
        with nogil:
            complete = reader.count_all()
        if not complete:
            raise_pending()
        sink = None if land is None else land(reader.rows, reader.nonzeros, reader.most_pairs)
        return fill(reader, options, single, <const char*>&text[0], sink)
    finally:
        del reader


cdef fill(Reader* reader, Options& options, bint single, const char* text, sink):
    """Allocate the arrays that the counts ask for, and parse into them, or into a sink."""
    cdef cbool complete
    cdef const svmlight_sink* into = NULL
    cdef Arrays[float] floats
    cdef Arrays[double] doubles
    indptr = np.empty(reader.rows + 1, np.int64)
    labels = np.empty(reader.rows, np.float64)
    query = np.empty(reader.rows, np.int64) if options.query_id else None
    indices = values = None
    if sink is None:
        indices = np.empty(reader.nonzeros, np.int32)
        values = np.empty(reader.nonzeros, np.float32 if single else np.float64)
    else:
        into = <const svmlight_sink*>PyCapsule_GetPointer(sink.capsule, SVMLIGHT_SINK)

    indptr[0] = 0
    doubles.row_ends = <int64_t*>address(indptr) + 1
    doubles.indices = <int32_t*>address(indices)
    doubles.labels = <double*>address(labels)
    doubles.queries = <int64_t*>address(query)
    if single:
        floats.row_ends = doubles.row_ends
        floats.indices = doubles.indices
        floats.labels = doubles.labels
        floats.queries = doubles.queries
        floats.values = <float*>address(values)
        with nogil:
            complete = reader.parse_all[float](options, floats, into)
    else:
        doubles.values = <double*>address(values)
        with nogil:
            complete = reader.parse_all[double](options, doubles, into)
    if not complete:
        raise_pending()
    if reader.sink_failed:
        raise sink.failure
    no_label = fault("no_label", reader.no_label_at, text)
    if <int>reader.fault != 0:
        if no_label is not None and not reader.has_lists and no_label.line < reader.fault_at.line:
            raise no_label
        raise fault(FAULTS[<int>reader.fault], reader.fault_at, text)

    parsed = Parsed()
    parsed.indptr = shrunk(indptr, reader.rows + 1)
    if sink is None:
        parsed.indices = shrunk(indices, reader.nonzeros)
        parsed.values = None if reader.ones else shrunk(values, reader.nonzeros)
    else:
        parsed.indices, values = sink.settle(reader.nonzeros, reader.index_shift)
        parsed.values = None if reader.ones else values
    parsed.labels = shrunk(labels, reader.rows)
    parsed.label_starts = None
    if reader.has_lists:
        single_labels = parsed.labels
        parsed.labels = np.empty(reader.label_count(), np.float64)
        parsed.label_starts = np.empty(reader.rows + 1, np.int64)
        reader.gather_labels(
            <double*>address(single_labels),
            <double*>address(parsed.labels),
            <int64_t*>address(parsed.label_starts),
        )
    parsed.query = None if query is None else shrunk(query, reader.rows)
    parsed.lines = reader.lines
    parsed.max_index = reader.max_index
    parsed.has_zero = reader.has_zero
    parsed.has_lists = reader.has_lists
    parsed.no_label_at = no_label
    parsed.largest_at = fault("range", reader.largest_at, text)
    return parsed


cdef fault(name, const Place& at, const char* text):
    return TextError(name, at.line, at.column, at.token - text) if at.line else None


cdef void* address(array):
    return NULL if array is None else <void*><size_t>array.ctypes.data


def shrunk(array, Py_ssize_t size):
    """Give back the memory behind the first ``size`` elements."""
    if array.size != size:
        array.resize(size, refcheck=False)
    return array


def read_entries(
    const unsigned char[::1] text,
    Py_ssize_t start,
    Py_ssize_t length,
    *,
    shape,
    int64_t[::1] rows,
    int64_t[::1] columns,
    double[::1] values,
):
    """Fill the arrays from Matrix Market entries; see the stub for the arguments."""
    if not 0 <= start <= length <= text.shape[0] - kPadding:
        raise ValueError("text lacks its padding")
    cdef Entries entries
    entries.row_count, entries.column_count = shape
    entries.rows = entries.columns = NULL
    entries.values = NULL
    entries.count = 0
    if values is not None and values.shape[0]:
        entries.count = values.shape[0]
        entries.values = &values[0]
    if rows is not None and rows.shape[0]:
        if columns.shape[0] != rows.shape[0] or (values is not None and values.shape[0] != rows.shape[0]):
            raise ValueError("arrays of different lengths")
        entries.count = rows.shape[0]
        entries.rows, entries.columns = &rows[0], &columns[0]
    cdef int64_t fault
    with nogil:
        fault = c_read_entries(<const char*>&text[0], start, length, entries)
    return fault


def take_rows(const int64_t[::1] indptr, columns, values, const int64_t[::1] rows, *, int threads):
    """Copy rows of a CSR matrix, each with its columns ascending; see the stub for the arguments."""
    lengths = np.diff(indptr)[rows]
    to_indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    total = int(lengths.sum())
    to_columns = np.empty(total, columns.dtype)
    to_values = None if values is None else np.empty(total, values.dtype)
    cdef const int64_t[::1] starts = to_indptr
    cdef RowSource source
    source.indptr, source.columns, source.column_bytes = &indptr[0], address(columns), columns.dtype.itemsize
    source.values = address(values)
    source.value_bytes = 0 if values is None else values.dtype.itemsize
    cdef void* columns_there = address(to_columns)
    cdef void* values_there = address(to_values)
    cdef const int64_t* which = &rows[0] if rows.shape[0] else NULL
    cdef int64_t count = rows.shape[0]
    cdef cbool complete
    with nogil:
        complete = take_rows_of(source, which, count, &starts[0], columns_there, values_there, threads, poll)
    if not complete:
        raise_pending()
    return to_indptr, to_columns, to_values


def has_zero_index(const unsigned char[::1] text, Py_ssize_t length, *, int threads, size_t block_bytes):
    """Whether an index 0 occurs in ``text[:length]``, told at a fraction of the time of parsing."""
    if not 0 <= length <= text.shape[0] - kPadding:
        raise ValueError("text lacks its padding")
    cdef cbool found
    cdef Reader* reader = new Reader(<const char*>&text[0], length, block_bytes, threads, poll)
    try:
        with nogil:
            found = reader.find_zero()
        return found
    finally:
        del reader


def whole_lines(const unsigned char[::1] text, Py_ssize_t start, Py_ssize_t size, Py_ssize_t length):
    """End of the last line that ends in ``text[start:start + size]``, else of the first behind, else -1."""
    if not 0 <= start <= length <= text.shape[0] or size < 1:
        raise ValueError("window outside the text")
    cdef const char* p = <const char*>&text[0]
    cdef Py_ssize_t stop = min(start + size, length)
    cdef const void* found = memrchr(p + start, ord("\n"), stop - start)
    if found == NULL:
        found = memchr(p + stop, ord("\n"), length - stop)
    return -1 if found == NULL else <const char*>found - p + 1


def checksum(const unsigned char[::1] data, *, int threads=1):
    """Checksum of bytes; see ``checksum.h``."""
    cdef uint64_t result
    cdef cbool in_range
    cdef const unsigned char* p = &data[0] if data.shape[0] else NULL
    cdef size_t size = data.shape[0]
    with nogil:
        result = c_checksum(p, size, threads, False, 0, &in_range)
    return result


def checksum_indices(const unsigned char[::1] data, uint32_t columns, *, int threads=1):
    """Checksum of the bytes of int32 indices, and whether all are in ``[0, columns)``."""
    cdef uint64_t result
    cdef cbool in_range
    cdef const unsigned char* p = &data[0] if data.shape[0] else NULL
    cdef size_t size = data.shape[0]
    with nogil:
        result = c_checksum(p, size, threads, True, columns, &in_range)
    return result, in_range
