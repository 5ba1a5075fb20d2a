"""The protocol of a backend."""

from __future__ import annotations

from typing import Protocol

from bmrm.base.labels import Labels
from bmrm.base.vectors import Indices, Vector
from bmrm.linear import regularizers
from bmrm.linear.bundle.bundle import Bundle
from bmrm.linear.bundle.store import CutStore
from bmrm.linear.models.checkpoint import Checkpoint
from bmrm.linear.objective.objective import Objective
from bmrm.linear.objective.passes import Margins
from bmrm.linear.plan import Facts, Plan
from bmrm.linear.problem import TrainingProblem
from bmrm.linear.solvers.bundle_method import BundleMethod
from bmrm.linear.solvers.settings import Settings
from bmrm.losses import Loss
from bmrm.matrix.adapted import MatrixAdapter


class Backend(Protocol):
    """Where a solve runs. It first provides the parts of a problem, and later carries out a plan."""

    @property
    def prints(self) -> bool:
        """Whether this process is the one that prints."""

    def labels(self, loss: Loss) -> tuple[Vector, Labels | None]:
        """Encode the labels; see `bmrm.losses.labels.encode`."""

    def floor(self, loss: Loss, labels: Vector) -> float:
        """Return a lower bound of the risk over all rows."""

    def thresholds(self, loss: Loss, margins: Margins, labels: Vector) -> Vector | None:
        """Return the thresholds between ordered classes that suit the margins, or None for other tasks."""

    def spread(self, operator: MatrixAdapter) -> MatrixAdapter:
        """Return the operator of all rows, given that of the rows in this process."""

    def penalty(self, reg: regularizers.Regularizer, operator: MatrixAdapter) -> regularizers.Regularizer:
        """Return the part of a penalty for this process; the operator is that of its rows."""

    def block_borders(self, loss: Loss) -> Indices | None:
        """Return the rows, numbered over all processes, at which a block may begin; None for any row."""

    def facts(self, problem: TrainingProblem) -> Facts:
        """Return the facts that the plan of a problem rests on."""

    def build(
        self, problem: TrainingProblem, plan: Plan, warm_bundle: Bundle | None
    ) -> tuple[Objective, CutStore]:
        """Return the objective and the store of cuts of a plan; the cuts may be those of an earlier solve."""

    def run(
        self, objective: Objective, bundle: Bundle, settings: Settings, problem: TrainingProblem, plan: Plan
    ) -> BundleMethod:
        """Return the outer loop, evaluated where the problem starts."""

    def sums(self, numbers: list[float], most: list[float]) -> tuple[list[float], list[float]]:
        """Return sums and maxima over the rows of all processes, given those of this process."""

    def restore(self, bundle: Bundle, checkpoint: Checkpoint) -> None:
        """Fill an empty bundle with the cuts of a checkpoint."""
