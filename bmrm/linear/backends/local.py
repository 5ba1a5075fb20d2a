"""The pieces that a solve is put together from, and where they live: on a GPU, here, or on several ranks."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmrm import losses
from bmrm.linear.backends.base import Indices, Placement, Vector, on_device
from bmrm.linear.backends.gpu.ascent import gpu_ascent_pays
from bmrm.linear.backends.gpu.cuts import gpu_cuts
from bmrm.linear.backends.gpu.joint import JointPasses
from bmrm.linear.backends.gpu.passes import GpuPasses
from bmrm.linear.backends.gpu.python_loss import PythonLossPasses
from bmrm.linear.backends.host.ascent import ascent_pays
from bmrm.linear.backends.host.cuts import HostCuts
from bmrm.linear.backends.host.passes import HostPasses
from bmrm.linear.backends.host.row_space import RowCuts, RowPasses
from bmrm.linear.bundle.bundle import Bundle
from bmrm.linear.bundle.store import CutStore
from bmrm.linear.models.checkpoint import Checkpoint
from bmrm.linear.objective.blocks import block_starts, group_borders, runs
from bmrm.linear.objective.objective import Margins, Objective, Operator, Passes
from bmrm.linear.regularizers import Regularizer
from bmrm.linear.solvers.bundle_method import BundleMethod
from bmrm.linear.solvers.newton import newton_pays
from bmrm.losses import Loss
from bmrm.losses.labels import encode
from bmrm.matrix.adapted import MatrixAdapter
from bmrm.matrix.dataset import Dataset
from bmrm.matrix.examples import Examples


class LocalBackend:
    """The pieces where all rows are in this process."""

    speaks = True

    def __init__(self, data: Dataset | Examples) -> None:
        self.data = data
        self._borders: Indices | None = None

    def labels(self, loss: Loss) -> tuple[Vector, NDArray[np.float64] | None]:
        """Code the labels, unless somebody has; see `bmrm.losses.labels.encode`."""
        data = self.data
        known = data.coded if isinstance(data, Dataset) else None
        return encode(data.y, data.shape[0], loss, data.weights) if known is None else known

    def floor(self, loss: Loss, labels: Vector) -> float:
        """Return a number that no risk on these labels is below."""
        return loss.floor(labels, self.data.weights)

    def thresholds(self, loss: Loss, margins: Margins, labels: Vector) -> Vector | None:
        """Return the thresholds between ordered classes that suit the margins; None for other tasks."""
        if loss.task != "ordinal":
            return None
        here = margins if isinstance(margins, np.ndarray) else margins.get()
        return loss.thresholds(here, labels, self.data.weights)

    def spread(self, operator: MatrixAdapter) -> MatrixAdapter:
        """Leave the design as it is."""
        return operator

    def penalty(self, reg: Regularizer, operator: MatrixAdapter) -> Regularizer:
        """Leave the penalty as it is."""
        return reg

    def newton_pays(self, operator: Operator, rows: int, loss: Loss, reg: Regularizer) -> bool:
        """Whether to take Newton steps; see `bmrm.linear.solvers.newton.newton_pays`."""
        return newton_pays(operator, rows, loss, reg)

    def ascent_pays(
        self, operator: Operator, loss: Loss, reg: Regularizer, *, newton: bool, profile: bool
    ) -> bool:
        """Whether to begin with ascent in the dual; see `solvers.dual_ascent` and `gpu.ascent`."""
        if on_device(self.data, loss, reg):
            return not newton and gpu_ascent_pays(operator, loss, profile=profile)
        return ascent_pays(operator, loss, reg, self.data.threads, newton=newton)

    def borders(self, loss: Loss) -> Indices | None:
        """Return the rows that a block with a cut of its own may begin with; None for any."""
        data = self.data
        if loss.by_rows:
            return None
        if isinstance(data, Dataset) and loss.needs_groups and data.groups is not None:
            return group_borders(*runs(data.groups), data.shape[0])
        return np.array([0, data.shape[0]])

    def place(self, at: Placement) -> tuple[Passes, CutStore]:
        """Put labels and weights, and the cuts, where they live: with the matrix, or here."""
        self._borders = at.borders
        data, operator, loss = self.data, at.operator, at.loss
        scale = 1.0 / data.total_weight
        of_rows = at.labels, data.weights, scale, data.threads
        if at.on_device:
            assert isinstance(data, Dataset)
            store = gpu_cuts(data, operator, loss, at.labels, scale, at.scaling, at.known, at.in_rows)
            if isinstance(loss, losses.CallableLoss):
                return PythonLossPasses(store, loss), store
            if isinstance(loss, losses.JointLoss):
                return JointPasses(store, loss, at.labels, data.weights), store
            return GpuPasses(store, at.blocks == 1, functools.partial(loss.risk, *of_rows)), store
        risk = loss.risk(*of_rows)
        if at.in_rows:
            rows = RowCuts(operator, data.threads) if at.known is None else at.known.store
            assert isinstance(rows, RowCuts)
            return RowPasses(operator, risk, rows), rows
        if at.known is not None:
            cuts = at.known.store
        else:
            cuts = HostCuts(operator.shape[1], data.threads, at.reg.metric)
        return HostPasses(operator, risk, threads=data.threads), cuts

    def objective(self, *arguments: Any, **keywords: Any) -> Objective:
        """Make the objective."""
        made = Objective(*arguments, **keywords)
        if self._borders is not None:
            made.starts = block_starts(self.data.shape[0], made.blocks, self._borders)
        return made

    def sums(self, numbers: list[float], most: list[float]) -> tuple[list[float], list[float]]:
        """Leave sums as they are."""
        return numbers, most

    def restore(self, bundle: Bundle, checkpoint: Checkpoint) -> None:
        """Fill an empty bundle."""
        bundle.restore(checkpoint.cuts(0, bundle.n_features))

    def method(self, *arguments: Any, **keywords: Any) -> BundleMethod:
        """Make the run."""
        return BundleMethod(*arguments, **keywords)
