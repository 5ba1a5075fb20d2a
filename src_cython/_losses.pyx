"""Binding of the risk kernels; see ``losses.h`` for the formulas and ``risk.h`` for the passes."""

from libc.stdint cimport int64_t
from libcpp cimport bool as cbool

import numpy as np


cdef extern from "risk.h" namespace "bmrm" nogil:
    cdef struct LossParameter:
        double value

    cdef struct Rows:
        const double* z
        const double* dz
        const double* y
        const double* s
        double* r
        double t
        double b
        double scale
        LossParameter parameter

    void risk_slope(int loss, const Rows& rows, int64_t m, int threads, double* sums) except +
    void risk_cut(
        int loss, const Rows& rows, const int64_t* starts, int64_t blocks, int threads, double* sums
    ) except +
    void risk_bend(int loss, const Rows& rows, int64_t m, int threads, double* sums) except +


cdef extern from *:
    """
    #include "losses.h"
    #define BMRM_NAME(name, Loss) #name ,
    static const char* const loss_names[] = {BMRM_LOSSES(BMRM_NAME) nullptr};
    #define BMRM_SMOOTH(name, Loss) bmrm::Loss::smooth,
    static const bool loss_is_smooth[] = {BMRM_LOSSES(BMRM_SMOOTH)};
    """
    const char* const* loss_names
    const cbool* loss_is_smooth


def names() -> tuple[str, ...]:
    """Names of the compiled losses, in the order of their numbers."""
    found = []
    cdef int k = 0
    while loss_names[k] != NULL:
        found.append(loss_names[k].decode())
        k += 1
    return tuple(found)


def smooth(int loss) -> bool:
    """Whether the loss of this number has a second derivative."""
    if not 0 <= loss < len(names()):
        raise ValueError(f"no loss has number {loss}")
    return loss_is_smooth[loss]


cdef class Risk:
    """Sums of one loss over the rows of one problem, on lines of margins."""

    cdef int loss, threads
    cdef double parameter, scale
    cdef const double[::1] y, s
    cdef bint weighted

    def __init__(self, int loss, double parameter, const double[::1] y, s, double scale, int threads):
        if not 0 <= loss < len(names()):
            raise ValueError(f"no loss has number {loss}")
        self.loss, self.parameter, self.scale, self.threads = loss, parameter, scale, max(1, threads)
        self.y = y
        self.weighted = s is not None
        if self.weighted:
            self.s = s
            if self.s.shape[0] != y.shape[0]:
                raise ValueError("weights and labels disagree in length")

    cdef Rows rows(self, const double[::1] z, const double[::1] dz, double t, double b) except *:
        if z.shape[0] != self.y.shape[0] or dz.shape[0] != z.shape[0]:
            raise ValueError("margins and labels disagree in length")
        cdef Rows rows
        rows.z, rows.dz, rows.y = &z[0], &dz[0], &self.y[0]
        rows.s = &self.s[0] if self.weighted else NULL
        rows.r = NULL
        rows.t, rows.b, rows.scale = t, b, self.scale
        rows.parameter.value = self.parameter
        return rows

    def slope(self, const double[::1] z, const double[::1] dz, double t, double b):
        """Derivatives of the risk of ``z + t dz + b`` in ``t`` and in ``b``."""
        cdef Rows rows = self.rows(z, dz, t, b)
        cdef double sums[2]
        cdef int64_t m = z.shape[0]
        with nogil:
            risk_slope(self.loss, rows, m, self.threads, sums)
        return sums[0], sums[1]

    def cut(
        self,
        const double[::1] z,
        const double[::1] dz,
        double t,
        double b,
        const int64_t[::1] starts,
        double[::1] r,
    ):
        """Fill ``r`` with the derivatives at ``z + t dz + b``; return risk and sum of ``r`` a block."""
        cdef Rows rows = self.rows(z, dz, t, b)
        cdef int64_t blocks = starts.shape[0] - 1
        if r.shape[0] != z.shape[0] or blocks < 1 or starts[0] != 0 or starts[blocks] != z.shape[0]:
            raise ValueError("derivatives, blocks and margins disagree in length")
        rows.r = &r[0]
        sums = np.empty((blocks, 2))
        cdef double[:, ::1] view = sums
        with nogil:
            risk_cut(self.loss, rows, &starts[0], blocks, self.threads, &view[0, 0])
        return sums[:, 0], sums[:, 1]

    def curvature(self, const double[::1] z, double b, double[::1] r):
        """Fill ``r`` with the second derivatives at ``z + b``, zeros for a loss with kinks; return their sum."""
        cdef Rows rows = self.rows(z, z, 0.0, b)
        cdef double sums[2]
        cdef int64_t m = z.shape[0]
        if r.shape[0] != m:
            raise ValueError("derivatives and margins disagree in length")
        rows.r = &r[0]
        with nogil:
            risk_bend(self.loss, rows, m, self.threads, sums)
        return sums[0]
