"""Losses for real labels, in the residual ``u - y``, and the Poisson loss for counts."""

import numpy as np

from bmrm.errors import DataError
from bmrm.losses.base import ScalarLoss, Vector, by_row
from bmrm.losses.extent import Extent


class Squared(ScalarLoss):
    """``(u - y)^2 / 2``: ridge regression."""

    name, task = "squared", "regression"
    about = by_row("(u - y)^2 / 2", "Hoerl, Kennard, Technometrics 12 (1970) 55")
    bend_limit = 1.0


class Absolute(ScalarLoss):
    """``|u - y|``: least absolute deviation."""

    name, task = "absolute", "regression"
    about = by_row("|u - y|", "Bloomfield, Steiger, Least Absolute Deviations (1983)")
    slope_limit = 1.0


class Quantile(ScalarLoss):
    """``max(tau (y - u), (1 - tau)(u - y))``: the pinball loss of quantile regression."""

    name, task, parameter = "quantile", "regression", "tau"
    about = by_row("max(tau (y - u), (1 - tau)(u - y))", "Koenker, Bassett, Econometrica 46 (1978) 33")
    slope_limit = 1.0


class EpsilonInsensitive(ScalarLoss):
    """``max(0, |u - y| - epsilon)``: support vector regression."""

    name, task, parameter = "epsilon_insensitive", "regression", "epsilon"
    about = by_row("max(0, |u - y| - epsilon)", "Drucker, Burges, Kaufman, Smola, Vapnik, NIPS 9 (1997) 155")
    slope_limit = 1.0


class SquaredEpsilonInsensitive(ScalarLoss):
    """``max(0, |u - y| - epsilon)^2``: L2-loss support vector regression."""

    name, task, parameter = "squared_epsilon_insensitive", "regression", "epsilon"
    about = by_row("max(0, |u - y| - epsilon)^2", "Ho, Lin, JMLR 13 (2012) 3323")
    bend_limit = 2.0


class Huber(ScalarLoss):
    """``e^2 / 2`` for ``|e| <= delta``, else ``delta (|e| - delta / 2)``, ``e = u - y``."""

    name, task, parameter = "huber", "regression", "delta"
    about = by_row(
        "(u - y)^2 / 2 if |u - y| <= delta else delta (|u - y| - delta / 2)",
        "Huber, Ann. Math. Stat. 35 (1964) 73",
    )
    bend_limit = 1.0

    @property
    def slope_limit(self) -> float:
        """Delta."""
        return self.parameter_value


class Poisson(ScalarLoss):
    """``exp(u) - y u``: Poisson regression with the log link; labels are counts."""

    name, task = "poisson", "count"
    about = by_row("exp(u) - y u", "Nelder, Wedderburn, J. R. Stat. Soc. A 135 (1972) 370")

    def steepness(self, extent: Extent, risk: float) -> float:
        """Return a bound on the mean of ``exp(u) + y``, from ``exp(u) <= 2 (exp(u) - y u) + 2 y log(2 y)``.

        Twice as much, for a little farther on.
        """
        return 2.0 * (2.0 * max(risk, 0.0) + extent.mean_log + 2.0 * extent.mean_label)

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
