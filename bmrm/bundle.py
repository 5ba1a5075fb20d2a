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

import numpy as np
from numpy.typing import NDArray

from bmrm import _cpu, _qp
from bmrm.errors import ParameterError
from bmrm.regularizers import Regularizer
from bmrm.vectors import dot

Vector = NDArray[np.float64]

PATIENCE = 50
"""Minimisations for which a cut without mass is kept: it may come back."""

MOST_CUTS, CUT_BYTES = 2000, 1 << 30
"""Default limits of a bundle: its number of cuts, and the bytes that they take."""

MAX_CHANGES = 5000
"""Cuts that may enter or leave in one inner solve; the next outer iteration goes on from there."""


def default_max_cuts(n_features: int, groups: int) -> int:
    """As many cuts as fit in `CUT_BYTES`, within reason."""
    return max(4 * groups, min(MOST_CUTS, CUT_BYTES // (8 * max(1, n_features))))


class Bundle:
    """Cutting planes of a risk that is a sum over ``groups`` blocks of rows.

    Parameters
    ----------
    n_features : int
    groups : int, default 1
        Number of blocks P; every call of `add` brings one cut for each.
    max_cuts : int, optional
        Most cuts kept; beyond it idle cuts go, then cuts of one block are merged into their aggregate.
    threads : int, default 1
    origin : object, optional
        What the cuts bound, for whoever wants to use them again.

    Raises
    ------
    ParameterError
        If ``max_cuts`` leaves a block fewer than 3 cuts: the new one, the aggregate, and one to merge.
    """

    def __init__(
        self,
        n_features: int,
        groups: int = 1,
        max_cuts: int | None = None,
        threads: int = 1,
        origin: object = None,
    ) -> None:
        self.groups, self.threads, self.origin = groups, threads, origin
        self.max_cuts = default_max_cuts(n_features, groups) if max_cuts is None else max_cuts
        if self.max_cuts < 3 * groups:
            raise ParameterError(
                f"max_cuts: found {self.max_cuts}, expected at least {3 * groups}, 3 a cut per pass"
            )
        self.size = 0
        self._allocate(min(self.max_cuts, 32 * groups), n_features)

    def _allocate(self, capacity: int, n_features: int) -> None:
        self._cuts = np.empty((capacity, n_features))
        self._gram = np.zeros((capacity, capacity))
        self._offset, self._alpha = np.zeros(capacity), np.zeros(capacity)
        self._group, self._idle = np.zeros(capacity, np.int32), np.zeros(capacity, np.int32)

    def __len__(self) -> int:
        return self.size

    @property
    def n_features(self) -> int:
        """Length of a cut's gradient."""
        return int(self._cuts.shape[1])

    @property
    def nbytes(self) -> int:
        """Bytes held by the cuts and their Gram matrix."""
        return int(self._cuts.nbytes + self._gram.nbytes)

    @property
    def gradients(self) -> Vector:
        """The cuts' gradients a, shape (cuts, n_features); a view."""
        return self._cuts[: self.size]

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

    def add(self, gradients: Vector, offsets: Vector) -> None:
        """Add one cut for each block: ``R_p(w) >= <gradients[p], w> + offsets[p]``."""
        self._make_room()
        first, n = self.size, self.size + self.groups
        new = slice(first, n)
        self._cuts[new], self._offset[new] = gradients, offsets
        self._group[new], self._idle[new] = np.arange(self.groups), 0
        # The first cuts hold all the mass; later ones get theirs from the QP.
        self._alpha[new] = 1.0 if first == 0 else 0.0
        rows = np.empty((n, self.groups))
        _cpu.gram(self._cuts[:n], self._cuts[new], rows, threads=self.threads)
        self._gram[:n, new] = rows
        self._gram[new, :n] = rows.T
        # Last, so that an interrupt leaves a bundle of whole cuts.
        self.size = n

    def minimise(self, reg: Regularizer, best: float, rel_tol: float) -> tuple[Vector, float]:
        """Minimise the model.

        Parameters
        ----------
        reg : Regularizer
        best : float
            The best objective known.
        rel_tol : float
            The QP may end with a gap of this share of ``best`` minus its dual value.

        Returns
        -------
        w : ndarray of shape (n_features,)
            The model's minimiser.
        bound : float
            A lower bound on the optimum.
        """
        n = self.size
        gradient = np.empty(n)
        tiny = 1e-15 * max(1.0, abs(best))
        _qp.solve(
            self._gram,
            self._offset[:n],
            self._group[:n],
            self.groups,
            reg.lam,
            self._alpha[:n],
            gradient,
            best=best,
            rel_tol=rel_tol,
            abs_tol=tiny,
            max_changes=MAX_CHANGES,
        )
        alpha = self._alpha[:n]
        self._idle[:n] = np.where(alpha > 0.0, 0, self._idle[:n] + 1)
        a = np.empty(self.n_features)
        _cpu.combine(self._cuts[:n], alpha, a, threads=self.threads)
        w = reg.minimiser(a)
        return w, reg.value(w) + dot(w, a) + dot(self._offset[:n], alpha)

    def _make_room(self) -> None:
        """Make place for one more cut a block."""
        idle = self._idle[: self.size] > PATIENCE
        if np.count_nonzero(idle) > self.size // 4:
            self._keep(np.flatnonzero(~idle))
        wanted = self.size + self.groups
        if wanted > self.max_cuts:
            self._drop_idle(wanted - self.max_cuts)
        while self.size + self.groups > self.max_cuts:
            self._merge_lightest()
        if self.size + self.groups > len(self._offset):
            self._grow(min(self.max_cuts, 2 * len(self._offset)))

    def _grow(self, capacity: int) -> None:
        n, cuts, gram = self.size, self._cuts, self._gram
        scalars = self._offset, self._alpha, self._group, self._idle
        self._allocate(capacity, self.n_features)
        self._cuts[:n], self._gram[:n, :n] = cuts[:n], gram[:n, :n]
        self._offset[:n], self._alpha[:n], self._group[:n], self._idle[:n] = (x[:n] for x in scalars)

    def _keep(self, kept: NDArray[np.intp]) -> None:
        n = len(kept)
        # Row by row, without a copy of the cuts: kept increases, so a row is read before it is overwritten.
        for to, source in enumerate(kept):
            if to != source:
                self._cuts[to] = self._cuts[source]
        self._offset[:n], self._alpha[:n] = self._offset[kept], self._alpha[kept]
        self._group[:n], self._idle[:n] = self._group[kept], self._idle[kept]
        self._gram[:n, :n] = self._gram[np.ix_(kept, kept)]
        self.size = n

    def _drop_idle(self, count: int) -> None:
        """Drop up to ``count`` cuts without mass, those that have been idle longest first."""
        idle = np.flatnonzero(self.alpha == 0.0)
        longest = idle[np.argsort(-self._idle[idle], kind="stable")][:count]
        self._keep(np.setdiff1d(np.arange(self.size), longest))

    def _merge_lightest(self) -> None:
        """Replace the two lightest cuts of the fullest block by their weighted mean.

        The mean is a cut too, and the dual value stays what it was: no bound is lost (Kiwiel 1983).
        """
        counts = np.bincount(self.blocks, minlength=self.groups)
        members = np.flatnonzero(self.blocks == int(counts.argmax()))
        i, j = np.sort(members[np.argsort(self._alpha[members], kind="stable")][:2])
        mass = self._alpha[i] + self._alpha[j]
        share = self._alpha[i] / mass if mass > 0.0 else 0.5
        n = self.size
        for array in (self._cuts, self._offset):
            array[i] = share * array[i] + (1.0 - share) * array[j]
        row = share * self._gram[i, :n] + (1.0 - share) * self._gram[j, :n]
        row[i] = share * row[i] + (1.0 - share) * row[j]
        self._gram[i, :n] = self._gram[:n, i] = row
        self._alpha[i], self._idle[i] = mass, 0
        self._keep(np.delete(np.arange(n), j))
