"""How much there is of a problem besides X: what error bounds and losses ask of labels and weights."""

from __future__ import annotations

from typing import NamedTuple


class Extent(NamedTuple):
    """How much there is of a problem besides X, over the rows of all processes.

    Attributes
    ----------
    margins : int
        Margins of all rows.
    parts : int
        Losses that a row adds up: one, or one for each of its labels, or for each threshold between classes.
    weight, most : float
        Length of the weights as shares of their sum, and the largest share.
    labels : float
        Length of what margins are compared with: labels of a regression, the 1 of a hinge.
    mean_label, mean_log : float
        Weighted means of the labels' sizes and, of counts y, of ``2 y log(2 y)`` where that is positive.
    at_zero : float
        The risk at margins of 0, for a loss whose slopes it limits.
    """

    margins: int
    parts: int
    weight: float
    most: float
    labels: float
    mean_label: float = 0.0
    mean_log: float = 0.0
    at_zero: float = 0.0
