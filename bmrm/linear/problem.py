"""The problem of a solve: validated data, loss, penalty and intercept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bmrm.base.labels import Labels
from bmrm.base.vectors import Indices, Vector
from bmrm.linear.intercept import Intercept
from bmrm.linear.regularizers import Regularizer
from bmrm.losses import Loss
from bmrm.matrix.adapted import MatrixAdapter
from bmrm.matrix.dataset import Dataset
from bmrm.matrix.examples import Examples


@dataclass(frozen=True, eq=False)
class TrainingProblem:
    """A problem as seen by this process."""

    data: Dataset | Examples
    loss: Loss  # with the groups of the data
    labels: Vector  # shape (m,) or (m, K): encoded for the loss; those of the rows in this process
    classes: Labels | None
    offset: Vector | None  # shape (margins,): added to the margins of the rows in this process
    intercept: Intercept
    margins_per_row: int
    """The number of outputs; for a structured loss the number of features, see `StackedIdentity`."""
    cuts_per_pass: int | str  # the user's choice; for a structured loss the decision
    operator: MatrixAdapter
    """X of all processes, with a constant feature and several outputs if there are any."""
    whole_penalty: Regularizer
    penalty: Regularizer  # the whole penalty, or the part of this process if weights are owned
    penalty_key: tuple[object, ...]  # what distinguishes the whole penalty from others
    checksums: Mapping[str, str]  # of the vectors of the whole penalty
    metric_key: object  # what distinguishes the metric of the whole penalty; None if there is none
    floor: float  # a number that no risk is below
    block_borders: Indices | None
    """Rows, numbered over all processes, at which a block with its own cut may begin; None for any row."""
    start: Vector | None  # where the solve starts; None for zero

    @property
    def n_outputs(self) -> int:
        """Weights per feature."""
        return self.margins_per_row if self.loss.several else 1
