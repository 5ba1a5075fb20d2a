"""The data of a problem, resident on one device: X (and its transpose), labels, weights, groups.

Building a `Dataset` once and solving on it many times is what `bmrm.path` and cross validation do: the
matrix is never copied again.
"""

from __future__ import annotations

from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bmrm.base.groups import number_groups
from bmrm.base.vectors import Vector, freeze
from bmrm.errors import BmrmError, ParameterError
from bmrm.io.csr import Csr, find_numbering
from bmrm.matrix import _cpu
from bmrm.matrix.checksums import matrix_checksum
from bmrm.matrix.resident import DEFAULT_TOL, is_uploaded, place_matrix, validate_matrix
from bmrm.matrix.row_weights import ClassWeight, row_weights


class Dataset:
    """A data matrix resident on one device, with its labels, weights and groups.

    On the CPU the arrays of X are shared with the caller where their type and order allow: they must not
    change while the data set, or a result that was trained on it, is in use. Labels, weights and groups are
    copied.

    Parameters
    ----------
    X : Csr, scipy sparse matrix or ndarray of shape (n_samples, n_features)
    y : array_like of shape (n_samples,), optional
        Labels: two distinct values for a binary loss (the larger is the positive class), any numbers for
        several classes, reals for regression, counts for Poisson, relevances for ranking, ordered classes for
        ordinal regression; not needed for novelty detection. For several labels a row a list of tuples, or a
        matrix of zeros and ones with a column a label.
    sample_weight : array_like of shape (n_samples,), optional
        Nonnegative; a row of weight 0 takes no part, as if it were not there, and its label is not looked at.
        A row of weight 2 is as good as two of weight 1 (but see docs/losses.md for losses that count rows or
        groups), and a factor that all weights have in common means nothing.
    class_weight : dict of label to weight, or "balanced", optional
        Multiplies the sample weights; "balanced" gives each class the same sum of weights.
    groups : array_like of shape (n_samples,), optional
        The query of each row, for ranking losses: numbers or names, in any order. Cross validation keeps a
        group in one fold, whatever the loss.
    device : {"auto", "cpu", "cuda", "cuda:N"}, default "auto"
        "cuda" is the first GPU that CUDA shows, "cuda:N" the one of that number. "auto" takes the first where
        there is one, the package was built for it, and X has at least `bmrm.matrix.gpu.devices.WORTH_A_GPU`
        stored values, or `NARROW_WORTH_A_GPU` in few columns; where X does not fit there, it warns and takes
        the CPU.
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

    Attributes
    ----------
    zero_based : bool or None
        Whether features were numbered from 0 in the text that X comes from, as `bmrm.load_svmlight` marks it;
        None where that is not known. Models are saved with it.

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
    """Labels and classes as `labels.encode` gives them, where all solves are known to have one loss."""

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
        self.zero_based = find_numbering(X)
        X = validate_matrix(X)
        placed = place_matrix(X, device=device, dtype=dtype, threads=threads, tol=tol, gpu_mem=gpu_mem)
        self.matrix, self.device, self.resolution, self.longest = placed
        self._entries: int | None = None
        if self.device != "cpu" and not is_uploaded(X):
            self.take_checksum(X)
        self.y = copy_labels(y)
        self.weights = freeze(row_weights(y, self.shape[0], sample_weight, class_weight))
        self.counted_squares = _sum_counted_squares(X, self.weights)
        """Sum of the squares of each column of X over the rows that count, if some do not."""
        self.groups = freeze(number_groups(groups, self.shape[0]))

    def __copy__(self) -> Self:
        other = object.__new__(type(self))
        vars(other).update(vars(self))
        return other

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise BmrmError(
            f"{type(self).__name__}: X is resident in this process, so it can be neither pickled nor copied "
            "deeply; send X and y and make another of them there"
        )

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

    @property
    def stored(self) -> str:
        """Type in which values are stored: "float32", or "float64", and that where all are 1."""
        return "float32" if self.matrix.dtype == np.float32 else "float64"

    @property
    def first_row(self) -> int:
        """Number of the first row here among those of all ranks."""
        return 0

    @property
    def columns(self) -> NDArray[np.integer[Any]] | None:
        """Numbers that the columns of the matrix here have in the whole; None where they have all."""
        return None

    def entries(self) -> int:
        """Checksum of the rows here as they are stored; see `bmrm.matrix.checksums`.

        Raises
        ------
        ParameterError
            X went to a GPU as it was parsed, and nobody has taken its checksum.
        """
        if self._entries is None:
            if not isinstance(self.matrix, _cpu.Matrix):
                raise ParameterError(
                    "checkpoint: X went to the GPU as it was parsed, without its checksum (`take_checksum`)"
                )
            self._entries = self.matrix.entries(self.first_row, self.columns)
        return self._entries

    def take_checksum(self, X: Csr | NDArray[Any]) -> None:
        """Take the checksum of the X that was put on a GPU, which does not tell its entries any more.

        Parameters
        ----------
        X : Csr or ndarray
            The rows here; what a `bmrm.Landing` has taken is still there.
        """
        kept = self.matrix.dtype or np.dtype(np.float64)  # none where all are 1
        self._entries = matrix_checksum(X, kept, self.threads, self.first_row)

    def margins(self, w: Vector) -> Vector:
        """``X w``, of the rows here."""
        return np.asarray(self.matrix.matvec(w))

    @property
    def total_weight(self) -> float:
        """Sum of the weights; the number of rows where there are none."""
        return float(self.shape[0]) if self.weights is None else float(self.weights.sum())


def _sum_counted_squares(X: Csr | NDArray[Any], weights: Vector | None) -> Vector | None:
    """Add up the squares of each column over the rows that count; None if all do, or X is not at hand."""
    if weights is None or weights.all() or is_uploaded(X):
        return None
    counts = weights > 0.0
    if not isinstance(X, Csr):
        return np.asarray(np.einsum("ij,ij->j", X[counts], X[counts], dtype=np.float64))
    entries = np.repeat(counts, np.diff(X.indptr))
    squares = None if X.data is None else np.square(X.data[entries], dtype=np.float64)
    return np.bincount(X.indices[entries], squares, X.shape[1]).astype(np.float64)


def copy_labels(y: Any) -> Any:
    """Return labels as they are given, in a copy that later changes of theirs do not reach.

    Examples
    --------
    >>> given = [[1, 2], [3]]
    >>> labels = kept(given)
    >>> given[1].append(4)
    >>> labels
    [[1, 2], [3]]
    """
    if isinstance(y, np.ndarray):
        return freeze(y.copy())
    if isinstance(y, (list, tuple)):
        return [row.copy() if isinstance(row, (list, set, np.ndarray)) else row for row in y]
    return y.copy() if hasattr(y, "copy") else y
