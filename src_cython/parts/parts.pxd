"""The rule of parts, for bindings (``parts.h``)."""

from libc.stdint cimport int64_t


cdef extern from "parts/parts.h" namespace "bmrm" nogil:
    int64_t c_part_rows "bmrm::part_rows"(int64_t, int64_t)
    void c_add_in_order "bmrm::add_in_order"(const double*, int64_t, int64_t, double*)
