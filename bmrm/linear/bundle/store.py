"""Where the gradients of cuts are kept: the protocol that a bundle asks for.

In `bmrm.linear.backends`, ``host/cuts.py`` has them in an array, ``host/row_space.py`` as combinations of
rows, ``gpu/cuts.py`` on a GPU, and ``ranks/cuts.py`` with their columns spread over ranks.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from bmrm.base.vectors import Vector
from bmrm.linear.objective.passes import Subgradients
from bmrm.linear.objective.running_error import Blur
from bmrm.linear.regularizers import Regularizer

CUT_BYTES = 1 << 30
"""Maximum number of bytes that cuts take, unless ``max_cuts`` is given."""


class StoredCuts(NamedTuple):
    """Cuts with their dual solution."""

    gradients: Vector  # shape (cuts, columns)
    # shape (cuts,)
    offsets: Vector
    blocks: NDArray[np.int32]  # shape (cuts,)
    alpha: Vector
    blur: Blur  # what rounding may have done to them


class CutStore(Protocol):
    """The gradients of the cuts, numbered from 0."""

    width: int
    size: int
    """The number of cuts in use; new ones are appended to them."""

    @property
    def hands_over(self) -> bool:
        """Whether a warm start goes on with these cuts themselves, and not with copies."""

    @property
    def whole(self) -> bool:
        """Whether whole gradients are on the host, so that their products may be taken in another metric."""

    @property
    def metric(self) -> Vector | None:
        """Weights of the features in products of gradients; None if all are 1."""

    @property
    def most(self) -> int:
        """Maximum number of cuts that fit in the memory set aside for them."""

    @property
    def nbytes(self) -> int:
        """Bytes held."""

    def reserve(self, capacity: int) -> None:
        """Make room for this number of cuts."""

    def append(self, planes: Subgradients) -> Vector:
        """Append cuts; return their products with all cuts, shape (blocks, cuts)."""

    def append_level(self, count: int) -> Vector | None:
        """Append planes without a slope, likewise; return None if the store cannot hold them."""

    def minimise(self, reg: Regularizer, alpha: Vector, near: Any) -> tuple[Any, float]:
        """Minimise ``lam Omega(w) + <sum_k alpha_k a_k, w>``; return w and the minimum."""

    def products(self, w: Any) -> tuple[Any, Vector, float | None] | None:
        """Return a minimiser, its products with all cuts, and its square.

        A minimiser that is kept as a combination of rows is returned with products of its own. The square is
        None for plain weights; all is None if the store cannot form the products.
        """

    def combined_length(self, w: Any) -> float:
        """Return the length of the coefficients of rows that a minimiser is kept as; 0 for plain weights."""

    def move(self, to: int, source: int) -> None:
        """Copy a cut over another."""

    def merge(self, i: int, j: int, share: float) -> None:
        """Replace cut i by ``share`` of itself plus the rest of cut j."""

    def get(self) -> Vector:
        """Return the gradients of the cuts in use, shape (size, width)."""

    def only(self, kept: NDArray[np.intp]) -> CutStore:
        """Return an independent store on the host with copies of some of the cuts."""

    def taken(self, numbers: NDArray[np.intp]) -> Vector:
        """Copy the gradients of some cuts, for a file."""

    def put(self, gradients: Vector) -> Vector:
        """Fill an empty store with gradients from elsewhere; return the products of all with all.

        Raises
        ------
        NotImplementedError
            The store keeps combinations of rows on the host. No plan restores a checkpoint into one.
        """

    def change_metric(self, metric: Vector) -> Vector:
        """Take products in another metric from now on; return those of all with all.

        Raises
        ------
        NotImplementedError
            The store is not `whole`.
        """
