"""Ordinal regression: ordered classes, separated by thresholds on one score."""

from __future__ import annotations

import numpy as np

from bmrm.base.vectors import Vector
from bmrm.losses._joint import JointRisk
from bmrm.losses.extent import Extent
from bmrm.losses.joint import JointLoss, about_joint_loss, bind, collect_members


class Ordinal(JointLoss):
    """``min over theta of sum_k max(0, 1 - y_ik (u_i - theta_k))``.

    ``y_ik`` is +1 if the class of row i is above k, otherwise -1: every row has a hinge for each of the
    thresholds between the classes.  The thresholds are minimised out, and the minimisers are in order.  The
    predicted class of a row is the one between whose thresholds its margin lies.

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
    no_intercept = "its thresholds replace it"
    about = about_joint_loss(
        "min over theta of the mean over rows of sum_k max(0, 1 - y_ik (u_i - theta_k)), "
        "y_ik = 1 if y_i > k else -1",
        "Chu, Keerthi, Neural Comp. 19 (2007) 792",
        "O(m log m + m classes)",
    )

    def steepness(self, extent: Extent, risk: float) -> float:
        return extent.weight * extent.losses_per_row  # a hinge, of slope up to 1, per row and threshold

    def joint_risk(self, y: Vector, weights: Vector | None, threads: int) -> JointRisk:
        found = collect_members(weights, None, len(y))
        level = y[found.rows].astype(np.int64)
        share = np.array([1.0 / found.weights.sum()])
        return bind("ordinal", found, level, share, weight=found.weights, k=int(y.max()) + 1, threads=threads)

    def thresholds(self, margins: Vector, y: Vector, weights: Vector | None) -> Vector:
        found = self.joint_risk(y, weights, 1).thresholds(np.ascontiguousarray(margins))
        return np.asarray(np.maximum.accumulate(found))  # rounding of midpoints may have upset their order
