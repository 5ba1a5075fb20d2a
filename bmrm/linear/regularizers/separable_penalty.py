"""A penalty with kinks and bounds: l1, the elastic net, weights of one sign, features without a penalty."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from bmrm.base.vectors import Vector
from bmrm.linear.regularizers.base import Reach
from bmrm.linear.regularizers.separable import Separable


class SeparablePenalty:
    """A sum over features of kinks, parabolas and intervals; see `Separable`.

    Parameters
    ----------
    name : str
    lam : float
    terms : Separable
        The strength ``lam`` is in them already.
    params : dict of str to float or bool
        What to report besides name and lam.
    vectors : mapping of str to ndarray, optional
        The vectors that the user gave, by the name of the option.

    Examples
    --------
    >>> none, inf = np.zeros(2), np.full(2, np.inf)
    >>> penalty = SeparablePenalty("l1", 0.5, Separable(none + 0.5, none, none, -inf, inf), {})
    >>> penalty.value(np.array([3.0, -4.0]))
    3.5
    """

    metric: Vector | None = None
    plain = False

    def __init__(
        self,
        name: str,
        lam: float,
        terms: Separable,
        params: dict[str, float | bool],
        vectors: Mapping[str, Vector] | None = None,
    ) -> None:
        self.name, self.lam, self.terms, self.params = name, lam, terms, params
        self.vectors = vectors or {}
        self.sparse = bool(terms.l1.any())
        self.needs_floor = not terms.l2.all()
        self.value, self.smooth_gradient, self.minimiser = terms.value, terms.smooth_gradient, terms.minimiser
        self.project, self.line, self.face, self.land = terms.project, terms.line, terms.face, terms.land

    @property
    def curvature(self) -> Vector:
        return self.terms.l2

    @property
    def prior(self) -> Vector:
        return self.terms.prior

    def total(self, sums: Vector) -> Vector:
        return sums

    def start(self, n_features: int) -> Vector:
        return self.project(self.terms.prior)

    def reach(self, lengths: Vector | float) -> Reach:
        assert isinstance(lengths, np.ndarray)
        terms = self.terms
        curved, free = terms.l2 > 0.0, terms.free
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            softness = np.where(lengths > 0.0, np.square(lengths) / terms.l2, 0.0)
            kinked = np.where(curved | free, 0.0, lengths / terms.l1).max(initial=0.0)
        return Reach(
            float(softness.sum()), float(softness[curved].sum()), float(kinked), float(lengths[free].sum())
        )

    def trim(self, w: Vector, sparser: Vector) -> Vector:
        p = self.terms
        kept = (sparser == p.prior) & (p.l1 > 0.0) | (sparser == p.low) | (sparser == p.high)
        return np.where(kept, sparser, w)

    def proximal(self, w: Vector, slope: Vector, bend: float) -> Vector:
        return self.terms.minimiser(slope, np.full(len(w), bend), w)
