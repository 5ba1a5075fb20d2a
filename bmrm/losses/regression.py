"""Losses for real labels, in the residual ``u - y``, and the Poisson loss for counts."""

import numpy as np

from bmrm.errors import DataError
from bmrm.losses.base import ScalarLoss, Vector


class Squared(ScalarLoss):
    """``(u - y)^2 / 2``: ridge regression."""

    name, task, formula = "squared", "regression", "(u - y)^2 / 2"


class Absolute(ScalarLoss):
    """``|u - y|``: least absolute deviation."""

    name, task, formula = "absolute", "regression", "|u - y|"


class Quantile(ScalarLoss):
    """``max(tau (y - u), (1 - tau)(u - y))``: the pinball loss of quantile regression."""

    name, task, parameter = "quantile", "regression", "tau"
    formula = "max(tau (y - u), (1 - tau)(u - y))"


class EpsilonInsensitive(ScalarLoss):
    """``max(0, |u - y| - epsilon)``: support vector regression."""

    name, task, parameter = "epsilon_insensitive", "regression", "epsilon"
    formula = "max(0, |u - y| - epsilon)"


class SquaredEpsilonInsensitive(ScalarLoss):
    """``max(0, |u - y| - epsilon)^2``: L2-loss support vector regression."""

    name, task, parameter = "squared_epsilon_insensitive", "regression", "epsilon"
    formula = "max(0, |u - y| - epsilon)^2"


class Huber(ScalarLoss):
    """``e^2 / 2`` for ``|e| <= delta``, else ``delta (|e| - delta / 2)``, ``e = u - y``."""

    name, task, parameter = "huber", "regression", "delta"
    formula = "(u - y)^2 / 2 if |u - y| <= delta else delta (|u - y| - delta / 2)"


class Poisson(ScalarLoss):
    """``exp(u) - y u``: Poisson regression with the log link; labels are counts."""

    name, task, formula = "poisson", "count", "exp(u) - y u"

    def floor(self, y: Vector, weights: Vector | None) -> float:
        """Return the risk of margins ``log y``."""
        least = y - y * np.log(np.where(y > 0.0, y, 1.0))
        return float(np.average(least, weights=weights))

    def check_labels(self, y: Vector) -> None:
        """Raise `DataError` for a negative count, or when every count is zero."""
        bad = np.flatnonzero(y < 0)
        if bad.size:
            raise DataError(
                f"loss poisson: row {bad[0] + 1} has label {y[bad[0]]:g}, expected a count of at least 0"
            )
        if not np.any(y > 0):
            raise DataError("loss poisson: every label is 0, expected some positive count")
