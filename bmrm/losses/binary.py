"""Losses for two classes, labels -1 and +1, in the functional margin ``y u``."""

import numpy as np

from bmrm.losses.base import ScalarLoss


class Hinge(ScalarLoss):
    """``max(0, 1 - y u)``: the support vector machine."""

    name, task, formula = "hinge", "binary", "max(0, 1 - y u)"


class SquaredHinge(ScalarLoss):
    """``max(0, 1 - y u)^2``: the L2-loss support vector machine."""

    name, task, formula = "squared_hinge", "binary", "max(0, 1 - y u)^2"


class HuberHinge(ScalarLoss):
    """The hinge with its kink rounded by a parabola over ``|1 - y u| <= h`` (Chapelle 2007)."""

    name, task, parameter = "huber_hinge", "binary", "h"
    formula = "max(0, 1 + h - y u)^2 / (4 h) if 1 - y u <= h else 1 - y u"


class Logistic(ScalarLoss):
    """``log(1 + exp(-y u))``: logistic regression."""

    name, task, formula = "logistic", "binary", "log(1 + exp(-y u))"

    @staticmethod
    def probability(margins: np.ndarray) -> np.ndarray:
        """Probability of the class +1 at each margin."""
        return 0.5 * (1.0 + np.tanh(0.5 * margins))


class Exponential(ScalarLoss):
    """``exp(-y u)``: the loss of boosting."""

    name, task, formula = "exponential", "binary", "exp(-y u)"
