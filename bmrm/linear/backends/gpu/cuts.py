"""Cuts whose gradients stay on a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bmrm.base.vectors import Vector
from bmrm.linear.backends.host.cuts import HostCuts
from bmrm.linear.backends.host.row_space import RowCuts
from bmrm.linear.bundle._qp import gram
from bmrm.linear.bundle.bundle import Bundle
from bmrm.linear.objective.passes import DesignOperator, Subgradients
from bmrm.linear.regularizers import Regularizer
from bmrm.losses import Loss, ScalarLoss
from bmrm.matrix.dataset import Dataset
from bmrm.matrix.gpu.devices import import_cuda
from bmrm.matrix.gpu.memory import room_for_cuts

if TYPE_CHECKING:
    from bmrm.matrix import _cuda


Resident: TypeAlias = "_cuda.Vector"


class GpuCuts:
    """Gradients of cuts on a GPU, where `GpuPasses.planes` leaves new ones."""

    hands_over = True  # copies would take as much device memory again
    whole = False
    metric: Vector | None = None

    def __init__(self, problem: _cuda.Problem) -> None:
        self.problem, self.width, self.size = problem, problem.width, 0
        self._capacity = 0

    @property
    def _cut_bytes(self) -> int:
        return int(self.problem.length * self.problem.matrix.vector_dtype.itemsize)

    @property
    def most(self) -> int:
        matrix = self.problem.matrix
        item = matrix.vector_dtype.itemsize
        return room_for_cuts(matrix.bytes_left, matrix.shape, item) // self._cut_bytes

    @property
    def nbytes(self) -> int:
        return self._capacity * self._cut_bytes

    def reserve(self, capacity: int) -> None:
        self.problem.reserve(capacity)
        self._capacity = capacity

    def append(self, planes: Subgradients) -> Vector:
        """Keep the new cuts, which a pass has written after those in use; return their products with all."""
        assert planes.products is not None
        self.size += len(planes.products)
        return planes.products

    def append_level(self, count: int) -> None:
        """Append nothing: only a pass can write a plane here."""

    def minimise(self, reg: Regularizer, alpha: Vector, near: Resident) -> tuple[Resident, float]:
        w = self.problem.combine(alpha, -1.0 / reg.lam, near)
        return w, -0.5 * reg.lam * w.square

    def products(self, w: Resident) -> None:
        """Return None: cuts stay on the device."""

    def combined_length(self, w: Resident) -> float:
        return 0.0

    def move(self, to: int, source: int) -> None:
        self.problem.move_cut(to, source)

    def merge(self, i: int, j: int, share: float) -> None:
        self.problem.merge_cuts(i, j, share)

    def get(self) -> Vector:
        return self.problem.get_cuts(self.size)

    def only(self, kept: NDArray[np.intp]) -> HostCuts | RowCuts:
        return HostCuts.of(self.taken(kept), threads=1)

    def taken(self, numbers: NDArray[np.intp]) -> Vector:
        return self.get()[numbers]

    def put(self, gradients: Vector) -> Vector:
        self.size = len(gradients)
        self.problem.set_cuts(gradients)
        products = np.empty((self.size, self.size))
        # Of the cuts as stored, in the type of the matrix.
        kept = self.get()
        gram(kept, kept, products)
        return products

    def change_metric(self, metric: Vector) -> Vector:
        raise NotImplementedError("cuts on a GPU have no other metric")


class GpuRowCuts(GpuCuts):
    """Cuts as combinations of rows, see `bmrm.linear.backends.host.row_space`.

    - ``problem``: in the space of rows
    - ``operator``: the problem's matrix, with a constant feature if there is one
    """

    def __init__(self, problem: _cuda.Problem, operator: DesignOperator) -> None:
        super().__init__(problem)
        self._operator = operator

    def combined_length(self, w: Resident) -> float:
        """Return infinity: the coefficients stay on the device."""
        return np.inf

    def get(self) -> Vector:
        return self.taken(np.arange(self.size))

    def only(self, kept: NDArray[np.intp]) -> RowCuts:
        rows = self._operator.shape[0]
        halves = self.problem.get_cuts(self.size)[kept].reshape(len(kept), 2, -1)[:, :, : rows + 1]
        return RowCuts.of(self._operator, np.ascontiguousarray(halves.swapaxes(0, 1)), threads=1)

    def taken(self, numbers: NDArray[np.intp]) -> Vector:
        return self.only(numbers).get()


def gpu_cuts(
    data: Dataset,
    operator: DesignOperator,
    loss: Loss,
    labels: Vector,
    offset: Vector | None,
    scale: float,
    constant: float | None,
    known: Bundle | None,
    in_rows: bool,
) -> GpuCuts:
    """Copy what is known of the rows to the GPU of the matrix, or reuse the store of an earlier bundle.

    Compiled losses of single rows are evaluated by the problem; other losses evaluate themselves.
    """
    if known is not None:
        store = known.store
        assert isinstance(store, GpuCuts)
        return store
    number, parameter = (
        (loss.number, loss.parameter_value) if isinstance(loss, ScalarLoss) else (import_cuda().OWN_LOSS, 0.0)
    )
    problem = import_cuda().Problem(
        data.matrix, number, parameter, labels, data.weights, scale, constant or 0.0, in_rows
    )
    if offset is not None:
        problem.set_offset(offset)
    return GpuRowCuts(problem, operator) if in_rows else GpuCuts(problem)
