"""The problem of a solve: validated data, loss, penalty and intercept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bmrm.base.vectors import Indices, Vector
from bmrm.linear.intercept import Intercept
from bmrm.linear.regularizers import Regularizer
from bmrm.losses import Loss
from bmrm.matrix.adapted import MatrixAdapter
from bmrm.matrix.dataset import Dataset
from bmrm.matrix.examples import Examples


@dataclass(frozen=True, eq=False)
class Problem:
    """A problem as seen by this process.

    Attributes
    ----------
    data : Dataset or Examples
    loss : Loss
        With the groups of the data.
    labels : ndarray of shape (m,) or (m, K)
        Encoded for the loss; those of the rows in this process.
    classes : ndarray or None
    intercept : Intercept
    margins_per_row : int
        The number of outputs; for a structured loss the number of features, see `StackedIdentity`.
    cuts_per_pass : int or "auto"
        The user's choice; for a structured loss the decision.
    operator : MatrixAdapter
        X of all processes, with a constant feature and several outputs if there are any.
    penalty : Regularizer
        The whole penalty, or the part of this process if weights are owned.
    penalty_key : tuple
        What distinguishes the whole penalty from others.
    checksums : mapping of str to str
        Of the vectors of the whole penalty.
    metric_key : object
        What distinguishes the metric of the whole penalty; None if there is none.
    floor : float
        A number that no risk is below.
    block_borders : ndarray of int64, or None
        Rows, numbered over all processes, at which a block with its own cut may begin; None for any row.
    start : ndarray or None
        Where the solve starts; None for zero.
    """

    data: Dataset | Examples
    loss: Loss
    labels: Vector
    classes: Vector | None
    intercept: Intercept
    margins_per_row: int
    cuts_per_pass: int | str
    operator: MatrixAdapter
    penalty: Regularizer
    penalty_key: tuple[object, ...]
    checksums: Mapping[str, str]
    metric_key: object
    floor: float
    block_borders: Indices | None
    start: Vector | None

    @property
    def n_outputs(self) -> int:
        """Weights per feature."""
        return self.margins_per_row if self.loss.several else 1
