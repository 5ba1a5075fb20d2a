"""What a solve asks of a backend, whichever it is."""

from __future__ import annotations

from typing import Protocol

from bmrm.base.vectors import Indices, Vector
from bmrm.linear import regularizers
from bmrm.linear.bundle.bundle import Bundle
from bmrm.linear.bundle.store import CutStore
from bmrm.linear.models.checkpoint import Checkpoint
from bmrm.linear.objective.objective import Margins, Objective
from bmrm.linear.plan import Facts, Plan
from bmrm.linear.problem import Problem
from bmrm.linear.solvers.bundle_method import BundleMethod
from bmrm.linear.solvers.settings import Settings
from bmrm.losses import Loss
from bmrm.matrix.adapted import MatrixAdapter


class Backend(Protocol):
    """Where a solve lives: first asked for what a problem is made of, then to carry out a plan."""

    @property
    def speaks(self) -> bool:
        """Whether this process is the one that prints."""

    def labels(self, loss: Loss) -> tuple[Vector, Vector | None]:
        """Code the labels; see `bmrm.losses.labels.encode`."""

    def floor(self, loss: Loss, labels: Vector) -> float:
        """Return a number that no risk on all rows is below."""

    def thresholds(self, loss: Loss, margins: Margins, labels: Vector) -> Vector | None:
        """Return the thresholds between ordered classes that suit the margins; None for other tasks."""

    def spread(self, operator: MatrixAdapter) -> MatrixAdapter:
        """Return the operator of all rows, from that of the rows here."""

    def penalty(self, reg: regularizers.Regularizer, operator: MatrixAdapter) -> regularizers.Regularizer:
        """Return the part of a penalty that this process works on; the operator is that of the rows here."""

    def borders(self, loss: Loss) -> Indices | None:
        """Return the rows of all processes that a block with a cut of its own may begin with; None: any."""

    def facts(self, problem: Problem) -> Facts:
        """Return what the plan of a problem rests on."""

    def build(self, problem: Problem, plan: Plan, warm_bundle: Bundle | None) -> tuple[Objective, CutStore]:
        """Put labels, weights and cuts where the plan says; the cuts may be those of an earlier solve."""

    def run(
        self, objective: Objective, bundle: Bundle, settings: Settings, problem: Problem, plan: Plan
    ) -> BundleMethod:
        """Return the outer loop, evaluated where the problem starts."""

    def sums(self, numbers: list[float], most: list[float]) -> tuple[list[float], list[float]]:
        """Return sums over the rows of all processes from those over the rows here, and largest numbers."""

    def restore(self, bundle: Bundle, checkpoint: Checkpoint) -> None:
        """Fill an empty bundle with the cuts of a checkpoint."""
