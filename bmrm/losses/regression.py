"""Losses for real labels, as functions of the residual ``u - y``, and the Poisson loss for counts."""

import numpy as np

from bmrm.base.vectors import Vector
from bmrm.errors import DataError
from bmrm.losses.base import ScalarLoss, about_row_loss
from bmrm.losses.extent import Extent


class Squared(ScalarLoss):
    """``(u - y)^2 / 2``: ridge regression."""

    name, task = "squared", "regression"
    about = about_row_loss("(u - y)^2 / 2", "Hoerl, Kennard, Technometrics 12 (1970) 55")
    curvature_limit = 1.0


class Absolute(ScalarLoss):
    """``|u - y|``: least absolute deviation."""

    name, task = "absolute", "regression"
    about = about_row_loss("|u - y|", "Bloomfield, Steiger, Least Absolute Deviations (1983)")
    slope_limit = 1.0


class Quantile(ScalarLoss):
    """``max(tau (y - u), (1 - tau)(u - y))``: the pinball loss of quantile regression."""

    name, task, parameter = "quantile", "regression", "tau"
    about = about_row_loss(
        "max(tau (y - u), (1 - tau)(u - y))", "Koenker, Bassett, Econometrica 46 (1978) 33"
    )
    slope_limit = 1.0


class EpsilonInsensitive(ScalarLoss):
    """``max(0, |u - y| - epsilon)``: support vector regression."""

    name, task, parameter = "epsilon_insensitive", "regression", "epsilon"
    about = about_row_loss(
        "max(0, |u - y| - epsilon)", "Drucker, Burges, Kaufman, Smola, Vapnik, NIPS 9 (1997) 155"
    )
    slope_limit = 1.0


class SquaredEpsilonInsensitive(ScalarLoss):
    """``max(0, |u - y| - epsilon)^2``: L2-loss support vector regression."""

    name, task, parameter = "squared_epsilon_insensitive", "regression", "epsilon"
    about = about_row_loss("max(0, |u - y| - epsilon)^2", "Ho, Lin, JMLR 13 (2012) 3323")
    curvature_limit = 2.0


class Huber(ScalarLoss):
    """``e^2 / 2`` if ``|e| <= delta``, otherwise ``delta (|e| - delta / 2)``, with ``e = u - y``."""

    name, task, parameter = "huber", "regression", "delta"
    about = about_row_loss(
        "(u - y)^2 / 2 if |u - y| <= delta else delta (|u - y| - delta / 2)",
        "Huber, Ann. Math. Stat. 35 (1964) 73",
    )
    curvature_limit = 1.0

    @property
    def slope_limit(self) -> float:
        return self.parameter_value


class Poisson(ScalarLoss):
    """``exp(u) - y u``: Poisson regression with the log link; labels are counts."""

    name, task = "poisson", "count"
    about = about_row_loss("exp(u) - y u", "Nelder, Wedderburn, J. R. Stat. Soc. A 135 (1972) 370")

    def steepness(self, extent: Extent, risk: float) -> float:
        # The size of the derivative exp(u) - y is at most exp(u) + y, and exp(u) <= 2 (exp(u) - y u) +
        # 2 y log(2 y).  The outer factor 2 covers points slightly farther on.
        return 2.0 * (2.0 * max(risk, 0.0) + extent.mean_log + 2.0 * extent.mean_label)

    def floor(self, y: Vector, weights: Vector | None) -> float:
        least = y - y * np.log(np.where(y > 0.0, y, 1.0))  # at the margin log y
        return float(np.average(least, weights=weights))

    def check_labels(self, y: Vector) -> None:
        bad = np.flatnonzero(y < 0)
        if bad.size:
            raise DataError(
                f"loss poisson: row {bad[0] + 1} has label {y[bad[0]]:g}, expected a count of at least 0"
            )
        if not np.any(y > 0):
            raise DataError("loss poisson: found only labels of 0, expected a positive count")
