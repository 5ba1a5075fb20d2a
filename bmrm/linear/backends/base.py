"""What a solve asks of a backend, whichever it is."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from bmrm import losses
from bmrm.linear.backends.host import row_space
from bmrm.linear.bundle.bundle import Bundle
from bmrm.linear.bundle.store import CutStore
from bmrm.linear.models.checkpoint import Checkpoint
from bmrm.linear.objective.objective import Margins, Objective, Operator, Passes
from bmrm.linear.regularizers import Regularizer
from bmrm.linear.solvers.bundle_method import BundleMethod
from bmrm.losses import Loss
from bmrm.matrix.adapted import MatrixAdapter
from bmrm.matrix.dataset import Dataset
from bmrm.matrix.examples import Examples

Vector = NDArray[np.float64]

Indices = NDArray[np.int64]


class Placement(NamedTuple):
    """What decides where a solve keeps its weights, margins and cuts.

    Attributes
    ----------
    operator : Operator
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
        As combinations of rows, see `bmrm.linear.backends.host.row_space`.
    """

    operator: Any
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


def in_rows(
    data: Dataset | Examples, operator: Operator, reg: Regularizer, *, blocks: int, newton: bool
) -> bool:
    """Tell whether weights and cuts are kept as combinations of rows: where that may be, and pays."""
    return (
        isinstance(data, Dataset)
        and data.group is None
        and reg.plain
        and blocks == 1
        and not newton
        and row_space.pays(*operator.shape)
        and (data.resolution > 0.0 or row_space.is_even(operator.mean_squares))
    )


class Backend(Protocol):
    """What a solve is put together from."""

    @property
    def speaks(self) -> bool:
        """Whether this process is the one that prints."""

    def labels(self, loss: Loss) -> tuple[Vector, NDArray[np.float64] | None]:
        """Code the labels; see `bmrm.losses.labels.encode`."""

    def floor(self, loss: Loss, labels: Vector) -> float:
        """Return a number that no risk on all rows is below."""

    def thresholds(self, loss: Loss, margins: Margins, labels: Vector) -> Vector | None:
        """Return the thresholds between ordered classes that suit the margins; None for other tasks."""

    def spread(self, operator: MatrixAdapter) -> MatrixAdapter:
        """Make the design of all rows from that of the rows here."""

    def penalty(self, reg: Regularizer, operator: MatrixAdapter) -> Regularizer:
        """Return what of a penalty is worked on here; the design is that of the rows here."""

    def newton_pays(self, operator: Any, rows: int, loss: Loss, reg: Regularizer) -> bool:
        """Whether to take Newton steps; see `bmrm.linear.solvers.newton.newton_pays`."""

    def ascent_pays(
        self, operator: Any, loss: Loss, reg: Regularizer, *, newton: bool, profile: bool
    ) -> bool:
        """Whether to begin with ascent in the dual; see `solvers.dual_ascent` and `gpu.ascent`."""

    def borders(self, loss: Loss) -> Indices | None:
        """Return the rows of all processes that a block with a cut of its own may begin with; None: any."""

    def place(self, at: Placement) -> tuple[Passes, CutStore]:
        """Choose where weights, margins and cuts live."""

    def objective(self, *arguments: Any, **keywords: Any) -> Objective:
        """Make the objective."""

    def sums(self, numbers: list[float], most: list[float]) -> tuple[list[float], list[float]]:
        """Return sums over the rows of all processes from those over the rows here, and largest numbers."""

    def restore(self, bundle: Bundle, checkpoint: Checkpoint) -> None:
        """Fill an empty bundle."""

    def method(self, *arguments: Any, **keywords: Any) -> BundleMethod:
        """Make the run."""
