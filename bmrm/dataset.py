"""The data of a problem, resident on one device: X (and its transpose), labels, weights.

Building a `Dataset` once and solving on it many times is what `bmrm.path` and cross validation do: the
matrix is never copied again.
"""

from __future__ import annotations

import os
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bmrm import _cpu
from bmrm.errors import BmrmError, DataError, ParameterError
from bmrm.io.csr import Csr
from bmrm.weights import ClassWeight, row_weights

Vector = NDArray[np.float64]
DEVICES = ("auto", "cpu", "cuda")


SMALL = 1_000_000
"""Stored values below which a pass takes a fraction of a millisecond: starting a team of threads for it costs
as much as it saves on an idle machine, and many times that on a busy one."""


def default_threads(stored: int) -> int:
    """Cores that this process may use, or ``OMP_NUM_THREADS``; one for a small problem."""
    if stored < SMALL:
        return 1
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return int(asked) if asked.isdigit() and int(asked) > 0 else len(os.sched_getaffinity(0))


class Dataset:
    """A data matrix resident on one device, with its labels and weights.

    Parameters
    ----------
    X : Csr, scipy sparse matrix or ndarray of shape (n_samples, n_features)
    y : array_like of shape (n_samples,), optional
        Labels: two distinct values for a binary loss (the larger is the positive class), reals for
        regression, counts for Poisson; not needed for novelty detection.
    sample_weight : array_like of shape (n_samples,), optional
        Nonnegative; a row of weight 0 takes no part.
    class_weight : dict of label to weight, or "balanced", optional
        Multiplies the sample weights; "balanced" gives each class the same total.
    device : {"auto", "cpu", "cuda"}, default "auto"
    dtype : {float32, float64}, optional
        Type in which values are stored; default: as given, float64 for integers. All sums are in float64,
        so the problem solved is exactly the one of the stored values.
    threads : int, optional
        CPU threads; default: the cores that this process may use, or one where X is small. The answer does
        not depend on it.

    Raises
    ------
    DataError
        For a matrix without rows or columns or with values that are not finite, or weights that do not fit.
    ParameterError
        For an unknown device or type.
    BmrmError
        For ``device="cuda"`` where the package was built without CUDA.

    Examples
    --------
    >>> import numpy as np
    >>> from bmrm import Dataset
    >>> Dataset(np.eye(3), [1, 1, -1]).shape
    (3, 3)
    """

    def __init__(
        self,
        X: Any,
        y: Any = None,
        *,
        sample_weight: Any = None,
        class_weight: ClassWeight | None = None,
        device: str = "auto",
        dtype: DTypeLike | None = None,
        threads: int | None = None,
    ) -> None:
        if device not in DEVICES:
            raise ParameterError(f"device: found {device!r}, expected one of {', '.join(DEVICES)}")
        if device == "cuda":
            raise BmrmError("device='cuda': this build has no CUDA support; use device='cpu'")
        if threads is not None and threads < 1:
            raise ParameterError(f"threads: found {threads}, expected at least 1")
        self.matrix = _resident(X, _value_type(dtype), threads)
        self.y = y
        self.weights = row_weights(y, self.shape[0], sample_weight, class_weight)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.matrix.shape

    @property
    def nnz(self) -> int:
        """Stored values."""
        return self.matrix.nnz

    @property
    def threads(self) -> int:
        """CPU threads at work."""
        return self.matrix.threads

    @property
    def total_weight(self) -> float:
        """Sum of the weights; the number of rows where there are none."""
        return float(self.shape[0]) if self.weights is None else float(self.weights.sum())


def _value_type(dtype: DTypeLike | None) -> np.dtype[Any] | None:
    if dtype is None:
        return None
    try:
        found = np.dtype(dtype)
    except TypeError:
        found = None
    if found not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise ParameterError(f"dtype: found {dtype!r}, expected float32 or float64")
    return found


def _resident(X: Any, dtype: np.dtype[Any] | None, threads: int | None) -> _cpu.Matrix:
    if not isinstance(X, Csr) and hasattr(X, "tocsr"):
        X = Csr.from_scipy(X)
    if isinstance(X, Csr):
        _check_values(X.shape, X.data)
        data = X.data
        if data is not None and dtype is not None:
            data = data.astype(dtype, copy=False)
        threads = default_threads(X.nnz) if threads is None else threads
        return _cpu.Matrix(X.indptr, X.indices, data, X.shape, threads=threads)
    try:
        dense = np.asarray(X)
    except ValueError as error:
        raise DataError(f"X: {error}; expected a matrix") from None
    if dense.ndim != 2 or dense.dtype.kind not in "fiub":
        raise DataError(f"X: found shape {dense.shape} of {dense.dtype}, expected a matrix of real numbers")
    if dtype is None:
        dtype = dense.dtype if dense.dtype in (np.float32, np.float64) else np.dtype(np.float64)
    dense = np.ascontiguousarray(dense, dtype=dtype)
    _check_values(dense.shape, dense)
    threads = default_threads(dense.size) if threads is None else threads
    return _cpu.Matrix.from_dense(dense, threads=threads)


def _check_values(shape: tuple[int, ...], values: NDArray[Any] | None) -> None:
    if shape[0] == 0 or shape[1] == 0:
        raise DataError(f"X: found {shape[0]} rows and {shape[1]} columns, expected at least one of each")
    # The sum is finite unless a value is not, or it overflows: only then is each value looked at.
    with np.errstate(all="ignore"):
        if values is None or np.isfinite(values.sum(dtype=np.float64)):
            return
    bad = np.argwhere(~np.isfinite(values))
    if bad.size:
        raise DataError(f"X: stored value {values[tuple(bad[0])]} is not finite")


class WithConstant:
    """A resident matrix with one more column, the same value in every row: a penalised intercept.

    Parameters
    ----------
    matrix : Matrix
    value : float
        The constant feature's value, LIBLINEAR's ``-B``.
    """

    def __init__(self, matrix: _cpu.Matrix, value: float) -> None:
        self.matrix, self.value = matrix, value
        self.shape = (matrix.shape[0], matrix.shape[1] + 1)
        self.nnz = matrix.nnz + matrix.shape[0]

    def matvec(self, w: Vector, out: Vector) -> None:
        """``out = [X, value 1] w``."""
        self.matrix.matvec(w[:-1], out)
        out += self.value * w[-1]

    def rmatvec_blocks(self, r: Vector, starts: NDArray[np.int64], out: Vector) -> None:
        """``out[p] = [X_p, value 1]' r_p`` for each block of rows."""
        inner = np.empty((out.shape[0], out.shape[1] - 1))
        self.matrix.rmatvec_blocks(r, starts, inner)
        out[:, :-1] = inner
        out[:, -1] = [self.value * r[i:j].sum() for i, j in pairwise(starts)]
