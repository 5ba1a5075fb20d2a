"""Whether a reader makes sparse or dense rows of text.

Sparse rows take time and memory by their stored values, dense rows by all. With the option ``auto`` rows
become dense if they take no more memory so, and less time. The time is that of what a solve repeats:

    several products X w and X' r, and one X' D X if X has few columns

The costs are those of `TYPICAL`, or `bmrm.matrix.row_storage` measures them. Few values stay sparse: they
take little time in either way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bmrm.base.host_memory import require_memory
from bmrm.errors import ParameterError
from bmrm.io.csr import Csr

Storage = Literal["auto", "sparse", "dense"]

STORAGES = ("auto", "sparse", "dense")
"""How rows are stored; ``auto`` chooses."""

MIN_VALUES = 1 << 20
"""Minimum number of values of dense rows that are chosen."""

INDEX_BYTES = 4
"""Bytes of the index of a stored value."""

MAX_GRAM_COLUMNS = 4096
"""Maximum number of columns for which solves form X' D X."""

PRODUCTS = 6
"""Number of products for each X' D X."""

MAX_PIECE_VALUES = 1 << 22
"""Number of values that are copied to dense rows at a time."""


class Costs(NamedTuple):
    """Seconds of sparse and of dense rows, as measured or predicted."""

    product: tuple[float, float]  # per stored value
    gram: tuple[
        float, float
    ]  # per multiply-add of X' D X, n d^2 of them for n rows with d values; 0 for none


TYPICAL = Costs((3.3e-10, 3.0e-10), (3.5e-10, 2.5e-11))
"""On one core of an AMD EPYC, ``benchmarks/cpu/storage.py``."""

FindCosts = Callable[[int, int, int], Costs]
"""Returns the costs of values of some bytes, given also the number of stored values and of columns."""


class StorageChoice(NamedTuple):
    """How rows are stored, and why."""

    dense: bool
    reason: str
    counted: tuple[int, int, int] | None = None
    """Bounds of the rows and stored values of a text, and its columns; None if no more than its first rows
    had to be looked at."""

    @property
    def name(self) -> str:
        """``"dense"`` or ``"sparse"``."""
        return "dense" if self.dense else "sparse"


TOO_FEW = StorageChoice(False, "too few values are stored for dense rows to pay")


def storage_name(given: object, name: str = "storage") -> Storage:
    """Return an option of storage; raise `ParameterError` if it is none."""
    for known in STORAGES:
        if isinstance(given, str) and given == known:
            return known  # type: ignore[return-value]
    raise ParameterError(f"{name}: found {given!r}, expected one of {', '.join(STORAGES)}")


class StorageRule:
    """Chooses how the rows of a text are stored.

    Examples
    --------
    >>> rule = StorageRule("auto")
    >>> [rule.choose(10_000, stored, 300, 4).name for stored in (3_000_000, 100_000)]
    ['dense', 'sparse']
    """

    def __init__(self, asked: str, costs: FindCosts = lambda value_bytes, stored, columns: TYPICAL) -> None:
        self.asked, self._costs = storage_name(asked), costs

    def least_share(self, value_bytes: int) -> float:
        """Return the share of stored values below which rows are sparse in any case."""
        return value_bytes / (value_bytes + INDEX_BYTES) if self.asked == "auto" else 0.0

    def choose_by(self, counted: tuple[int, int, int] | None, value_bytes: int) -> StorageChoice:
        """Choose for what was counted of a text: rows, stored values and columns, None after a look alone."""
        if counted is None and self.asked == "auto":
            return TOO_FEW
        return self.choose(*(counted or (0, 0, 0)), value_bytes)._replace(counted=counted)

    def choose(self, rows: int, stored: int, columns: int, value_bytes: int) -> StorageChoice:
        """Choose for a matrix of this size."""
        if self.asked != "auto":
            return StorageChoice(self.asked == "dense", "as given")
        values = rows * columns
        share = stored / values if values else 0.0
        if values < MIN_VALUES or share < self.least_share(value_bytes):
            return TOO_FEW
        costs = self._costs(value_bytes, stored, columns)
        sparse, dense = (
            PRODUCTS * product * count + (gram * count * count / rows if columns <= MAX_GRAM_COLUMNS else 0.0)
            for product, gram, count in zip(costs.product, costs.gram, (stored, values), strict=True)
        )
        reason = f"{share:.3g} of the values are stored, dense rows take {dense / sparse:.2g} of the time"
        return StorageChoice(dense < sparse, reason)


SPARSE = StorageRule("sparse")


def dense_rows(X: Csr, dtype: np.dtype[np.generic], name: str) -> NDArray[np.generic]:
    """Return sparse rows as a dense array; raise if it does not fit into memory.

    Examples
    --------
    >>> X = Csr(np.array([0, 1, 2]), np.array([1, 0], np.int32), None, (2, 2))
    >>> dense_rows(X, np.dtype(np.float32), "X").tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    rows, columns = X.shape
    require_dense_memory(rows, columns, dtype.itemsize, name)
    out, X = np.zeros((rows, columns), dtype), X.on_host()
    step = max(1, MAX_PIECE_VALUES // max(1, columns))
    for first in range(0, rows, step):
        starts = X.indptr[first : first + step + 1]
        span = slice(int(starts[0]), int(starts[-1]))
        row = np.repeat(np.arange(first, first + len(starts) - 1), np.diff(starts))
        out[row, X.indices[span]] = 1 if X.data is None else X.data[span]
    return out


def sparse_rows(X: NDArray[np.generic]) -> Csr:
    """Return dense rows as sparse ones, which store the values that are not 0.

    Examples
    --------
    >>> sparse_rows(np.array([[0.0, 2.0], [3.0, 0.0]])).indices.tolist()
    [1, 0]
    """
    rows, columns = X.shape
    stored = int(np.count_nonzero(X))
    require_memory(stored * (8 + INDEX_BYTES + X.itemsize), f"sparse rows with {stored} values")
    counts = np.count_nonzero(X, axis=1)
    row, column = np.nonzero(X)
    values = X[row, column]
    ones = bool((values == np.ones((), X.dtype)).all())
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return Csr(indptr, column.astype(np.int32), None if ones else values, (rows, columns))


def require_dense_memory(rows: int, columns: int, value_bytes: int, name: str) -> None:
    """Raise `HostMemoryError` if dense rows do not fit into main memory."""
    require_memory(rows * columns * value_bytes, f"{rows} dense rows of {columns} columns of {name}")
