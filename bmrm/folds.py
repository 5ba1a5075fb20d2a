"""Folds of cross validation as blocks of rows, so that what one fold's solve learns serves all others.

Let Q_g(w) = sum over the rows of fold g of s_i loss_i / S, with S the sum of all weights.  A solve that holds
fold f out minimises

    J_f(w) = lam Omega(w) + c_f sum over g != f of Q_g(w),        c_f = S / (S - S_f).

A cut of Q_g bounds Q_g whatever rows are held out and whatever lam is.  So every pass, whichever fold it is
made for, takes a cut of each Q_g, that of the fold held out included; one bundle (`FoldBundle`) keeps them
for all folds and all lam, and a solve weighs them by c_f and leaves those of its own fold out.  Its lower
bound is exact: a sum of lower bounds of the parts of its own risk.

The Hessian of the risk of all rows is much that of all rows but a fold's, whose mean is over fewer rows of
the same kind, and where it was taken hardly matters, for it only proposes a point.  So Newton's steps of all
folds, and of lam after lam, go by the same few Hessians.

The rows of a fold need not be neighbours in X: vectors over rows are kept sorted by fold, and `RowsByFold`
translates at the two products.
"""

from __future__ import annotations

from collections import deque
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bmrm import _qp
from bmrm.bundle import Bundle
from bmrm.host_steps import HostCuts, HostSteps
from bmrm.inner_qp import maximise, tiny
from bmrm.losses import Loss
from bmrm.losses.base import RowRisk
from bmrm.objective import USELESS, Cut, Design, Iterate, Objective, Planes, Ray, Searched, Starts
from bmrm.regularizers import L2, Regularizer
from bmrm.resident import Matrix
from bmrm.vectors import dot

Vector = NDArray[np.float64]

CHANGED = 0.4
"""Change of the second derivatives, as a share of their sum, up to which the Hessian is that of an earlier
point."""


class Folds(NamedTuple):
    """Rows dealt to folds.

    Attributes
    ----------
    fold_of : ndarray of intp, shape (n_samples,)
        The fold of each row.
    order : ndarray of intp, shape (n_samples,)
        The rows sorted by fold, otherwise in the order of the data.
    starts : ndarray of int64, shape (folds + 1,)
        Where each fold starts in ``order``.
    """

    fold_of: NDArray[np.intp]
    order: NDArray[np.intp]
    starts: NDArray[np.int64]

    @property
    def number(self) -> int:
        """Number of folds."""
        return len(self.starts) - 1

    def rows(self, fold: int) -> NDArray[np.intp]:
        """Return the rows of a fold."""
        return self.order[self.starts[fold] : self.starts[fold + 1]]

    @property
    def is_sorted(self) -> bool:
        """Whether the rows of each fold are neighbours in the data, the folds in order."""
        return bool((np.diff(self.fold_of) >= 0).all())

    def sorted(self) -> Folds:
        """Return the folds of data whose rows were put into ``order``."""
        return Folds(self.fold_of[self.order], np.arange(len(self.order)), self.starts)


def deal(labels: Vector | None, rows: int, folds: int, seed: int) -> Folds:
    """Deal rows to folds: shuffled, then like cards, class by class.

    Parameters
    ----------
    labels : ndarray of shape (rows,), or None
        Classes to spread evenly.
    rows, folds : int
    seed : int
        Of the shuffle.

    Returns
    -------
    Folds

    Examples
    --------
    >>> import numpy as np
    >>> deal(None, 5, 2, seed=0).starts.tolist()
    [0, 3, 5]
    """
    shuffled = np.random.default_rng(seed).permutation(rows)
    if labels is not None:
        shuffled = shuffled[_stable_order(labels[shuffled])]
    fold_of = np.empty(rows, np.intp)
    fold_of[shuffled] = np.arange(rows) % folds
    return by_fold(fold_of, folds)


def _stable_order(codes: NDArray[Any]) -> NDArray[np.intp]:
    """Sort stably; short integers, which classes and folds are as a rule, in two passes over them."""
    with np.errstate(invalid="ignore"):
        short = codes.astype(np.int16)
    return np.argsort(short if (short == codes).all() else codes, kind="stable")


def by_fold(fold_of: NDArray[np.intp], folds: int) -> Folds:
    """Sort rows by their fold."""
    order = _stable_order(fold_of)
    starts = np.concatenate([[0], np.cumsum(np.bincount(fold_of, minlength=folds))]).astype(np.int64)
    return Folds(fold_of, order, starts)


class RowsByFold:
    """A resident matrix whose rows look sorted by fold.

    Parameters
    ----------
    matrix : Matrix
    folds : Folds
    """

    def __init__(self, matrix: Matrix, folds: Folds) -> None:
        self.matrix, self.folds = matrix, folds
        self.shape, self.nnz = matrix.shape, matrix.nnz
        # A column a fold, each with the derivatives of its own rows: X' times it is one read of X.
        self._spread = np.zeros((self.shape[0], folds.number))
        self._z = np.empty(self.shape[0])

    @property
    def weighted_gram_work(self) -> float:
        """Multiply-adds of `weighted_gram`; infinite where X has no such product."""
        return self.matrix.weighted_gram_work

    @property
    def mean_squares(self) -> Vector:
        """Mean square of each column."""
        return self.matrix.mean_squares

    def matvec(self, w: Vector, out: Vector) -> None:
        """``out = X w``, sorted by fold."""
        self.matrix.matvec(w, self._z)
        np.take(self._z, self.folds.order, out=out)

    def rmatvec_blocks(self, r: Vector, starts: NDArray[np.int64], out: Vector) -> None:
        """``out[p] = X_p' r_p`` for each fold, or for all rows at once."""
        rows = self.folds.order
        if len(starts) == 2:
            self._z[rows] = r
            self.matrix.rmatvec_blocks(self._z, starts, out)
            return
        for fold, (i, j) in enumerate(pairwise(starts)):
            self._spread[rows[i:j], fold] = r[i:j]
        out[:] = self.matrix.rmatmat(self._spread).T

    def weighted_gram(self, s: Vector, out: Vector) -> None:
        """``out = X' diag(s) X``."""
        self._z[self.folds.order] = s
        self.matrix.weighted_gram(self._z, out)


class Remembering:
    """A resident matrix that remembers the margins of the last two weight vectors.

    A solve starts where the last one ended, and its answer's margins are asked for again to predict the fold.

    Parameters
    ----------
    matrix : Matrix
    """

    def __init__(self, matrix: Matrix) -> None:
        self._matrix = matrix
        self._known: deque[tuple[Vector, Vector]] = deque()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._matrix, name)

    def matvec(self, w: Vector, out: Vector | None = None) -> Vector:
        """``out = X w``."""
        for known, margins in self._known:
            if np.array_equal(known, w):
                if out is None:
                    return margins.copy()
                out[:] = margins
                return out
        found = self._matrix.matvec(w, out)
        # Into memory that is there already: new pages at each product would cost more than the copy.
        known, margins = (
            self._known.popleft() if len(self._known) == 2 else (np.empty_like(w), np.empty_like(found))
        )
        known[:], margins[:] = w, found
        self._known.append((known, margins))
        return found


class Known(NamedTuple):
    """A point, and what a pass there told of every fold.

    Attributes
    ----------
    w : ndarray of shape (n_features,)
    margins : ndarray of shape (n_samples,)
        Sorted by fold.
    parts : ndarray of shape (folds,)
        Q_g there.
    slopes : ndarray of shape (folds, n_features)
        The gradients of Q_g, where they are known, or nearly so; else without rows.
    """

    w: Vector
    margins: Vector
    parts: Vector
    slopes: Vector


class FoldParts:
    """The parts Q_g of the risk, and a Hessian of their sum, which serves all folds.

    Parameters
    ----------
    design : Design
        With rows sorted by fold.
    risk : RowRisk
        Of all rows.
    starts : ndarray of int64, shape (folds + 1,)
    floors : ndarray of shape (folds,)
        Numbers that the parts are nowhere below.
    """

    def __init__(self, design: Design, risk: RowRisk, starts: NDArray[np.int64], floors: Vector) -> None:
        self.design, self.risk, self.starts, self._floors = design, risk, starts, floors
        self._most = np.inf
        self._derivatives = np.empty(design.shape[0])
        self._curvature: Vector | None = None
        self._hessian = np.empty(0)
        self._doubted = True

    def at(self, w: Vector, margins: Vector, slopes: Vector) -> Known:
        """Evaluate the parts at a point."""
        parts, _ = self.risk.cut(margins, margins, 0.0, 0.0, self.starts, self._derivatives)
        if self._most == np.inf:
            self._most = USELESS * abs(float(parts.sum()))
        return Known(w, margins, parts, slopes)

    def useful(self, planes: Planes, unseen: slice) -> Planes:
        """Put the floor of a part that nobody looked at in the place of a cut that says nothing.

        Rows that are held out may be where exp() has run away: their cut would drown all others.
        """
        gradients, risk, floors = planes.gradients, planes.risk, self._floors[unseen]
        assert isinstance(gradients, np.ndarray)
        says = bool((risk[unseen] <= self._most).all() and np.isfinite(gradients[unseen]).all())
        if not says and np.isfinite(floors).all():
            gradients[unseen], planes.at_point[unseen], risk[unseen] = 0.0, 0.0, floors
        return planes

    def doubt(self) -> None:
        """Look at the second derivatives again before the next step: lam has changed, or a step was poor."""
        self._doubted = True

    def hessian(self, risk: RowRisk, margins: Vector) -> Vector:
        """Return the Hessian of the risk of all rows at a point or one much like it.

        A Hessian only proposes a point: that of another fold's answer, or of another lam's, will do as long
        as the second derivatives of the rows, as ``risk`` tells them, have changed little.
        """
        if self._doubted:
            curvature, self._doubted = np.empty_like(margins), False
            total = risk.curvature(margins, 0.0, curvature)
            if self._curvature is None or np.abs(curvature - self._curvature).sum() > CHANGED * total:
                d = self.design.shape[1]
                self._curvature, self._hessian = curvature, np.empty((d, d))
                self.design.weighted_gram(curvature, self._hessian)
        return self._hessian.copy()


class _FullStep(NamedTuple):
    """The end of a line that a search was content with: its margins, the way there, the parts of the risk."""

    margins: Vector
    direction: Vector
    parts: Vector


class FoldSteps(HostSteps):
    """Steps of all rows but one fold's, with cuts of every fold's part.

    Parameters
    ----------
    parts : FoldParts
    risk : RowRisk
        Of all rows but the fold's.
    held_out : slice
        The blocks that take no part.
    scale : float
        c_f.
    """

    whole = False

    def __init__(self, parts: FoldParts, risk: RowRisk, held_out: slice, scale: float) -> None:
        super().__init__(parts.design, risk, cut_of=parts.risk)
        self._parts, self._held_out, self._scale = parts, held_out, scale
        starts = parts.starts[held_out.start : held_out.stop + 1]
        self._left_out = slice(int(starts[0]), int(starts[-1])) if len(starts) > 1 else slice(0, 0)
        self._full: _FullStep | None = None

    def without(self, parts: Vector) -> Vector:
        """From what is known of every part, the sum of those that take part, as they are weighed."""
        before, after = slice(self._held_out.start), slice(self._held_out.stop, None)
        return np.asarray(self._scale * (parts[before].sum(axis=0) + parts[after].sum(axis=0)))

    def hessian(self, at: Iterate, profile: bool) -> Vector:
        """Hessian of the risk at a point, or one much like it; of all rows, which is much the same."""
        if self.cut_of is not self._parts.risk:  # with kinks rounded another width is another Hessian
            self._parts.doubt()
        return self._parts.hessian(self.cut_of, at.margins)

    def parts_at(self, margins: Vector) -> Vector | None:
        """Tell the parts of the risk at margins where a line was content to end."""
        return self._full.parts if self._full is not None and self._full.margins is margins else None

    def search(self, ray: Ray) -> tuple[Vector, Searched]:
        """Minimise J along a line; return the direction too.

        Where its end may be good enough, all that a cut there needs is made at once, and the slope from that.
        """
        if ray.content:
            z, end, penalty = ray.z, ray.end, ray.penalty
            parts, _ = self.cut_of.cut(end, end, 0.0, 0.0, self._parts.starts, self._derivatives[0])
            dz, r, out = end - z, self._derivatives[0], self._left_out
            last = self._scale * (dot(r, dz) - dot(r[out], dz[out])) + penalty.slope(1.0)
            if abs(last) <= -ray.content * (self.slope(z, dz, 0.0, 0.0)[0] + penalty.slope(0.0)):
                self._full = _FullStep(end, dz, parts)
                return dz, Searched(1.0, end, float(self.without(parts)))
            self._parts.doubt()
        return super().search(ray._replace(content=0.0))

    def planes(
        self, z: Vector, dz: Vector | None, t: float, starts: Starts, w: Vector, end: Vector
    ) -> Planes:
        """Cutting planes at ``z + t dz``, the margins of ``w + t (end - w)``."""
        full = self._full
        if full is None or dz is not full.direction or t != 1.0:
            found = super().planes(z, dz, t, starts, w, end)
        else:
            parts = full.parts.copy()
            found = self._planes(starts, self.between(w, end, t), parts, np.full_like(parts, np.nan))
        return self._parts.useful(found, self._held_out)


class FoldObjective(Objective):
    """The objective of all rows but one fold's, whose cuts are of every fold's part Q_g.

    Parameters
    ----------
    parts : FoldParts
    loss : Loss
    y, weights : ndarray of shape (n_samples,)
        Sorted by fold.
    held_out : int
        The fold that takes no part; the number of folds for none.
    threads : int

    Attributes
    ----------
    scale : float
        c_f.
    """

    def __init__(
        self, parts: FoldParts, loss: Loss, y: Vector, weights: Vector, held_out: int, *, threads: int
    ) -> None:
        rest, starts = weights.copy(), parts.starts
        self._held_out = slice(held_out, held_out + 1)
        if held_out < len(starts) - 1:
            rest[starts[held_out] : starts[held_out + 1]] = 0.0
        inside = float(rest.sum())
        self.scale = float(weights.sum()) / inside
        steps = FoldSteps(parts, loss.risk(y, rest, 1.0 / inside, threads), self._held_out, self.scale)
        super().__init__(parts.design, steps, loss, L2(1.0), profile=False, blocks=1)
        self.starts, self._parts, self._fold_steps = starts, parts, steps
        self._known: list[Known] = []

    @property
    def takes_full_steps(self) -> bool:
        """Whether Newton's point itself will do: from another fold's answer, or another lam's, it is near."""
        return True

    def begin(self, lam: float) -> None:
        """Get ready for a solve."""
        if lam != self.reg.lam:
            self._parts.doubt()
        self.reg, self._fold_steps.seconds = L2(lam), 0.0
        self._known.clear()

    def value(self, point: Known) -> float:
        """J at a known point, from its parts."""
        self._known.append(point)
        return self.reg.value(point.w) + float(self._fold_steps.without(point.parts))

    def known(self, w: Vector) -> Known | None:
        """Tell of a point that was evaluated."""
        return next((point for point in self._known if point.w is w), None)

    def reached(self, best: Iterate, slopes: Vector) -> Known:
        """Return what is known of the best point of a run, with the gradients of the parts there."""
        parts = self._fold_steps.parts_at(best.margins)
        if parts is not None:
            return Known(best.w, best.margins, parts, slopes)
        known = self.known(best.w) or self._parts.at(best.w, best.margins, slopes)
        return known._replace(slopes=slopes)

    def evaluate(self, w: Vector) -> Iterate:
        """Evaluate J at ``w``: from its parts where it is known, else from a new product."""
        point = self.known(w) or self._parts.at(w, self.steps.margins(w), np.empty((0, 0)))
        return Iterate(w, point.margins, 0.0, self.value(point))

    def gradient(self, slopes: Vector) -> Vector:
        """Return the gradient of the risk from those of the parts."""
        return self._fold_steps.without(slopes)

    def risk(self, parts: Vector) -> float:
        """Return the risk from its parts."""
        return float(self._fold_steps.without(parts))


class FoldBundle(Bundle):
    """Cuts of each fold's part of the risk, with a dual solution for each fold that may be held out.

    Parameters
    ----------
    n_features, folds : int
    max_cuts : int, optional
    threads : int, default 1
    """

    def __init__(self, n_features: int, folds: int, max_cuts: int | None = None, threads: int = 1) -> None:
        self._held_out = folds
        super().__init__(HostCuts(n_features, threads), folds, max_cuts, threads=threads)
        self._faces = [_qp.Face() for _ in range(folds + 1)]
        self.hold_out(folds, 1.0)

    def hold_out(self, fold: int, scale: float) -> None:
        """Serve the risk of all rows but one fold's from now on; ``scale`` is c_f."""
        self._held_out, self._scale = fold, scale
        self._alpha = self._alphas[fold]
        self._tabulate()
        # The number of each block in the problem: -1 for that held out, one less behind it.
        self._number_of = np.arange(self.groups, dtype=np.int32)
        self._number_of[fold:] -= 1
        self._number_of[fold : fold + 1] = -1

    def add(self, cut: Cut) -> bool:
        """Add one cut for each fold."""
        first = self.size == 0
        if not super().add(cut):
            return False
        if first:
            # Row f has mass in every block but f; the last row, with nothing held out, in every block.
            self._alphas[:, : self.groups] = 1.0 - np.eye(self.groups + 1, self.groups)
        else:
            self._alphas[:, self.size - self.groups : self.size] = 0.0
        return True

    def minimise(self, reg: Regularizer, best: Iterate, rel_tol: float) -> tuple[Vector, float]:
        """Minimise the model of the objective without the fold held out; see `Bundle.minimise`."""
        n, scale = self.size, self._scale
        # lam Omega + c_f sum_g Q_g is c_f times (lam / c_f) Omega + sum_g Q_g.
        maximise(
            self._gram,
            self.offsets,
            self._number_of[self.blocks],
            self._blocks,
            reg.lam / scale,
            self.alpha,
            best.objective / scale,
            rel_tol,
            tiny(best.objective),
            self.serials,
            self._faces[self._held_out],
        )
        self._idle[:n] = np.where(self._mass() > 0.0, 0, self._idle[:n] + 1)
        w, least = self.store.minimise(reg, scale * self.alpha, best.w)
        return w, least + scale * self._table.offset_of_mean(n)

    def active(self) -> Bundle:
        """Return a bundle with the cuts that hold mass in the last QP, those of blocks that take part."""
        kept = np.flatnonzero(self.alpha)
        blocks, scale = self._blocks, self._scale
        other = Bundle(HostCuts(self.n_features, self.threads), blocks, threads=self.threads)
        other.store = HostCuts.of(scale * self.gradients[kept], self.threads)
        other._gram = scale**2 * self._gram[np.ix_(kept, kept)]
        other._offset, other._alpha = scale * self._offset[kept], self._alpha[kept]
        other._group, other._idle = self._number_of[self._group[kept]], self._idle[kept]
        other._serial = other._number(len(kept))
        other.size = len(kept)
        other._tabulate()
        return other

    @property
    def _blocks(self) -> int:
        """Number of blocks that take part."""
        return self.groups - (self._held_out < self.groups)

    def _mass(self) -> Vector:
        """Mass of each cut over all dual solutions: one that any fold uses is not idle."""
        return np.asarray(self._alphas[:, : self.size].sum(axis=0))

    def _allocate(self, capacity: int) -> None:
        super()._allocate(capacity)
        self._alphas = np.zeros((self.groups + 1, capacity))
        self._alpha = self._alphas[self._held_out]
        self._tabulate()

    def _grow(self, capacity: int) -> None:
        alphas = self._alphas[:, : self.size]
        super()._grow(capacity)
        self._alphas[:, : self.size] = alphas

    def _keep(self, kept: NDArray[np.intp]) -> None:
        alphas = self._alphas[:, kept]
        super()._keep(kept)
        self._alphas[:, : len(kept)] = alphas

    def _move_mass(self, source: int, to: int) -> None:
        self._alphas[:, to] += self._alphas[:, source]
