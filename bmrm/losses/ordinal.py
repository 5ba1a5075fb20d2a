"""Ordinal regression: ordered classes, told apart by thresholds on one score."""

from __future__ import annotations

import numpy as np

from bmrm.losses._joint import JointRisk
from bmrm.losses.base import Vector
from bmrm.losses.extent import Extent
from bmrm.losses.joint import JointLoss, bind, members, together


class Ordinal(JointLoss):
    """``min over theta of sum_k max(0, 1 - y_ik (u_i - theta_k))``.

    ``y_ik`` is +1 where the class of row i is above k, else -1: a hinge for each of the thresholds between
    the classes, all of them for every row.  The thresholds are minimised out, and come out in order.  A row
    is predicted the class between whose thresholds its margin lies.

    References
    ----------
    Chu, Keerthi, Neural Comp. 19 (2007) 792, section 4 (implicit constraints); Shashua, Levin, NIPS 15
    (2002); Rennie, Srebro, IJCAI workshop 2005 (all thresholds).

    Examples
    --------
    >>> import numpy as np
    >>> loss, levels = Ordinal(), np.array([0.0, 1.0, 2.0])
    >>> loss.evaluate(np.array([-2.0, 0.0, 2.0]), levels)[0]
    0.0
    >>> loss.thresholds(np.array([-2.0, 0.0, 2.0]), levels, None)
    array([-1.,  1.])
    """

    name, task = "ordinal", "ordinal"
    no_intercept = "its thresholds take the place of one"
    about = together(
        "min over theta of the mean over rows of sum_k max(0, 1 - y_ik (u_i - theta_k)), "
        "y_ik = 1 if y_i > k else -1",
        "Chu, Keerthi, Neural Comp. 19 (2007) 792",
        "O(m log m + m classes)",
    )

    def steepness(self, extent: Extent, risk: float) -> float:
        """Return the length of the weights, times the thresholds: each has a hinge for every row."""
        return extent.weight * extent.parts

    def joint_risk(self, y: Vector, weights: Vector | None, threads: int) -> JointRisk:
        """Bind the loss to levels and weights."""
        found = members(weights, None, len(y))
        level = y[found.rows].astype(np.int64)
        share = np.array([1.0 / found.weights.sum()])
        return bind("ordinal", found, level, share, weight=found.weights, k=int(y.max()) + 1, threads=threads)

    def thresholds(self, margins: Vector, y: Vector, weights: Vector | None) -> Vector:
        """Return the thresholds that minimise the risk at some margins, in ascending order."""
        found = self.joint_risk(y, weights, 1).thresholds(np.ascontiguousarray(margins))
        return np.asarray(np.maximum.accumulate(found))  # in order but for the rounding of their middles
