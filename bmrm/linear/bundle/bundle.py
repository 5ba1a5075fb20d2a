"""The bundle: cutting planes of the risk, their Gram matrix, and the lower bound that they certify.

The rows are split into P blocks and the risk into P parts, ``R = R_1 + ... + R_P``; each part has its own
cutting planes ``R_p(w) >= <a, w> + b``.  With one block this is the bundle of Teo et al. (JMLR 11 (2010)
311, algorithm 1); with several it is the disaggregated bundle, a better model from the same pass over the
data.  The model

    J_t(w) = lam Omega(w) + sum_p max_{i in p} <a_i, w> + b_i  <=  J(w)

is minimised through its dual, a QP over a product of simplices (``src_cython/qp/qp.h``).  The dual value at
any feasible alpha is a lower bound on the optimum; here it is evaluated from the vector ``A' alpha``
itself, not from the Gram matrix, so that rounding of the latter cannot leak into a certificate.

Cuts bound R for any lam, so one bundle serves a whole path of lam.  How the model is minimised depends on the
penalty: `inner_model` chooses.
"""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmrm.base.arguments import integer
from bmrm.base.vectors import Indices, Vector, dot, dot_rows, read_only_view
from bmrm.errors import DeviceMemoryError, ParameterError
from bmrm.linear.bundle import _qp
from bmrm.linear.bundle.cut_model import rounding_gap
from bmrm.linear.bundle.inner_model import InnerModel
from bmrm.linear.bundle.inner_qp import MAX_CHANGES
from bmrm.linear.bundle.store import CutStore, StoredCuts
from bmrm.linear.objective.passes import CutBatch, Iterate, Weights
from bmrm.linear.objective.running_error import Blur, ErrorBound, MeanBlur, largest
from bmrm.linear.regularizers import Regularizer

MAX_IDLE_MINIMISATIONS = 50
"""The number of minimisations for which a cut without mass is kept: it may come back."""

MASS_TOL = 1e-10
"""Maximum deviation from 1 of the masses of a block in a mean; the deviation is counted in the bound."""

FLOOR_ERROR = 2.0**-48
"""Relative error of the floor of a loss: it is a mean of the least losses of rows."""

NO_BLUR = Blur(*(np.zeros(1) for _ in Blur._fields))
"""That of cuts that rounding has done nothing to."""

MAX_CUTS = 2000
"""Default of the maximum number of cuts, if as many fit."""

FIRST_PASSES = 32
"""Passes whose cuts have room from the start."""


class Bundle:
    """Cutting planes of a risk that is a sum over ``groups`` blocks of rows.

    - ``groups``: number of blocks P; every call of `add` brings one cut for each
    - ``max_cuts``: maximum number of cuts kept; beyond it idle cuts go, then cuts of one block are merged
      into their aggregate. Fewer if memory runs out.
    - ``origin``: identifies the risk that the cuts bound, so that they can be used again for the same one
    - ``floor``: a number that the risk is nowhere below: a cut that costs nothing
    - ``merges``: the number of times that ``max_cuts`` has cost a cut with mass
    - ``floored``: whether the floor is one of the cuts
    - ``first_objective``: size of the objective at the start of the current solve
    - ``lost``: by how much cancelling products of rows lowered the last bound of `minimiser`
    - ``radius``: how far from the prior mean the bounds of the last `minimise` cover features without a
      penalty
    - ``passed_on``: whether a solve that starts from these cuts may go on with them instead of a copy,
      because their owner no longer looks at them

    Raise `ParameterError` if ``max_cuts`` leaves a block fewer than 3 cuts: the new one, the aggregate, and
    one to merge.
    """

    merges = 0
    lost = 0.0
    passed_on = False
    radius = np.inf
    errors: ErrorBound | None = None
    """What rounding in float64 may hide; see `watch`."""
    centre: Any = 0.0
    """The intercept that errors of cuts are measured from."""
    floored = False
    first_objective = 1.0

    def __init__(
        self,
        store: CutStore,
        groups: int = 1,
        max_cuts: int | None = None,
        origin: object = None,
        floor: float = -np.inf,
        threads: int = 1,
    ) -> None:
        self.store, self.groups, self.origin, self.floor, self.threads = store, groups, origin, floor, threads
        self.max_cuts = max(4 * groups, min(MAX_CUTS, store.most)) if max_cuts is None else max_cuts
        if integer("max_cuts", self.max_cuts) < 3 * groups:
            raise ParameterError(
                f"max_cuts: found {self.max_cuts}, expected at least {3 * groups}, 3 per block"
            )
        self.size, self._made = 0, 0
        self.active_set = _qp.ActiveSet()
        self._allocate(min(self.max_cuts, FIRST_PASSES * groups))

    def _allocate(self, capacity: int) -> None:
        self.store.reserve(capacity)
        self._gram = np.zeros((capacity, capacity))
        self._offset, self._alpha = np.zeros(capacity), np.zeros(capacity)
        self._group, self._idle = np.zeros(capacity, np.int32), np.zeros(capacity, np.int32)
        self._serial = np.zeros(capacity, np.int64)
        self._know(np.zeros((len(Blur._fields), capacity)))
        self._tabulate()

    def _tabulate(self) -> None:
        """Make the compiled table of the scalars of cuts, over the arrays that hold them."""
        self._table = _qp.Table(
            self._gram, self._offset, self._alpha, self._group, self._idle, self._serial, self._blurs
        )

    def _know(self, blurs: Vector) -> None:
        """Set what rounding may have done to cuts, one row per field of `Blur`."""
        self._blurs = np.ascontiguousarray(blurs)
        self._blur = Blur(*self._blurs)

    def __len__(self) -> int:
        return self.size

    @property
    def n_features(self) -> int:
        """Length of a cut's gradient."""
        return self.store.width

    @property
    def nbytes(self) -> int:
        return self.store.nbytes + int(self._gram.nbytes)

    @property
    def gradients(self) -> Vector:
        """The cuts' gradients a, shape (cuts, n_features); not to be written to."""
        self.store.size = self.size
        return read_only_view(self.store.get())

    @property
    def offsets(self) -> Vector:
        """The cuts' offsets b, shape (cuts,); a view that cannot be written to."""
        return read_only_view(self._offset[: self.size])

    @property
    def blocks(self) -> NDArray[np.int32]:
        """The block of rows that each cut belongs to, shape (cuts,); a view that cannot be written to."""
        return read_only_view(self._group[: self.size])

    @property
    def alpha(self) -> Vector:
        """The dual solution of the last `minimise`, shape (cuts,); a view that cannot be written to."""
        return read_only_view(self._alpha[: self.size])

    def set_alpha(self, alpha: Vector) -> None:
        self._alpha[: self.size] = alpha

    @property
    def whole(self) -> bool:
        return self.store.whole

    @property
    def metric(self) -> Vector | None:
        return self.store.metric if self.whole else None

    def change_metric(self, metric: Vector) -> None:
        self.store.size = n = self.size
        self.active_set, self._gram[:n, :n] = _qp.ActiveSet(), self.store.change_metric(metric)

    @property
    def serials(self) -> Indices:
        return read_only_view(self._serial[: self.size])

    @property
    def made(self) -> int:
        return self._made

    def _number(self, count: int) -> Indices:
        self._made += count
        return np.arange(self._made - count, self._made)

    def add(self, cut: CutBatch) -> bool:
        """Add one cut for each block, ``R_p(w) >= <a_p, w> + b_p``, after `make_room`.

        Return whether they were added: not if they are not finite, or too steep for float64.
        """
        return self._append(self.store.append(cut.planes), cut.offsets, cut.blur or NO_BLUR)

    def _append(self, products: Vector, offsets: Vector, blur: Blur) -> bool:
        if not self._table.append(products, offsets, self._made):
            self.store.size = self.size
            return False
        self._made += self.groups
        new = slice(self.size, self.size + self.groups)
        for array, known in zip(self._blur, blur, strict=True):
            array[new] = known
        # Last, so that an interrupt leaves a bundle of whole cuts.
        self.size += self.groups
        return True

    def add_floor(self) -> None:
        """Add the plane that lies at the floor, once, after `make_room`: it costs nothing and has no slope.

        Nothing is added if only the whole risk has the floor. With several blocks the floor must be 0: then
        that of each part is too.
        """
        if self.floored or not (self.floor == 0.0 or (self.groups == 1 and self.floor > -np.inf)):
            return
        products = self.store.append_level(self.groups)
        if products is not None:
            offsets = np.full(self.groups, self.floor)
            self.floored = self._append(
                products, offsets, NO_BLUR._replace(error=FLOOR_ERROR * np.abs(offsets))
            )

    def only(self, kept: NDArray[np.intp]) -> Bundle:
        """Return an independent bundle on the host with copies of some of the cuts, their alpha included.

        Cuts on a device serve only the solves of their own bundle: a copy of them has no origin.
        """
        self.store.size = self.size
        other = copy.copy(self)
        other.active_set, other.passed_on, other.floored = _qp.ActiveSet(), False, False
        other.store = self.store.only(kept)
        if type(other.store) is not type(self.store):
            other.origin = None
        other._gram = self._gram[np.ix_(kept, kept)]
        other._offset, other._alpha = self._offset[kept], self._alpha[kept]
        other._group, other._idle = self._group[kept], self._idle[kept]
        other._serial, other.size = self._serial[kept], len(kept)
        other._know(self._blurs[:, kept])
        other._tabulate()
        return other

    def active(self) -> Bundle:
        """Return an independent bundle with the cuts that hold mass in the last inner problem."""
        return self.only(np.flatnonzero(self.alpha))

    def working(self) -> StoredCuts:
        """Copy the cuts that hold mass: they carry the whole bound."""
        held = np.flatnonzero(self.alpha > 0.0)
        blur = Blur(*(array[held] for array in self._blur))
        blur = blur._replace(error=blur.error + blur.tilt * largest(self.centre))  # from 0
        return StoredCuts(
            self.store.taken(held), self._offset[held], self._group[held], self._alpha[held], blur
        )

    def restore(self, cuts: StoredCuts) -> None:
        """Fill an empty bundle with cuts of another one with the same number of columns and blocks.

        Raise `ParameterError` if ``max_cuts`` leaves no room for them.
        """
        n = len(cuts.offsets)
        if n > self.max_cuts:
            raise ParameterError(f"max_cuts: found {self.max_cuts}, expected at least {n} for the old cuts")
        self._allocate(max(len(self._offset), n))
        self._gram[:n, :n] = self.store.put(cuts.gradients)
        self._offset[:n], self._group[:n], self._alpha[:n] = cuts.offsets, cuts.blocks, cuts.alpha
        self._serial[:n] = self._number(n)
        for array, known in zip(self._blur, cuts.blur, strict=True):
            array[:n] = known
        self.size = n

    def minimise(self, model: InnerModel, best: Iterate, rel_tol: float) -> tuple[Weights, float]:
        """Minimise the cutting-plane model plus a penalty, near the best point; see `InnerModel.minimise`."""
        model.reach(best.w)
        self.radius = model.radius
        if self.errors is not None:
            self.errors.radius = model.radius
        w, bound = model.minimise(self, best.objective, rel_tol, best.w)
        self._table.age(self.size)
        return w, bound

    def watch(self, errors: ErrorBound | None) -> None:
        """Count what rounding in float64 may hide of a solve that uses the cuts, from now on."""
        self.errors = errors
        if errors is not None:
            moved = largest(errors.centre - self.centre)
            self._blur.error[: self.size] += self._blur.tilt[: self.size] * moved
            self.centre = errors.centre

    def blur(self, alpha: Vector) -> MeanBlur:
        return MeanBlur(*self._table.blur_of_mean(alpha))

    def mass(self, alpha: Vector) -> float:
        """Return the largest deviation from 1 of the masses of a block; infinity if one is negative."""
        return self._table.missed(alpha, self.groups)

    def certified(self, least: float, alpha: Vector, size: float) -> float:
        mass = self.mass(alpha)
        if not mass <= MASS_TOL:
            return -np.inf
        if self.errors is None:
            return least
        blur = self.blur(alpha)
        sums = len(alpha) + self.merges
        bound = least - self.errors.of_mean(blur, size, mass, sums, self.errors.softness if size else 0.0)
        return self.errors.less_tilt(bound, blur.tilt)

    def maximise(
        self,
        lam: float,
        best: float,
        rel_tol: float,
        offsets: Vector | None = None,
        origin: Vector | None = None,
    ) -> tuple[float, float]:
        return self._table.maximise(
            self.size,
            self.groups,
            lam,
            self.active_set,
            best=best,
            rel_tol=rel_tol,
            abs_tol=rounding_gap(best),
            max_changes=MAX_CHANGES,
            offsets=offsets,
            origin=origin,
        )

    def steep_cuts(self, since: int, min_square: float) -> list[int]:
        return self._table.steep(self.size, since, min_square)

    def minimiser(self, reg: Regularizer, near: Weights) -> tuple[Weights, float]:
        alpha = self._alpha[: self.size]
        w, least = self.store.minimise(reg, alpha, near)
        if not least < np.inf:  # far away the square of w may overflow: then there is no bound
            return w, -np.inf
        least, size, errors = least + self._table.offset_of_mean(self.size), 0.0, self.errors
        if errors is not None:
            length, sums = self.store.combined_length(w), len(alpha) + self.merges
            self.lost = errors.of_combination(self.blur(alpha), length, sums) if length else 0.0
            least -= self.lost
            size = errors.size(w)
            size = math.sqrt(size * size + 2.0 * self.lost * errors.softness)  # ** 2 of a float may raise
        return w, self.certified(least, alpha, size)

    def evaluate_cuts(self, reg: Regularizer, w: Weights) -> tuple[Weights, Vector, float] | None:
        found = self.store.products(w)
        if found is None:
            return None
        w, products, square = found
        heights, bound = self.offsets + products, -np.inf
        if square is not None:
            size = 0.0 if self.errors is None else self.errors.size(w)
            least = self._table.offset_of_mean(self.size) - 0.5 * reg.lam * square
            bound = self.certified(least, self._alpha[: self.size], size)
        return w, heights, bound

    def depth(self, lam: float) -> float:
        """Return how far the minimum of ``lam/2 |w|^2`` plus the mean plane is below the value at 0."""
        n = self.size
        return 0.5 * dot(self.alpha, dot_rows(self._gram[:n, :n], self.alpha)) / lam

    def make_room(self) -> None:
        """Make room for one more cut per block."""
        if self._table.count_idle(self.size, MAX_IDLE_MINIMISATIONS) > self.size // 4:
            self._keep(np.flatnonzero(self._idle[: self.size] <= MAX_IDLE_MINIMISATIONS))
        wanted = self.size + self.groups
        if wanted > self.max_cuts:
            self._drop_idle(wanted - self.max_cuts)
        if self.size + self.groups > len(self._offset) and len(self._offset) < self.max_cuts:
            try:
                self._grow(min(self.max_cuts, 2 * len(self._offset)))
            except DeviceMemoryError:
                self.max_cuts = len(self._offset)
        while self.size + self.groups > self.max_cuts:
            self._merge_lightest()
        self.store.size = self.size

    def _grow(self, capacity: int) -> None:
        n, gram = self.size, self._gram
        scalars = self._scalars()
        self._allocate(capacity)
        self._gram[:n, :n] = gram[:n, :n]
        for array, old in zip(self._scalars(), scalars, strict=True):
            array[:n] = old[:n]

    def _scalars(self) -> tuple[NDArray[Any], ...]:
        return self._offset, self._alpha, self._group, self._idle, self._serial, *self._blur

    def _keep(self, kept: NDArray[np.intp]) -> None:
        n = len(kept)
        # One by one, without a copy of all: `kept` increases, so a cut is read before it is overwritten.
        for to, source in enumerate(kept):
            if to != source:
                self.store.move(to, int(source))
        for array in self._scalars():
            array[:n] = array[kept]
        self._gram[:n, :n] = self._gram[np.ix_(kept, kept)]
        self.size = n

    def _drop_idle(self, count: int) -> None:
        """Drop up to ``count`` cuts without mass, the longest idle first."""
        idle = np.flatnonzero(self._mass() == 0.0)
        longest = idle[np.argsort(-self._idle[idle], kind="stable")][:count]
        self._keep(np.setdiff1d(np.arange(self.size), longest))

    def _merge_lightest(self) -> None:
        """Replace the two lightest cuts of the fullest block by their weighted mean.

        The mean is a cut too, and the dual value stays the same: no bound is lost (Kiwiel, Math. Programming
        27 (1983) 320).
        """
        counts = np.bincount(self.blocks, minlength=self.groups)
        members = np.flatnonzero(self.blocks == int(counts.argmax()))
        weight = self._mass()
        i, j = np.sort(members[np.argsort(weight[members], kind="stable")][:2])
        mass = weight[i] + weight[j]
        share = weight[i] / mass if mass > 0.0 else 0.5
        n = self.size
        self.store.merge(int(i), int(j), float(share))
        self._offset[i] = share * self._offset[i] + (1.0 - share) * self._offset[j]
        for array in self._blur:
            array[i] = share * array[i] + (1.0 - share) * array[j]
        row = share * self._gram[i, :n] + (1.0 - share) * self._gram[j, :n]
        row[i] = share * row[i] + (1.0 - share) * row[j]
        self._gram[i, :n] = self._gram[:n, i] = row
        self._move_mass(j, i)
        self._idle[i], self._serial[i] = 0, self._number(1)[0]
        self._keep(np.delete(np.arange(n), j))
        self.merges += 1

    def _mass(self) -> Vector:
        """Mass of each cut: one without mass can be dropped, and light ones are cheap to merge."""
        return self._alpha[: self.size]

    def _move_mass(self, source: int, to: int) -> None:
        self._alpha[to] += self._alpha[source]
