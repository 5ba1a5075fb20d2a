"""The size of a problem apart from X: what error bounds and losses need to know of the rows."""

from __future__ import annotations

from typing import NamedTuple


class Extent(NamedTuple):
    """The size of a problem apart from X, over the rows of all processes."""

    margins: int  # of all rows
    losses_per_row: int  # one, or one per label, or one per threshold between classes
    # Norm of the row weights divided by their sum, and the largest of these quotients
    weight: float
    most: float
    labels: float  # norm of the vector with which margins are compared; see `bmrm.losses.Loss.target_norm`
    # For counts y, the weighted means of y and of ``max(0, 2 y log(2 y))``
    mean_label: float = 0.0
    mean_log: float = 0.0
    offsets: float = 0.0  # norm of the offsets of the margins
    at_zero: float = 0.0  # the risk at margins of 0, if the loss has `bmrm.losses.Loss.limited_at_zero`
