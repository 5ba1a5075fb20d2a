"""Novelty detection: the one-class support vector machine.

Schoelkopf, Platt, Shawe-Taylor, Smola, Williamson, Neural Comp. 13 (2001) 1443, eq. 3.4: minimise over w
and rho

    lam/2 |w|^2 + mean_i max(0, rho - x_i . w) / nu - rho.

With b = -rho the margin is ``u = x . w + b`` and the last term is ``+b``: the loss is ``max(0, -u) / nu``
with an intercept that is never penalised and enters the risk once more on its own.  Labels are ignored.
"""

from bmrm.losses.base import ScalarLoss, Vector, by_row


class Novelty(ScalarLoss):
    """``max(0, -u) / nu + b``: one-class novelty detection; at most a fraction nu of rows has ``u < 0``."""

    name, task, parameter = "novelty", "novelty", "nu"
    about = by_row(
        "max(0, -u) / nu + b",
        "Schoelkopf, Platt, Shawe-Taylor, Smola, Williamson, Neural Comp. 13 (2001) 1443",
    )
    intercept_slope = 1.0
    needs_intercept = True

    @property
    def slope_limit(self) -> float:
        """One over nu."""
        return 1.0 / self.parameter_value

    def floor(self, y: Vector, weights: Vector | None) -> float:
        """Return minus infinity: scaled up, weights and intercept scale the risk, whatever its sign."""
        return -float("inf")
