"""How steep cuts are in single features: some are too steep for a QP in float64.

A feature of 1e7 among others of 1 has almost no penalty.  The curvature of a cut in it, ``a_j^2 / (lam
s_j)``, drowns what the other features add to an entry of the Gram matrix.  Such a feature is *eased*: it gets
its own proximal term, and the bound is that of the model without the term.
"""

from __future__ import annotations

import numpy as np

from bmrm.base.vectors import Vector
from bmrm.linear.bundle.cut_model import CutModel

MAX_CURVATURE = 1e9
"""Maximum curvature of a cut in one feature, as a multiple of the first objective, that the QP takes as it
is: near 1e12 rounding hides what is left of others in it."""

EASED_SHARE = 1.0 / 256.0
"""Share of `MAX_CURVATURE` that a feature has once it is eased: with more the QP of several blocks still gets
stuck, with less the bound needs more steps."""

MAX_MULTIPLIER_STEPS = 10
"""Maximum number of steps of the method of multipliers in a pass."""


class Steepness:
    """Watches the cuts of one run: each is looked at once."""

    def __init__(self) -> None:
        self._looked = 0

    def of_new(self, cuts: CutModel, weakest: float) -> Vector | None:
        """Return the largest square of an entry of new cuts, per feature, in units of the curvature limit.

        The unit is `MAX_CURVATURE` times the first objective.  Only cuts whose own square is at least
        ``weakest`` units count; None if there are none.
        """
        first = cuts.first_objective
        unit = MAX_CURVATURE * first
        steep = cuts.steep_cuts(self._looked, weakest * unit)
        self._looked = cuts.made
        if not steep:
            return None
        # A cut is also steep if it was taken where the risk is far larger, as if exp() has grown huge there.
        size = np.minimum(1.0, first / np.maximum(np.abs(cuts.offsets[steep]), np.finfo(float).tiny))
        squares = np.square(cuts.gradients[steep] * size[:, None]).max(axis=0)
        if cuts.floored:
            # Masses of cuts are as small as lam then, and none drowns what others do: but features may.
            others = np.sort(squares[squares > 0.0])
            if len(others):
                unit = max(unit, MAX_CURVATURE * float(others[(len(others) - 1) // 2]) / weakest)
        return np.asarray(squares / unit)
