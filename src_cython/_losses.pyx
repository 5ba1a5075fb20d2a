"""Binding of the risk kernels: formulas in ``losses.h``, passes in ``losses/risk.h``, ``class_risk.h``, ``soft_risk.h``."""

from libc.stdint cimport int32_t, int64_t
from libcpp cimport bool as cbool

import numpy as np

include "common/pool.pxi"


cdef extern from "losses/risk.h" namespace "bmrm" nogil:
    cdef struct LossParameter:
        double value
        double width

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
    cdef struct Conjugate:
        pass

    bint risk_conjugates(int loss, const Rows& rows, int64_t m, Conjugate* out)
    int risk_pieces(int loss, const Rows& rows, int64_t m, double* slope, double* places, double* jumps)


cdef extern from "losses/class_risk.h" namespace "bmrm" nogil:
    cdef struct ClassRows:
        const double* z
        const double* dz
        const int32_t* y
        const double* labels
        const double* costs
        const double* unit_costs
        const double* s
        double* r
        int64_t K
        double t
        double scale

    void class_slope(int loss, const ClassRows& rows, int64_t m, int threads, double* sums) except +
    void class_cut(
        int loss, const ClassRows& rows, const int64_t* starts, int64_t blocks, int threads, double* sums
    ) except +


cdef extern from "losses/soft_risk.h" namespace "bmrm" nogil:
    cdef enum SoftKind:
        soft_kind_classes
        soft_kind_labels
        soft_kind_separation

    cdef struct SoftRows:
        const double* z
        const double* dz
        const int32_t* y
        const double* labels
        const double* costs
        const double* unit_costs
        const double* s
        const double* b
        const double* move
        double* r
        int64_t K
        double t
        double scale
        double width
        cbool entropy
        cbool hessian

    void soft_pass(SoftKind kind, const SoftRows& rows, int64_t m, int threads, double* sums) except +


cdef extern from *:
    """
    #include "rounded.h"
    #define BMRM_NAME(name, Loss) #name ,
    static const char* const loss_names[] = {BMRM_LOSSES(BMRM_NAME) nullptr};
    #define BMRM_SMOOTH(name, Loss) bmrm::Loss::smooth,
    static const bool loss_is_smooth[] = {BMRM_LOSSES(BMRM_SMOOTH)};
    #define BMRM_KINKED(name, Loss) bmrm::Rounded<bmrm::Loss>::kinked,
    static const bool loss_is_kinked[] = {BMRM_LOSSES(BMRM_KINKED)};
    #define BMRM_DUAL(name, Loss) bmrm::Dual<bmrm::Loss>::known,
    static const bool dual_is_known[] = {BMRM_LOSSES(BMRM_DUAL)};
    """
    const char* const* loss_names
    const cbool* loss_is_smooth
    const cbool* loss_is_kinked
    const cbool* dual_is_known


def names() -> tuple[str, ...]:
    """Return the names of the compiled losses, in the order of their numbers."""
    found = []
    cdef int k = 0
    while loss_names[k] != NULL:
        found.append(loss_names[k].decode())
        k += 1
    return tuple(found)


cdef int numbered(int loss) except -1:
    """Return the number of a loss, or raise if no loss has it."""
    if not 0 <= loss < len(names()):
        raise ValueError(f"no loss has number {loss}")
    return loss


def smooth(int loss) -> bool:
    """Whether the loss of this number has a second derivative."""
    return loss_is_smooth[numbered(loss)]


def kinked(int loss) -> bool:
    """Whether the loss of this number has kinks that can be rounded."""
    return loss_is_kinked[numbered(loss)]


def has_dual(int loss) -> bool:
    """Whether the conjugate of the loss of this number is known."""
    return dual_is_known[numbered(loss)]


cdef int64_t number_of_blocks(const int64_t[::1] starts, const double[::1] z, double[::1] r) except -1:
    """Return the number of blocks of a cut, or raise if they or the derivatives do not fit the margins."""
    cdef int64_t blocks = starts.shape[0] - 1
    if r.shape[0] != z.shape[0] or blocks < 1 or starts[0] != 0 or starts[blocks] != z.shape[0]:
        raise ValueError("derivatives, blocks and margins disagree in length")
    return blocks


cdef class Risk:
    """Sums of one loss over the rows of one problem, on lines of margins."""

    cdef int loss, threads
    cdef double parameter, scale, width
    cdef const double[::1] y, s
    cdef bint weighted

    def __init__(self, int loss, double parameter, const double[::1] y, s, double scale, int threads):
        self.loss, self.parameter, self.scale, self.threads = numbered(loss), parameter, scale, max(1, threads)
        self.y, self.width = y, 0.0
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
        rows.parameter.value, rows.parameter.width = self.parameter, self.width
        return rows

    def rounded(self, double width):
        """Return the same risk with its kinks smoothed over ``width`` on either side; see ``rounded.h``."""
        cdef Risk other = Risk.__new__(Risk)
        other.loss, other.parameter, other.scale, other.threads = self.loss, self.parameter, self.scale, self.threads
        other.y, other.weighted, other.width = self.y, self.weighted, width
        if self.weighted:
            other.s = self.s
        return other

    def pieces(self):
        """Return slopes (m,), places of kinks (kinks, m) and weights of kinks (kinks, m); see ``rounded.h``."""
        cdef Rows rows = self.rows(self.y, self.y, 0.0, 0.0)
        cdef int64_t m = self.y.shape[0]
        cdef int kinks = risk_pieces(self.loss, rows, m, NULL, NULL, NULL)
        if not kinks:
            raise ValueError("the loss has no kinks that can be rounded")
        slope, places, weights = np.empty(m), np.empty((kinks, m)), np.empty((kinks, m))
        cdef double[::1] slopes = slope
        cdef double[:, ::1] at = places, jumps = weights
        with nogil:
            risk_pieces(self.loss, rows, m, &slopes[0], &at[0, 0], &jumps[0, 0])
        return slope, places, weights

    def conjugates(self):
        """Return each row's conjugate (``conjugates.h``), shape (m, 6): place, width, bend, low, high, entropy."""
        cdef Rows rows = self.rows(self.y, self.y, 0.0, 0.0)
        cdef int64_t m = self.y.shape[0]
        found = np.empty((m, 6))
        cdef double[:, ::1] out = found
        cdef bint known
        with nogil:
            known = risk_conjugates(self.loss, rows, m, <Conjugate*>&out[0, 0])
        if not known:
            raise ValueError("the conjugate of the loss is not known")
        return found

    def slope(self, const double[::1] z, const double[::1] dz, double t, double b):
        """Return the derivatives of the risk of ``z + t dz + b`` in ``t`` and in ``b``."""
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
        """Fill ``r`` with the derivatives at ``z + t dz + b``; return risk and sum of ``r`` per block."""
        cdef Rows rows = self.rows(z, dz, t, b)
        cdef int64_t blocks = number_of_blocks(starts, z, r)
        rows.r = &r[0]
        sums = np.empty((blocks, 2))
        cdef double[:, ::1] view = sums
        with nogil:
            risk_cut(self.loss, rows, &starts[0], blocks, self.threads, &view[0, 0])
        return sums[:, 0], sums[:, 1]

    def curvature(self, const double[::1] z, double b, double[::1] r):
        """Fill ``r`` with the second derivatives at ``z + b``, zeros for a loss with kinks, and return their sum."""
        cdef Rows rows = self.rows(z, z, 0.0, b)
        cdef double sums[2]
        cdef int64_t m = z.shape[0]
        if r.shape[0] != m:
            raise ValueError("derivatives and margins disagree in length")
        rows.r = &r[0]
        with nogil:
            risk_bend(self.loss, rows, m, self.threads, sums)
        return sums[0]


# In the order of ``class_kernels``.
CLASS_LOSSES = ("multiclass", "softmax", "multilabel_ranking")


cdef class _ClassProblem:
    """The rows of one problem, with K margins each.

    ``y`` holds the class of each row, or with ``labels`` -1 or +1 per row and label.
    """

    cdef int threads
    cdef int64_t m, K
    cdef double scale
    cdef const double[::1] s, costs, labels
    cdef double[::1] unit_costs
    cdef int32_t[::1] y

    cdef bind(self, y, bint labels, int64_t K, costs, s, double scale, int threads):
        self.K, self.scale, self.threads = K, scale, max(1, threads)
        self.y, self.labels, self.costs, self.s = None, None, None, None
        if labels:
            self.labels = np.ascontiguousarray(y, np.float64).reshape(-1)
            self.m = self.labels.shape[0] // max(1, K)
            if K < 1 or self.labels.shape[0] != self.m * K:
                raise ValueError("labels: expected one for each class of each row")
        else:
            codes = np.ascontiguousarray(y, np.int32)
            if K < 1 or codes.ndim != 1 or (codes.size and not (codes.min() >= 0 and codes.max() < K)):
                raise ValueError(f"classes: expected numbers from 0 to {K - 1}, one per row")
            self.y, self.m = codes, codes.shape[0]
        if costs is not None:
            self.costs = np.ascontiguousarray(costs, np.float64).reshape(-1)
            if self.costs.shape[0] != K * K:
                raise ValueError(f"costs: expected {K} x {K}")
        unit = np.ones(2 * K)
        unit[K] = 0.0
        self.unit_costs = unit
        if s is not None:
            self.s = s
            if self.s.shape[0] != self.m:
                raise ValueError("weights and labels disagree in length")


cdef class ClassRisk(_ClassProblem):
    """Sums of a loss in the K margins of a row over the rows of one problem, on lines of margins.

    ``y`` holds the class of each row, or (multilabel_ranking) -1 or +1 per row and label. Margins, blocks
    and derivatives are those of `Risk` with K entries per row.
    """

    cdef int loss

    def __init__(self, str loss, y, int64_t K, costs, s, double scale, int threads):
        self.loss = CLASS_LOSSES.index(loss)
        self.bind(y, loss == "multilabel_ranking", K, costs, s, scale, threads)

    cdef ClassRows rows(self, const double[::1] z, const double[::1] dz, double t) except *:
        if z.shape[0] != self.m * self.K or dz.shape[0] != z.shape[0] or not self.m:
            raise ValueError("margins and labels disagree in length")
        cdef ClassRows rows
        rows.z, rows.dz, rows.t = &z[0], &dz[0], t
        rows.y = NULL
        rows.labels = NULL
        rows.costs = NULL
        rows.s = NULL
        rows.r = NULL
        if self.y is not None:
            rows.y = &self.y[0]
        if self.labels is not None:
            rows.labels = &self.labels[0]
        if self.costs is not None:
            rows.costs = &self.costs[0]
        if self.s is not None:
            rows.s = &self.s[0]
        rows.unit_costs = &self.unit_costs[0]
        rows.K, rows.scale = self.K, self.scale
        return rows

    def curvature(self, z, b, r):
        """Raise: these losses have no second derivative."""
        raise NotImplementedError("a loss in several margins has no second derivative")

    def conjugates(self):
        """Return classes, costs (K, K) or None, and weights, which define the conjugates of ``multiclass``."""
        if self.loss:
            raise ValueError("the conjugate of the loss is not known")
        weights = np.full(self.m, self.scale) if self.s is None else self.scale * np.asarray(self.s)
        costs = None if self.costs is None else np.asarray(self.costs).reshape(self.K, self.K)
        return np.asarray(self.y), costs, weights

    def slope(self, const double[::1] z, const double[::1] dz, double t, double b):
        """Return the derivative of the risk of ``z + t dz`` in ``t``; these losses have no common intercept ``b``."""
        cdef ClassRows rows = self.rows(z, dz, t)
        cdef double sums[2]
        with nogil:
            class_slope(self.loss, rows, self.m, self.threads, sums)
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
        """Fill ``r`` with the derivatives at ``z + t dz``; return the risk, and zeros, per block."""
        cdef ClassRows rows = self.rows(z, dz, t)
        cdef int64_t blocks = number_of_blocks(starts, z, r), p
        rows.r = &r[0]
        sums, firsts = np.empty((blocks, 2)), np.empty(blocks + 1, np.int64)
        cdef double[:, ::1] view = sums
        cdef int64_t[::1] row = firsts
        for p in range(blocks + 1):
            row[p] = starts[p] // self.K
            if starts[p] != row[p] * self.K:
                raise ValueError("blocks: expected whole rows")
        with nogil:
            class_cut(self.loss, rows, &row[0], blocks, self.threads, &view[0, 0])
        return sums[:, 0], sums[:, 1]


cdef class SoftRisk(_ClassProblem):
    """The softened risk of a loss in the K margins of a row and an intercept per class; see ``soft_risk.h``.

    ``y`` holds the class of each row, or -1 or +1 per row and label.
    """

    cdef SoftKind kind
    cdef cbool entropy

    def __init__(self, str loss, y, int64_t K, costs, s, double scale, int threads):
        self.entropy = loss == "softmax"
        if loss in ("multiclass", "softmax"):
            self.kind = soft_kind_classes
        elif loss in ("multilabel", "multilabel_ranking"):
            self.kind = soft_kind_labels if loss == "multilabel" else soft_kind_separation
        else:
            raise ValueError(f"loss {loss} is not softened")
        self.bind(y, self.kind != soft_kind_classes, K, costs, s, scale, threads)

    def class_weights(self):
        """Return the weight of each class, shape (K,); ones for labels, of which a row may have several."""
        if self.y is None:
            return np.ones(self.K)
        return self.scale * np.bincount(self.y, None if self.s is None else self.s, self.K)

    def evaluate(
        self,
        const double[::1] z,
        const double[::1] dz,
        double t,
        const double[::1] b,
        double width,
        const double[::1] move=None,
        double[::1] r=None,
        bint hessian=False,
    ):
        """Return level, slope in ``t``, K sums of derivatives and, if wanted, K x K second derivatives.

        Margins are ``z + t dz + b``. Shares are moved as a change ``move`` of b would move them, to first
        order; the derivatives fill ``r``.
        """
        if z.shape[0] != self.m * self.K or dz.shape[0] != z.shape[0]:
            raise ValueError("margins and labels disagree in length")
        if b.shape[0] != self.K or (move is not None and move.shape[0] != self.K):
            raise ValueError("intercepts: expected one for each class")
        if r is not None and r.shape[0] != z.shape[0]:
            raise ValueError("derivatives and margins disagree in length")
        if not width > 0.0 or (self.entropy and move is not None):
            raise ValueError("width: expected a positive number, and for softmax no move")
        cdef SoftRows rows
        sums = np.zeros(2 + self.K + (self.K * self.K if hessian else 0))
        cdef double[::1] out = sums
        if not self.m:
            return sums
        rows.z, rows.dz, rows.t, rows.b = &z[0], &dz[0], t, &b[0]
        rows.y = &self.y[0] if self.y is not None else NULL
        rows.labels = &self.labels[0] if self.labels is not None else NULL
        rows.costs = &self.costs[0] if self.costs is not None else NULL
        rows.unit_costs = &self.unit_costs[0]
        rows.s = &self.s[0] if self.s is not None else NULL
        rows.move = &move[0] if move is not None else NULL
        rows.r = &r[0] if r is not None else NULL
        rows.K, rows.scale, rows.width = self.K, self.scale, width
        rows.entropy, rows.hessian = self.entropy, hessian
        with nogil:
            soft_pass(self.kind, rows, self.m, self.threads, &out[0])
        return sums
