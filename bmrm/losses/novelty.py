"""Novelty detection: the one-class support vector machine.

Schoelkopf, Platt, Shawe-Taylor, Smola, Williamson, Neural Comp. 13 (2001) 1443, eq. 3.4: minimise over w
and rho

    lam/2 |w|^2 + mean_i max(0, rho - x_i . w) / nu - rho.

With b = -rho the margin is ``u = x . w + b`` and the last term is ``+b``: the loss is ``max(0, -u) / nu``
with an intercept that is never penalised and also adds itself to the risk.  Labels are ignored.
"""

from bmrm.base.vectors import Vector
from bmrm.losses.base import ScalarLoss, about_row_loss


class Novelty(ScalarLoss):
    """``max(0, -u) / nu + b``: one-class novelty detection; at most a fraction nu of rows has ``u < 0``."""

    name, task, parameter = "novelty", "novelty", "nu"
    about = about_row_loss(
        "max(0, -u) / nu + b",
        "Schoelkopf, Platt, Shawe-Taylor, Smola, Williamson, Neural Comp. 13 (2001) 1443",
    )
    intercept_slope = 1.0
    needs_intercept = True

    @property
    def slope_limit(self) -> float:
        return 1.0 / self.parameter_value

    def floor(self, y: Vector, weights: Vector | None) -> float:
        # The risk is homogeneous in (w, b), so a negative value can be scaled up without limit.
        return -float("inf")
