"""Losses for two classes, labelled -1 and +1, as functions of ``y u``."""

from bmrm.losses.base import ScalarLoss, about_row_loss
from bmrm.losses.extent import Extent


class Hinge(ScalarLoss):
    """``max(0, 1 - y u)``: the support vector machine."""

    name, task = "hinge", "binary"
    about = about_row_loss("max(0, 1 - y u)", "Cortes, Vapnik, Mach. Learn. 20 (1995) 273")
    slope_limit = 1.0


class SquaredHinge(ScalarLoss):
    """``max(0, 1 - y u)^2``: the L2-loss support vector machine."""

    name, task = "squared_hinge", "binary"
    about = about_row_loss("max(0, 1 - y u)^2", "Mangasarian, Optim. Methods Softw. 17 (2002) 913")
    curvature_limit = 2.0


class HuberHinge(ScalarLoss):
    """The hinge with its kink rounded by a parabola over ``|1 - y u| <= h`` (Chapelle 2007)."""

    name, task, parameter = "huber_hinge", "binary", "h"
    about = about_row_loss(
        "max(0, 1 + h - y u)^2 / (4 h) if 1 - y u <= h else 1 - y u",
        "Chapelle, Neural Comp. 19 (2007) 1155",
    )
    slope_limit = 1.0


class Logistic(ScalarLoss):
    """``log(1 + exp(-y u))``: logistic regression."""

    name, task = "logistic", "binary"
    about = about_row_loss("log(1 + exp(-y u))", "Cox, J. R. Stat. Soc. B 20 (1958) 215")
    slope_limit = 1.0


class Exponential(ScalarLoss):
    """``exp(-y u)``: the loss of boosting."""

    name, task = "exponential", "binary"
    about = about_row_loss("exp(-y u)", "Freund, Schapire, J. Comput. Syst. Sci. 55 (1997) 119")

    def steepness(self, extent: Extent, risk: float) -> float:
        # The derivatives are as large as the losses; the factor 2 covers points slightly farther on.
        return 2.0 * max(risk, 0.0)
