"""The backend of one process: weights, margins and cuts in arrays, as combinations of rows, or on a GPU."""

from __future__ import annotations

import functools

import numpy as np

from bmrm.base.labels import Labels
from bmrm.base.offsets import add_offset
from bmrm.base.vectors import Indices, Vector
from bmrm.linear.backends.facts import facts_of
from bmrm.linear.backends.gpu.cuts import gpu_cuts
from bmrm.linear.backends.gpu.joint import JointPasses
from bmrm.linear.backends.gpu.passes import GpuPasses
from bmrm.linear.backends.gpu.python_loss import PythonLossPasses
from bmrm.linear.backends.host.cuts import HostCuts
from bmrm.linear.backends.host.passes import HostPasses, class_intercepts
from bmrm.linear.backends.host.row_space import RowCuts, RowPasses
from bmrm.linear.bundle.bundle import Bundle
from bmrm.linear.bundle.store import CutStore
from bmrm.linear.memory import MatrixSize
from bmrm.linear.models.checkpoint import Checkpoint
from bmrm.linear.objective.blocks import block_starts, group_borders, runs
from bmrm.linear.objective.objective import Objective
from bmrm.linear.objective.passes import Margins, Passes
from bmrm.linear.plan import Facts, Plan
from bmrm.linear.problem import TrainingProblem
from bmrm.linear.regularizers import Regularizer
from bmrm.linear.solvers.bundle_method import BundleMethod
from bmrm.linear.solvers.settings import Settings
from bmrm.losses import CallableLoss, JointLoss, Loss
from bmrm.losses.base import RowRisk
from bmrm.losses.labels import encode
from bmrm.losses.offset import with_offset
from bmrm.matrix.adapted import MatrixAdapter
from bmrm.matrix.dataset import Dataset
from bmrm.matrix.examples import Examples


class LocalBackend:
    """`bmrm.linear.backends.base.Backend` if all rows are in this process."""

    prints = True

    def __init__(self, data: Dataset | Examples) -> None:
        self.data = data

    def labels(self, loss: Loss) -> tuple[Vector, Labels | None]:
        data = self.data
        known = data.coded if isinstance(data, Dataset) else None
        return encode(data.y, data.shape[0], loss, data.weights) if known is None else known

    def floor(self, loss: Loss, labels: Vector) -> float:
        return loss.floor(labels, self.data.weights)

    def thresholds(self, loss: Loss, margins: Margins, labels: Vector) -> Vector | None:
        if loss.task != "ordinal":
            return None
        on_host = isinstance(margins, np.ndarray)
        here = add_offset(margins, self.data.offset) if on_host else margins.get()
        return loss.thresholds(here, labels, self.data.weights)

    def spread(self, operator: MatrixAdapter) -> MatrixAdapter:
        return operator

    def penalty(self, reg: Regularizer, operator: MatrixAdapter) -> Regularizer:
        return reg

    def block_borders(self, loss: Loss) -> Indices | None:
        data = self.data
        if loss.by_rows:
            return None
        if isinstance(data, Dataset) and loss.needs_groups and data.groups is not None:
            return group_borders(*runs(data.groups), data.shape[0])
        return np.array([0, data.shape[0]])

    def facts(self, problem: TrainingProblem) -> Facts:
        data, operator, loss, penalty = self.data, problem.operator, problem.loss, problem.penalty
        if isinstance(data, Examples):
            size = MatrixSize(*operator.shape, 0, 0, is_dense=True)
            return Facts(operator, size, data.shape[0], loss, penalty, has_ascent=False)
        return facts_of(data, operator, loss, penalty, problem.intercept, problem.block_borders)

    def build(
        self, problem: TrainingProblem, plan: Plan, warm_bundle: Bundle | None
    ) -> tuple[Objective, CutStore]:
        place = self._on_gpu if plan.on_gpu else self._in_row_space if plan.row_space else self._on_host
        passes, store = place(problem, plan, warm_bundle)
        objective = Objective(
            problem.operator,
            passes,
            problem.loss,
            problem.penalty,
            profile=problem.intercept.free,
            blocks=plan.blocks,
            columns=problem.margins_per_row,
            classes=class_intercepts(problem, passes),
        )
        if problem.block_borders is not None:
            objective.starts = block_starts(self.data.shape[0], plan.blocks, problem.block_borders)
        return objective, store

    def _risk(self, problem: TrainingProblem) -> RowRisk:
        data = self.data
        risk = problem.loss.risk(problem.labels, data.weights, 1.0 / data.total_weight, data.threads)
        return with_offset(risk, problem.offset)

    def _on_gpu(self, problem: TrainingProblem, plan: Plan, warm: Bundle | None) -> tuple[Passes, CutStore]:
        data, loss, labels = self.data, problem.loss, problem.labels
        assert isinstance(data, Dataset)
        scale, scaling = 1.0 / data.total_weight, problem.intercept.scaling
        of_rows = labels, problem.offset
        store = gpu_cuts(data, problem.operator, loss, *of_rows, scale, scaling, warm, plan.row_space)
        if isinstance(loss, CallableLoss):
            return PythonLossPasses(store, loss), store
        if isinstance(loss, JointLoss):
            return JointPasses(store, loss, labels, data.weights), store
        return GpuPasses(store, plan.blocks == 1, functools.partial(self._risk, problem)), store

    def _in_row_space(
        self, problem: TrainingProblem, plan: Plan, warm: Bundle | None
    ) -> tuple[Passes, CutStore]:
        operator = problem.operator
        cuts = RowCuts(operator, self.data.threads) if warm is None else warm.store
        assert isinstance(cuts, RowCuts)
        return RowPasses(operator, self._risk(problem), cuts), cuts

    def _on_host(self, problem: TrainingProblem, plan: Plan, warm: Bundle | None) -> tuple[Passes, CutStore]:
        operator, threads = problem.operator, self.data.threads
        width, metric = operator.shape[1], problem.penalty.metric
        cuts = HostCuts(width, threads, metric) if warm is None else warm.store
        return HostPasses(operator, self._risk(problem), threads=threads, hessian=plan.hessian), cuts

    def run(
        self, objective: Objective, bundle: Bundle, settings: Settings, problem: TrainingProblem, plan: Plan
    ) -> BundleMethod:
        return BundleMethod(objective, bundle, settings, problem.start, plan.step, warm=True)

    def sums(self, numbers: list[float], most: list[float]) -> tuple[list[float], list[float]]:
        return numbers, most

    def restore(self, bundle: Bundle, checkpoint: Checkpoint) -> None:
        bundle.restore(checkpoint.cuts(0, bundle.n_features))
