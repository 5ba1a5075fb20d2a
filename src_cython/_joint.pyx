"""Binding of the joint risks, which take many margins together; the methods are in ``joint/``."""

from libc.stdint cimport int64_t
from libcpp.vector cimport vector

import numpy as np

include "common/pool.pxi"


cdef extern from "joint/pairs.h" namespace "bmrm" nogil:
    cdef cppclass Arena:
        pass

    cdef struct Line:
        const double* z
        const double* dz
        double t
        double b

    cdef struct Problem:
        const int64_t* rows
        const int64_t* starts
        int64_t groups
        const int64_t* level
        const double* weight
        const double* value
        const double* anchor
        const double* share

    cdef cppclass Group:
        Group(const Problem& problem, int64_t g)

    cdef cppclass PairRisk:
        bint graded

    void for_groups[Risk](
        const Problem& problem,
        const Line& line,
        double* r,
        vector[Arena]& arenas,
        const Risk& risk,
        double* values,
        double* constants,
    ) except +


cdef extern from "joint/contingency.h" namespace "bmrm" nogil:
    cdef enum class Measure:
        kFBeta
        kPrecision
        kRecall
        kBreakEven

    cdef cppclass ContingencyRisk:
        Measure measure
        double beta
        int64_t k


cdef extern from "joint/lists.h" namespace "bmrm" nogil:
    cdef cppclass DiscountedGainRisk:
        int64_t k

    cdef cppclass ReciprocalRankRisk:
        pass


cdef extern from "joint/ordinal.h" namespace "bmrm" nogil:
    cdef cppclass OrdinalRisk:
        int64_t levels
        void thresholds(const Group& group, const Line& line, vector[Arena]& arenas, double* out) except +


_KINDS = (
    "pairs",
    "graded_pairs",
    "f_beta",
    "precision_at_k",
    "recall_at_k",
    "prbep",
    "ndcg",
    "mrr",
    "ordinal",
)
cdef dict _NUMBERS = {name: number for number, name in enumerate(_KINDS)}


cdef class JointRisk:
    """One joint risk on the rows of one problem, at points of lines of margins.

    The rows of a group are ordered by level.  An evaluation reuses the memory of the last one, so an object may
    be used by one thread at a time.
    """

    cdef int kind
    cdef vector[Arena] arenas  # one per thread
    cdef int64_t k, needed
    cdef double beta
    cdef const int64_t[::1] rows, starts, level
    cdef const double[::1] weight, value, anchor, share
    cdef double[::1] constant

    def __init__(
        self,
        str kind,
        const int64_t[::1] rows,
        const int64_t[::1] starts,
        const int64_t[::1] level,
        const double[::1] weight,
        const double[::1] value,
        const double[::1] anchor,
        const double[::1] share,
        *,
        int64_t k=1,
        double beta=1.0,
        int threads=1,
    ):
        cdef int64_t n = rows.shape[0], g
        self.kind, self.k, self.beta = _NUMBERS[kind], k, beta
        self.arenas.resize(max(1, threads))
        self.rows, self.starts, self.level = rows, starts, level
        self.weight, self.value, self.anchor, self.share = weight, value, anchor, share
        self.constant = np.zeros(share.shape[0])
        if not n == level.shape[0] == weight.shape[0] == value.shape[0] == anchor.shape[0]:
            raise ValueError("arrays of the rows disagree in length")
        if starts.shape[0] != share.shape[0] + 1 or share.shape[0] < 1 or starts[0] != 0:
            raise ValueError("groups and their shares disagree in number")
        for g in range(share.shape[0]):
            if starts[g + 1] < starts[g]:
                raise ValueError("groups do not follow each other")
        if starts[share.shape[0]] != n or n < 1:
            raise ValueError("groups and rows disagree in length")
        if np.min(rows) < 0 or np.min(level) < 0 or np.max(level) >= max(n, k):
            raise ValueError("a row or a level is out of range")
        falls = np.flatnonzero(np.diff(level) < 0) + 1
        if not np.isin(falls, starts).all():
            raise ValueError("levels do not ascend within a group")
        self.needed = np.max(rows) + 1

    @property
    def parts(self):
        """The arguments as a dictionary, as `bmrm.matrix._cuda.Joint` takes them."""
        return {
            "kind": self.kind,
            "rows": np.asarray(self.rows),
            "starts": np.asarray(self.starts),
            "level": np.asarray(self.level),
            "weight": np.asarray(self.weight),
            "value": np.asarray(self.value),
            "anchor": np.asarray(self.anchor),
            "share": np.asarray(self.share),
            "k": self.k,
            "beta": self.beta,
        }

    @property
    def constants(self):
        """Values at margins 0 of the planes of the last evaluation, one per group."""
        return np.array(self.constant)

    def with_share(self, const double[::1] share):
        """Return the same risk with other weights of its groups."""
        return JointRisk(
            _KINDS[self.kind],
            self.rows,
            self.starts,
            self.level,
            self.weight,
            self.value,
            self.anchor,
            share,
            k=self.k,
            beta=self.beta,
            threads=self.arenas.size(),
        )

    cdef Problem problem(self) noexcept:
        cdef Problem p
        p.rows, p.starts, p.groups = &self.rows[0], &self.starts[0], self.share.shape[0]
        p.level, p.weight, p.value = &self.level[0], &self.weight[0], &self.value[0]
        p.anchor, p.share = &self.anchor[0], &self.share[0]
        return p

    cdef Line line(self, const double[::1] z, const double[::1] dz, double t, double b) except *:
        cdef Line line
        if dz.shape[0] != z.shape[0] or self.needed > z.shape[0]:
            raise ValueError("margins and rows disagree in length")
        line.z, line.dz, line.t, line.b = &z[0], &dz[0], t, b
        return line

    def evaluate(self, const double[::1] z, const double[::1] dz, double t, double b, double[::1] r):
        """Fill ``r`` with a subgradient in the margins ``z + t dz + b``; return each group's part of the risk."""
        cdef Line line = self.line(z, dz, t, b)
        cdef Problem problem = self.problem()
        cdef PairRisk pairs
        cdef ContingencyRisk table
        cdef DiscountedGainRisk gain
        cdef ReciprocalRankRisk reciprocal
        cdef OrdinalRisk ordinal
        if r.shape[0] != z.shape[0]:
            raise ValueError("derivatives and margins disagree in length")
        if self.rows.shape[0] < z.shape[0]:
            r[:] = 0.0
        found = np.empty(self.share.shape[0])
        cdef double[::1] values = found
        with nogil:
            if self.kind < 2:
                pairs.graded = self.kind == 1
                for_groups(problem, line, &r[0], self.arenas, pairs, &values[0], &self.constant[0])
            elif self.kind < 6:
                table.measure, table.beta, table.k = <Measure> (self.kind - 2), self.beta, self.k
                for_groups(problem, line, &r[0], self.arenas, table, &values[0], &self.constant[0])
            elif self.kind == 6:
                gain.k = self.k
                for_groups(problem, line, &r[0], self.arenas, gain, &values[0], &self.constant[0])
            elif self.kind == 7:
                for_groups(problem, line, &r[0], self.arenas, reciprocal, &values[0], &self.constant[0])
            else:
                ordinal.levels = self.k
                for_groups(problem, line, &r[0], self.arenas, ordinal, &values[0], &self.constant[0])
        return found

    def thresholds(self, const double[::1] z):
        """Return the minimising thresholds of the ordinal risk at margins ``z``, midpoints if they are intervals."""
        cdef Line line = self.line(z, z, 0.0, 0.0)
        cdef Problem problem = self.problem()
        cdef OrdinalRisk ordinal
        ordinal.levels = self.k
        found = np.empty(self.k - 1)
        cdef double[::1] view = found
        ordinal.thresholds(Group(problem, 0), line, self.arenas, &view[0])
        return found
