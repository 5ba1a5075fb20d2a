"""The data of a problem, resident on one device: X (and its transpose), labels, weights, groups.

Building a `Dataset` once and solving on it many times is what `bmrm.path` and cross validation do: the
matrix is never copied again.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bmrm.groups import group_numbers
from bmrm.resident import DEFAULT_TOL, Matrix, resident
from bmrm.weights import ClassWeight, row_weights

Vector = NDArray[np.float64]


class Dataset:
    """A data matrix resident on one device, with its labels, weights and groups.

    On the CPU arrays are shared with the caller where their type and order allow: they must not change while
    the data set, or a result that was trained on it, is in use.

    Parameters
    ----------
    X : Csr, scipy sparse matrix or ndarray of shape (n_samples, n_features)
    y : array_like of shape (n_samples,), optional
        Labels: two distinct values for a binary loss (the larger is the positive class), any numbers for
        several classes, reals for regression, counts for Poisson, relevances for ranking, ordered classes for
        ordinal regression; not needed for novelty detection. For several labels a row a list of tuples, or a
        matrix of zeros and ones with a column a label.
    sample_weight : array_like of shape (n_samples,), optional
        Nonnegative; a row of weight 0 takes no part.
    class_weight : dict of label to weight, or "balanced", optional
        Multiplies the sample weights; "balanced" gives each class the same total.
    groups : array_like of shape (n_samples,), optional
        The query of each row, for ranking losses: numbers or names, in any order. Cross validation keeps a
        group in one fold, whatever the loss.
    device : {"auto", "cpu", "cuda", "cuda:N"}, default "auto"
        "cuda" is the first GPU that CUDA shows, "cuda:N" the one of that number. "auto" takes the first where
        there is one, the package was built for it, and X has at least `bmrm.device.WORTH_A_GPU` stored
        values, or `NARROW_WORTH_A_GPU` in few columns; where X does not fit there, it warns and takes the
        CPU.
    dtype : {float32, float64}, optional
        Type in which values are stored; default: as given, float64 for integers. On the CPU all sums are in
        float64. On a GPU they are in the type of the values.
    threads : int, optional
        CPU threads; default: the cores that this process may use, or one where X is small. The answer does
        not depend on it, but that more than four may take another way to it where X is large and wide.
    tol : float, default 1e-3
        Smallest tolerance that it will be solved to. Below 1e-5 a GPU stores float32 values as float64,
        unless `dtype` is given: sums in float32 would hide a gap so small.
    gpu_mem : int or str, optional
        Device memory that solves may take with X, vectors and cuts: bytes, or a size like "8G" or "500M";
        default: what is free. What of X finds no room streams from pinned host memory, at each product; the
        answer is the same to within its certified gap.

    Raises
    ------
    DataError
        For a matrix without rows or columns or with values that are not finite, or weights or groups that
        do not fit.
    ParameterError
        For an unknown device or type.
    BmrmError
        For ``device="cuda"`` where the package was built without CUDA, or there is no driver or no GPU.
    DeviceMemoryError
        For ``device="cuda"`` where vectors and a few rows of X do not fit, or main memory has no room for
        what streams.

    Examples
    --------
    >>> import numpy as np
    >>> from bmrm import Dataset
    >>> Dataset(np.eye(3), [1, 1, -1]).shape
    (3, 3)
    """

    group: Any = None
    """The ranks that share the rows; None where all are here. See `bmrm.distributed.Shard`."""

    owned = False
    """Whether each rank keeps some columns of the weights alone."""

    coded: tuple[Vector, Vector | None] | None = None
    """Labels and classes as `bmrm.labels.encode` gives them, where all solves are known to have one loss."""

    def __init__(
        self,
        X: Any,
        y: Any = None,
        *,
        sample_weight: Any = None,
        class_weight: ClassWeight | None = None,
        groups: Any = None,
        device: str = "auto",
        dtype: DTypeLike | None = None,
        threads: int | None = None,
        tol: float = DEFAULT_TOL,
        gpu_mem: int | str | None = None,
    ) -> None:
        placed = resident(X, device=device, dtype=dtype, threads=threads, tol=tol, gpu_mem=gpu_mem)
        self.matrix, self.device, self.resolution = placed
        self.y = y
        self.weights = row_weights(y, self.shape[0], sample_weight, class_weight)
        self.groups = group_numbers(groups, self.shape[0])

    def __repr__(self) -> str:
        size = "{} rows, {} columns".format(*self.shape)
        return f"<{type(self).__name__}: {size}, {self.nnz} stored values, {self.device}>"

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

    def margins(self, w: Vector) -> Vector:
        """``X w``, of the rows here."""
        return np.asarray(self.matrix.matvec(w))

    @property
    def total_weight(self) -> float:
        """Sum of the weights; the number of rows where there are none."""
        return float(self.shape[0]) if self.weights is None else float(self.weights.sum())


class WithConstant:
    """A resident matrix with one more column, the same value in every row: a penalised intercept.

    Parameters
    ----------
    matrix : Matrix
    value : float
        The constant feature's value, LIBLINEAR's ``-B``.
    """

    def __init__(self, matrix: Matrix, value: float) -> None:
        self.matrix, self.value = matrix, value
        self.shape = (matrix.shape[0], matrix.shape[1] + 1)
        self.nnz = matrix.nnz + matrix.shape[0]

    def split(self, w: Vector) -> tuple[Vector, float]:
        """Weights and intercept of a vector of weights."""
        return w[:-1], float(w[-1]) * self.value

    def joined(self, w: Vector, intercept: float | Vector) -> Vector:
        """Undo `split`."""
        return np.append(w, intercept / np.float64(self.value))

    @property
    def weighted_gram_work(self) -> float:
        """Multiply-adds of `weighted_gram`; infinite where X has no such product."""
        return self.matrix.weighted_gram_work + self.nnz

    @property
    def mean_squares(self) -> Vector:
        """Mean square of each column."""
        return np.append(self.matrix.mean_squares, self.value**2)

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

    def weighted_gram(self, s: Vector, out: Vector) -> None:
        """``out = [X, value 1]' diag(s) [X, value 1]``."""
        d = self.shape[1] - 1
        out[:d, :d] = self.matrix.weighted_gram(s)
        out[d, :d] = out[:d, d] = self.value * self.matrix.rmatvec(s)
        out[d, d] = self.value**2 * s.sum()
