"""The bundle: cutting planes of the risk, their Gram matrix, and the lower bound that they certify.

The rows are split into P blocks and the risk into P parts, ``R = R_1 + ... + R_P``; each part has its own
cutting planes ``R_p(w) >= <a, w> + b``.  With one block this is the bundle of Teo et al. (JMLR 11 (2010)
311, algorithm 1); with several it is the disaggregated bundle, a better model from the same pass over the
data.  The model

    J_t(w) = lam Omega(w) + sum_p max_{i in p} <a_i, w> + b_i  <=  J(w)

is minimised through its dual, a QP over a product of simplices (``src_cython/qp.h``).  The dual value at
any feasible alpha is a lower bound on the optimum; here it is evaluated from the vector ``A' alpha``
itself, not from the Gram matrix, so that rounding of the latter cannot leak into a certificate.

Cuts bound R whatever lam is, so one bundle serves a whole path of lam.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmrm import _qp
from bmrm.cut_store import Cuts, Fillable, Store, Weighable
from bmrm.errors import DeviceMemoryError, ParameterError
from bmrm.inner_qp import MAX_CHANGES, tiny
from bmrm.objective import Cut, Iterate, Weights
from bmrm.regularizers import Regularizer
from bmrm.vectors import dot

Vector = NDArray[np.float64]

PATIENCE = 50
"""Minimisations for which a cut without mass is kept: it may come back."""

OFF = 4e-15
"""Share of the terms that an offset is the difference of, ``R(w)`` and ``<a, w>``, by which it may be off.
Where lam is small the first points are far away, and these terms 1e5 times what they are near the optimum."""

MOST_CUTS = 2000
"""Most cuts where nobody says how many to keep, if as many fit."""


class Bundle:
    """Cutting planes of a risk that is a sum over ``groups`` blocks of rows.

    Parameters
    ----------
    store : Store
    groups : int, default 1
        Number of blocks P; every call of `add` brings one cut for each.
    max_cuts : int, optional
        Most cuts kept; beyond it idle cuts go, then cuts of one block are merged into their aggregate.
        Fewer where memory ends earlier.
    origin : object, optional
        What the cuts bound, for whoever wants to use them again.
    floor : float, default -inf
        A number that the risk is nowhere below: a cut that costs nothing.
    threads : int, default 1

    Attributes
    ----------
    merged : bool
        Whether ``max_cuts`` has cost cuts that had mass.
    passed_on : bool
        Whether a solve that starts from these cuts may go on with them, rather than with a copy: whoever had
        them looks at them no more.

    Raises
    ------
    ParameterError
        If ``max_cuts`` leaves a block fewer than 3 cuts: the new one, the aggregate, and one to merge.
    """

    merged = False
    passed_on = False

    def __init__(
        self,
        store: Store,
        groups: int = 1,
        max_cuts: int | None = None,
        origin: object = None,
        floor: float = -np.inf,
        threads: int = 1,
    ) -> None:
        self.store, self.groups, self.origin, self.floor, self.threads = store, groups, origin, floor, threads
        self.max_cuts = max(4 * groups, min(MOST_CUTS, store.most)) if max_cuts is None else max_cuts
        if self.max_cuts < 3 * groups:
            raise ParameterError(
                f"max_cuts: found {self.max_cuts}, expected at least {3 * groups}, 3 a cut per pass"
            )
        self.size, self._made = 0, 0
        self.face = _qp.Face()
        self._allocate(min(self.max_cuts, 32 * groups))

    def _allocate(self, capacity: int) -> None:
        self.store.reserve(capacity)
        self._gram = np.zeros((capacity, capacity))
        self._offset, self._alpha = np.zeros(capacity), np.zeros(capacity)
        self._group, self._idle = np.zeros(capacity, np.int32), np.zeros(capacity, np.int32)
        self._serial = np.zeros(capacity, np.int64)
        self._terms = np.zeros(capacity)
        self._tabulate()

    def _tabulate(self) -> None:
        """Make the table of what is known of cuts as numbers, once its arrays are there."""
        self._table = _qp.Table(self._gram, self._offset, self._alpha, self._group, self._idle, self._serial)

    def __len__(self) -> int:
        return self.size

    @property
    def n_features(self) -> int:
        """Length of a cut's gradient."""
        return self.store.width

    @property
    def nbytes(self) -> int:
        """Bytes held by the cuts and their Gram matrix."""
        return self.store.nbytes + int(self._gram.nbytes)

    @property
    def gradients(self) -> Vector:
        """The cuts' gradients a, shape (cuts, n_features)."""
        self.store.size = self.size
        return self.store.get()

    @property
    def offsets(self) -> Vector:
        """The cuts' offsets b, shape (cuts,); a view."""
        return self._offset[: self.size]

    @property
    def blocks(self) -> NDArray[np.int32]:
        """The block of rows that each cut belongs to, shape (cuts,); a view."""
        return self._group[: self.size]

    @property
    def alpha(self) -> Vector:
        """The dual solution of the last `minimise`, shape (cuts,); a view."""
        return self._alpha[: self.size]

    @property
    def whole(self) -> bool:
        """Whether whole gradients are on the host, so that their products may be taken in another metric."""
        return getattr(self.store, "whole", False)  # asked each pass: quicker than the protocol

    @property
    def metric(self) -> Vector | None:
        """Weights of the features in inner products; None where all are 1."""
        return self.store.metric if self.whole else None  # type: ignore[attr-defined]

    def weigh(self, metric: Vector) -> None:
        """Take inner products in another metric from now on."""
        assert isinstance(self.store, Weighable)
        self.store.size = n = self.size
        self.face, self._gram[:n, :n] = _qp.Face(), self.store.weigh(metric)

    @property
    def serials(self) -> NDArray[np.int64]:
        """A number for each cut, which no other ever had, shape (cuts,); a view."""
        return self._serial[: self.size]

    @property
    def made(self) -> int:
        """The number that the next cut will have."""
        return self._made

    def _number(self, count: int) -> NDArray[np.int64]:
        self._made += count
        return np.arange(self._made - count, self._made)

    def add(self, cut: Cut) -> bool:
        """Add one cut for each block, ``R_p(w) >= <a_p, w> + b_p``, after `make_room`.

        False, and nothing added, where they are not finite, or too steep for numbers of float64.
        """
        if not self._table.append(self.store.append(cut.planes), cut.offsets, self._made):
            self.store.size = self.size
            return False
        self._made += self.groups
        n, at_point = self.size, cut.planes.at_point
        self._terms[n : n + self.groups] = np.maximum(np.abs(at_point), np.abs(cut.offsets + at_point))
        # Last, so that an interrupt leaves a bundle of whole cuts.
        self.size += self.groups
        return True

    def only(self, kept: NDArray[np.intp]) -> Bundle:
        """Return a bundle of its own, on the host, with copies of some of the cuts, their alpha included.

        Cuts on a device serve no solve but those of their own bundle: a copy of them has no origin.
        """
        self.store.size = self.size
        other = copy.copy(self)
        other.face, other.passed_on = _qp.Face(), False
        other.store = self.store.only(kept)
        if type(other.store) is not type(self.store):
            other.origin = None
        other._gram = self._gram[np.ix_(kept, kept)]
        other._offset, other._alpha = self._offset[kept], self._alpha[kept]
        other._group, other._idle = self._group[kept], self._idle[kept]
        other._serial, other._terms = self._serial[kept], self._terms[kept]
        other.size = len(kept)
        other._tabulate()
        return other

    def active(self) -> Bundle:
        """Return a bundle of its own with the cuts that hold mass in the last inner problem."""
        return self.only(np.flatnonzero(self.alpha))

    def working(self) -> Cuts:
        """Copy the cuts that hold mass: they alone carry the bound."""
        held = np.flatnonzero(self.alpha > 0.0)
        return Cuts(self.store.taken(held), self._offset[held], self._group[held], self._alpha[held])

    def restore(self, cuts: Cuts) -> None:
        """Fill an empty bundle with cuts of another, with as many columns and blocks.

        Raises
        ------
        ParameterError
            If ``max_cuts`` leaves no room for them.
        """
        n = len(cuts.offsets)
        if n + self.groups > self.max_cuts:
            raise ParameterError(
                f"max_cuts: found {self.max_cuts}, expected at least {n + self.groups} for the old cuts"
            )
        assert isinstance(self.store, Fillable)
        self._allocate(max(len(self._offset), n))
        self._gram[:n, :n] = self.store.put(cuts.gradients)
        self._offset[:n], self._group[:n], self._alpha[:n] = cuts.offsets, cuts.blocks, cuts.alpha
        self._serial[:n], self._terms[:n] = self._number(n), np.abs(cuts.offsets)
        self.size = n

    def minimise(self, reg: Regularizer, best: Iterate, rel_tol: float) -> tuple[Weights, float]:
        """Minimise the model, by the regulariser's inner solver.

        Parameters
        ----------
        reg : Regularizer
        best : Iterate
            The best point known; where the regulariser has no curvature, the minimiser is sought near it.
        rel_tol : float
            The inner solver may end with a gap of this share of its objective minus the dual value.

        Returns
        -------
        w : Weights
            The model's minimiser.
        bound : float
            A lower bound on the optimum.
        """
        w, bound = reg.minimise_model(self, best.objective, rel_tol, best.w)
        self._table.age(self.size)
        return w, bound - self._hidden(best.objective)

    def _hidden(self, objective: float) -> float:
        """Return how far up rounding of the offsets may put the bound, beyond that of numbers like J."""
        return OFF * max(0.0, dot(self.alpha, self._terms[: self.size]) - abs(objective))

    def maximise(self, lam: float, best: float, rel_tol: float, offsets: Vector | None = None) -> None:
        """Maximise the dual for ``lam/2 |w|^2`` in alpha, up to ``rel_tol`` of ``best`` minus its value.

        The offsets are the cuts', or those given.
        """
        self._table.maximise(
            self.size,
            self.groups,
            lam,
            self.face,
            best=best,
            rel_tol=rel_tol,
            abs_tol=tiny(best),
            max_changes=MAX_CHANGES,
            offsets=offsets,
        )

    def steep(self, since: int, most: float) -> list[int]:
        """Return the numbers of cuts with serials from ``since`` on whose square is above ``most``."""
        return self._table.steep(self.size, since, most)

    def minimiser(self, reg: Regularizer, near: Weights) -> tuple[Weights, float]:
        """Minimise ``lam Omega(w) + <A' alpha, w> + <b, alpha>``; return w and the minimum."""
        w, least = self.store.minimise(reg, self.alpha, near)
        return w, least + self._table.offset_of_mean(self.size)

    def make_room(self) -> None:
        """Make place for one more cut a block."""
        if self._table.count_idle(self.size, PATIENCE) > self.size // 4:
            self._keep(np.flatnonzero(self._idle[: self.size] <= PATIENCE))
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
        """All that is known of cuts as a number each."""
        return self._offset, self._alpha, self._group, self._idle, self._serial, self._terms

    def _keep(self, kept: NDArray[np.intp]) -> None:
        n = len(kept)
        # One by one, without a copy of all: kept increases, so a cut is read before it is overwritten.
        for to, source in enumerate(kept):
            if to != source:
                self.store.move(to, int(source))
        for array in self._scalars():
            array[:n] = array[kept]
        self._gram[:n, :n] = self._gram[np.ix_(kept, kept)]
        self.size = n

    def _drop_idle(self, count: int) -> None:
        """Drop up to ``count`` cuts without mass, those that have been idle longest first."""
        idle = np.flatnonzero(self._mass() == 0.0)
        longest = idle[np.argsort(-self._idle[idle], kind="stable")][:count]
        self._keep(np.setdiff1d(np.arange(self.size), longest))

    def _merge_lightest(self) -> None:
        """Replace the two lightest cuts of the fullest block by their weighted mean.

        The mean is a cut too, and the dual value stays what it was: no bound is lost (Kiwiel 1983).
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
        self._terms[i] = share * self._terms[i] + (1.0 - share) * self._terms[j]
        row = share * self._gram[i, :n] + (1.0 - share) * self._gram[j, :n]
        row[i] = share * row[i] + (1.0 - share) * row[j]
        self._gram[i, :n] = self._gram[:n, i] = row
        self._move_mass(j, i)
        self._idle[i], self._serial[i] = 0, self._number(1)[0]
        self._keep(np.delete(np.arange(n), j))
        self.merged = True

    def _mass(self) -> Vector:
        """Mass of each cut, which says what can be dropped and what is cheap to merge."""
        return self.alpha

    def _move_mass(self, source: int, to: int) -> None:
        self._alpha[to] += self._alpha[source]
