"""The pieces that a solve is put together from, and where they live: on a GPU, here, or on several ranks."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from bmrm import losses, row_space
from bmrm.bundle import Bundle
from bmrm.cut_blocks import block_starts, group_borders, runs
from bmrm.cut_store import Store
from bmrm.dataset import Dataset
from bmrm.device_ascent import device_ascent_pays
from bmrm.device_call import DeviceCallSteps
from bmrm.device_steps import DeviceSteps, device_cuts
from bmrm.dual_ascent import ascent_pays
from bmrm.host_steps import HostCuts, HostSteps
from bmrm.io.checkpoint import Checkpoint
from bmrm.joint_steps import JointSteps
from bmrm.labels import encode
from bmrm.losses import Loss
from bmrm.newton import newton_pays
from bmrm.objective import Design, Margins, Objective, Steps
from bmrm.regularizers import Regularizer
from bmrm.row_space import RowCuts, RowSteps
from bmrm.solver import BundleMethod
from bmrm.structured import Examples

Vector = NDArray[np.float64]
Indices = NDArray[np.int64]


class Placement(NamedTuple):
    """What decides where a solve keeps its weights, margins and cuts.

    Attributes
    ----------
    design : Design
    loss : Loss
    reg : Regularizer
    labels : ndarray of shape (m,)
    columns : int
        Entries of margins that belong to a row.
    scaling : float or None
        Value of the constant feature, where there is one.
    known : Bundle or None
        Cuts to go on with.
    blocks : int
        Cuts a pass.
    borders : ndarray of int64, or None
        Rows, of all processes, that blocks may begin with; None for any.
    on_device : bool
        With the matrix on its GPU.
    in_rows : bool
        As combinations of rows, see `bmrm.row_space`.
    """

    design: Any
    loss: Loss
    reg: Regularizer
    labels: Vector
    columns: int
    scaling: float | None
    known: Bundle | None
    blocks: int
    borders: Indices | None
    on_device: bool
    in_rows: bool


def on_device(data: Dataset | Examples, loss: Loss, reg: Regularizer) -> bool:
    """Tell whether weights, margins and cuts live with the matrix: where it, the loss and the penalty can."""
    if not hasattr(data.matrix, "problem") or not reg.plain:
        return False
    alone = isinstance(data, Dataset) and data.group is None
    if isinstance(loss, losses.CallableLoss):
        return loss.arrays != "numpy" and alone
    return isinstance(loss, losses.ScalarLoss) or (isinstance(loss, losses.JointLoss) and alone)


def in_rows(data: Dataset | Examples, design: Design, reg: Regularizer, *, blocks: int, newton: bool) -> bool:
    """Tell whether weights and cuts are kept as combinations of rows: where that may be, and pays."""
    return (
        isinstance(data, Dataset)
        and data.group is None
        and reg.plain
        and blocks == 1
        and not newton
        and row_space.pays(*design.shape)
        and (data.resolution > 0.0 or row_space.is_even(design.mean_squares))
    )


class Parts(Protocol):
    """What a solve is put together from."""

    @property
    def speaks(self) -> bool:
        """Whether this process is the one that prints."""

    def labels(self, loss: Loss) -> tuple[Vector, NDArray[np.float64] | None]:
        """Code the labels; see `bmrm.labels.encode`."""

    def floor(self, loss: Loss, labels: Vector) -> float:
        """Return a number that no risk on all rows is below."""

    def thresholds(self, loss: Loss, margins: Margins, labels: Vector) -> Vector | None:
        """Return the thresholds between ordered classes that suit the margins; None for other tasks."""

    def spread(self, design: Design) -> Design:
        """Make the design of all rows from that of the rows here."""

    def penalty(self, reg: Regularizer, design: Design) -> Regularizer:
        """Return what of a penalty is worked on here; the design is that of the rows here."""

    def newton_pays(self, design: Any, rows: int, loss: Loss, reg: Regularizer) -> bool:
        """Whether to take Newton steps; see `bmrm.newton.newton_pays`."""

    def ascent_pays(self, design: Any, loss: Loss, reg: Regularizer, *, newton: bool, profile: bool) -> bool:
        """Whether to begin with ascent in the dual; see `bmrm.dual_ascent` and `bmrm.device_ascent`."""

    def borders(self, loss: Loss) -> Indices | None:
        """Return the rows of all processes that a block with a cut of its own may begin with; None: any."""

    def place(self, at: Placement) -> tuple[Steps, Store]:
        """Choose where weights, margins and cuts live."""

    def objective(self, *arguments: Any, **keywords: Any) -> Objective:
        """Make the objective."""

    def sums(self, numbers: list[float], most: list[float]) -> tuple[list[float], list[float]]:
        """Return sums over the rows of all processes from those over the rows here, and largest numbers."""

    def restore(self, bundle: Bundle, checkpoint: Checkpoint) -> None:
        """Fill an empty bundle."""

    def method(self, *arguments: Any, **keywords: Any) -> BundleMethod:
        """Make the run."""


class LocalParts:
    """The pieces where all rows are in this process."""

    speaks = True

    def __init__(self, data: Dataset | Examples) -> None:
        self.data = data
        self._borders: Indices | None = None

    def labels(self, loss: Loss) -> tuple[Vector, NDArray[np.float64] | None]:
        """Code the labels, unless somebody has; see `bmrm.labels.encode`."""
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

    def spread(self, design: Design) -> Design:
        """Leave the design as it is."""
        return design

    def penalty(self, reg: Regularizer, design: Design) -> Regularizer:
        """Leave the penalty as it is."""
        return reg

    def newton_pays(self, design: Design, rows: int, loss: Loss, reg: Regularizer) -> bool:
        """Whether to take Newton steps; see `bmrm.newton.newton_pays`."""
        return newton_pays(design, rows, loss, reg)

    def ascent_pays(
        self, design: Design, loss: Loss, reg: Regularizer, *, newton: bool, profile: bool
    ) -> bool:
        """Whether to begin with ascent in the dual; see `bmrm.dual_ascent` and `bmrm.device_ascent`."""
        if on_device(self.data, loss, reg):
            return not newton and device_ascent_pays(design, loss, profile=profile)
        return ascent_pays(design, loss, reg, self.data.threads, newton=newton)

    def borders(self, loss: Loss) -> Indices | None:
        """Return the rows that a block with a cut of its own may begin with; None for any."""
        data = self.data
        if loss.by_rows:
            return None
        if isinstance(data, Dataset) and loss.needs_groups and data.groups is not None:
            return group_borders(*runs(data.groups), data.shape[0])
        return np.array([0, data.shape[0]])

    def place(self, at: Placement) -> tuple[Steps, Store]:
        """Put labels and weights, and the cuts, where they live: with the matrix, or here."""
        self._borders = at.borders
        data, design, loss = self.data, at.design, at.loss
        scale = 1.0 / data.total_weight
        of_rows = at.labels, data.weights, scale, data.threads
        if at.on_device:
            assert isinstance(data, Dataset)
            store = device_cuts(data, design, loss, at.labels, scale, at.scaling, at.known, at.in_rows)
            if isinstance(loss, losses.CallableLoss):
                return DeviceCallSteps(store, loss), store
            if isinstance(loss, losses.JointLoss):
                return JointSteps(store, loss, at.labels, data.weights), store
            return DeviceSteps(store, at.blocks == 1, functools.partial(loss.risk, *of_rows)), store
        risk = loss.risk(*of_rows)
        if at.in_rows:
            rows = RowCuts(design, data.threads) if at.known is None else at.known.store
            assert isinstance(rows, RowCuts)
            return RowSteps(design, risk, rows), rows
        if at.known is not None:
            cuts = at.known.store
        else:
            cuts = HostCuts(design.shape[1], data.threads, at.reg.metric)
        return HostSteps(design, risk, threads=data.threads), cuts

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


def parts_of(data: Dataset | Examples) -> Parts:
    """Return the pieces of a solve on the data, in one process or on several ranks."""
    if isinstance(data, Examples) or data.group is None:
        return LocalParts(data)
    from bmrm.distributed.parts import ShardedParts
    from bmrm.distributed.shard import Shard

    assert isinstance(data, Shard)
    return ShardedParts(data)
