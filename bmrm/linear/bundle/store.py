"""Where the gradients of cuts are kept: what a bundle asks of it.

``host_passes.py`` has them in an array, ``row_space.py`` as combinations of rows, ``gpu_passes.py`` on a
GPU, and ``distributed/cuts.py`` with their columns spread over ranks.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from bmrm.linear.objective.objective import Subgradients
from bmrm.linear.objective.running_error import Blur
from bmrm.linear.regularizers import Regularizer

Vector = NDArray[np.float64]


class StoredCuts(NamedTuple):
    """Cuts with their dual solution.

    Attributes
    ----------
    gradients : ndarray of shape (cuts, columns)
    offsets, alpha : ndarray of shape (cuts,)
    blocks : ndarray of int32, shape (cuts,)
    blur : Blur
        What rounding may have done to them.
    """

    gradients: Vector
    offsets: Vector
    blocks: NDArray[np.int32]
    alpha: Vector
    blur: Blur


class CutStore(Protocol):
    """Where the gradients of the cuts are kept, numbered from 0."""

    width: int
    size: int
    """Cuts in use; new ones go behind them."""

    @property
    def most(self) -> int:
        """Cuts that fit in the memory set aside for them."""

    @property
    def nbytes(self) -> int:
        """Bytes held."""

    def reserve(self, capacity: int) -> None:
        """Make room for so many cuts."""

    def append(self, planes: Subgradients) -> Vector:
        """Put new cuts behind those in use; return their products with all, shape (blocks, cuts)."""

    def append_level(self, count: int) -> Vector | None:
        """Put planes without a slope behind those in use, likewise; None where it cannot be done."""

    def minimise(self, reg: Regularizer, alpha: Vector, near: Any) -> tuple[Any, float]:
        """Minimise ``lam Omega(w) + <sum_k alpha_k a_k, w>``; return w and the minimum."""

    def products(self, w: Any) -> tuple[Any, Vector, float | None] | None:
        """Return the products of cuts with a minimiser, and its square.

        It comes back with products of its own if it is kept as a combination of rows. Its square is None for
        plain weights; all is None where products are not to be had.
        """

    def combined_length(self, w: Any) -> float:
        """Return the length of the coefficients of rows that a minimiser is kept as; 0 for plain weights."""

    def move(self, to: int, source: int) -> None:
        """Copy a cut over another."""

    def merge(self, i: int, j: int, share: float) -> None:
        """Cut i becomes ``share`` of itself and the rest of cut j."""

    def get(self) -> Vector:
        """Gradients of the cuts in use, shape (size, width)."""

    def only(self, kept: NDArray[np.intp]) -> CutStore:
        """Return a store of its own, on the host, with copies of some of the cuts."""

    def taken(self, numbers: NDArray[np.intp]) -> Vector:
        """Copy the gradients of some cuts, for a file."""


@runtime_checkable
class Fillable(CutStore, Protocol):
    """A store that keeps gradients, wherever they come from."""

    def put(self, gradients: Vector) -> Vector:
        """Fill an empty store; return the products of all with all."""


@runtime_checkable
class Weighable(CutStore, Protocol):
    """A store that takes products of gradients in a metric."""

    metric: Vector | None
    """Weights of the features; None where all are 1."""
    whole: bool
    """Whether the gradients are there with all of their columns."""

    def weigh(self, metric: Vector) -> Vector:
        """Take products in another metric from now on; return those of all with all."""


CUT_BYTES = 1 << 30
"""Bytes that cuts take where nobody says how many to keep."""
