"""The data of a problem on one device: X (and its transpose), labels, weights and groups.

`bmrm.path` and cross validation build a `Dataset` once and solve on it many times, so the matrix is never
copied again.
"""

from __future__ import annotations

from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bmrm.base.arguments import read_foreign
from bmrm.base.columns import Names, find_names
from bmrm.base.groups import number_groups
from bmrm.base.labels import Labels
from bmrm.base.offsets import row_offsets
from bmrm.base.sparse_tensors import as_scipy
from bmrm.base.vectors import Vector, freeze
from bmrm.errors import BmrmError, ParameterError
from bmrm.io.csr import Csr, find_numbering
from bmrm.io.data import Data
from bmrm.io.row_storage import Storage
from bmrm.io.text import value_type
from bmrm.matrix import _cpu
from bmrm.matrix.checksums import matrix_checksum
from bmrm.matrix.gpu.cpu_share import split_text
from bmrm.matrix.gpu.device_arrays import DeviceArray, read_back
from bmrm.matrix.resident import DEFAULT_TOL, is_uploaded, place_matrix, read_matrix
from bmrm.matrix.row_storage import stored_as
from bmrm.matrix.row_weights import ClassWeight, row_weights


class Dataset:
    """A data matrix resident on one device, with its labels, weights, offsets and groups.

    On the CPU the arrays of X are shared with the caller if their type and order allow it. They must not
    change while the data set, or a result trained on it, is in use. Labels, weights, offsets and groups are
    copied.

    An X on a GPU, an array of CuPy, PyTorch, JAX or Numba or a matrix of CuPy or PyTorch in compressed
    rows, is read there, and device="auto" is that GPU. Its values must be float32 or float64, by rows.

    Parameters
    ----------
    X : Csr, scipy sparse matrix, ndarray or bmrm.io.Data, of shape (n_samples, n_features)
        A `bmrm.io.Data` also brings its labels, groups and offsets, unless others are given. If reading has
        rounded its values, certificates of solves hold for the numbers of the file; see `bmrm.solve`.
    y : array_like of shape (n_samples,), optional
        Labels: two distinct numbers, truth values or texts for a binary loss (the larger is the positive
        class), two or more for several classes, reals for regression, counts for Poisson, relevances for
        ranking, numbers in the order of the classes for ordinal regression; not needed for novelty detection.
        For several labels per row, a list of tuples or a matrix of zeros and ones with one column per label.
    sample_weight : array_like of shape (n_samples,), optional
        Nonnegative. A row of weight 0 is ignored, including its label. A row of weight 2 counts like two rows
        of weight 1 (but see docs/losses.md for losses that count rows or groups). A common factor of all
        weights changes nothing.
    class_weight : dict of label to weight, or "balanced", optional
        Multiplies the sample weights; "balanced" gives each class the same sum of weights.
    offset : array_like of shape (n_samples,), or (n_samples, K) for a loss of K classes, optional
        Numbers that are added to the margins, such as the log of the exposure of a rate, or the margins of an
        earlier model; see docs/losses.md.
    groups : array_like of shape (n_samples,), optional
        The query of each row, for ranking losses: numbers or names, in any order. Cross validation keeps each
        group in one fold, for every loss.
    device : {"auto", "cpu", "cuda", "cuda:N"}, default "auto"
        "cuda" is the first CUDA device, "cuda:N" the one of that number. "auto" uses the first if the package
        was built with CUDA and X has at least ``bmrm.matrix.gpu.work.WORTH_A_GPU`` stored values, or
        `NARROW_WORTH_A_GPU` if it has few columns. If X does not fit there, "auto" warns and uses the CPU.
    dtype : {float32, float64}, optional
        Type in which values are stored; default: as given, float64 for integers. On the CPU all sums are in
        float64, on a GPU in the type of the values.
    threads : int, optional
        Number of CPU threads; default: the cores that this process may use, or one if X is small. The
        solution does not depend on it, but for large and wide X more than four threads may use another
        algorithm.
    tol : float, default 1e-3
        Smallest tolerance that will be used. Below 1e-5 a GPU stores float32 values as float64 unless `dtype`
        is given, since the rounding of float32 sums would hide so small a gap.
    gpu_mem : int or str, optional
        Device memory for X, vectors and cuts of solves: bytes, or a size like "8G" or "500M"; default: what
        is free. The part of X that does not fit streams from pinned host memory during each product. The
        result is the same to within its certified gap.
    cpu_share : float, optional
        Share of the blocks of rows that do not fit, in eighths from 0 to 1, whose products the CPU computes
        at the same time, from main memory. By default measured rates of the machine decide; 0 leaves all to
        the GPU. The same share of the same blocks gives the same bits.
    storage : {"auto", "sparse", "dense"}, default "auto"
        Rows in main memory are converted to this form; with "auto" they stay as they are given. The reader
        chooses for text, see `bmrm.io.read_data`.

    Attributes
    ----------
    zero_based : bool or None
        Whether features were numbered from 0 in the text that X comes from, as marked by
        `bmrm.load_svmlight`; None if that is unknown. Models are saved with it.
    feature_names : tuple of str or None
        The names of the columns of X, if it is a frame or an Arrow table whose names are text. Models are
        saved with them, and refuse a frame with other columns.
    source : bmrm.io.Data or None
        What X was read from, if it was given so.

    Raises
    ------
    DataError
        If X has no rows, no columns or values that are not finite, or if weights, offsets or groups do not
        match.
    ParameterError
        For an unknown device or type.
    BmrmError
        For ``device="cuda"`` if the package was built without CUDA, or there is no driver or no GPU.
    DeviceMemoryError
        For ``device="cuda"`` if vectors and a few rows of X do not fit, or main memory has no room for what
        would stream.

    Examples
    --------
    >>> import numpy as np
    >>> from bmrm import Dataset
    >>> Dataset(np.eye(3), [1, 1, -1]).shape
    (3, 3)
    >>> data = Dataset(np.eye(3), [1, 1, -1])
    >>> data.margins(np.array([1.0, 2.0, 3.0]))
    array([1., 2., 3.])
    """

    group: Any = None
    """The ranks that share the rows; None if all rows are here. See `bmrm.distributed.Shard`."""

    owned = False
    """Whether each rank owns only some columns of the weights."""

    coded: tuple[Vector, Labels | None] | None = None
    """Result of `labels.encode` (labels and classes), set if all solves use the same loss."""

    def __init__(
        self,
        X: Any,
        y: Any = None,
        *,
        sample_weight: Any = None,
        class_weight: ClassWeight | None = None,
        offset: Any = None,
        groups: Any = None,
        device: str = "auto",
        dtype: DTypeLike | None = None,
        threads: int | None = None,
        tol: float = DEFAULT_TOL,
        gpu_mem: int | str | None = None,
        cpu_share: float | None = None,
        storage: Storage = "auto",
    ) -> None:
        self.source = X if isinstance(X, Data) else None
        X, y, offset, groups = unpacked(X, y, offset, groups, dtype)
        self.zero_based, self.feature_names = numbering_and_names(self.source or X)
        X = stored_as(storage, read_matrix(X), dtype)
        y, sample_weight, offset, groups = map(read_back, (y, sample_weight, offset, groups))
        of_device: dict[str, Any] = {"device": device, "gpu_mem": gpu_mem, "cpu_share": cpu_share}
        placed = place_matrix(X, dtype=dtype, threads=threads, tol=tol, **of_device)
        self.matrix, self.device, self.resolution, self.longest, self.fingerprint = placed
        self._entries: int | None = None
        if self.device != "cpu" and not is_uploaded(X):
            self.take_checksum(X)
        self.y = copy_labels(y)
        self.weights = freeze(row_weights(y, self.shape[0], sample_weight, class_weight))
        self.counted_squares = _sum_counted_squares(X, self.weights)
        """Sum of squares of each column of X over the rows of positive weight, if some rows have weight 0."""
        self.offset = freeze(row_offsets(offset, self.shape[0]))
        self.groups = freeze(number_groups(groups, self.shape[0]))

    def __copy__(self) -> Self:
        other = object.__new__(type(self))
        vars(other).update(vars(self))
        return other

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise BmrmError(
            f"{type(self).__name__}: X lives in this process, so it can be neither pickled nor deep-copied; "
            "send X and y and build another one there"
        )

    def __repr__(self) -> str:
        size = "{} rows, {} columns".format(*self.shape)
        return f"<{type(self).__name__}: {size}, {self.nnz} stored values, {self.device}>"

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and columns."""
        return self.matrix.shape

    @property
    def nnz(self) -> int:
        """Number of stored values."""
        return self.matrix.nnz

    @property
    def threads(self) -> int:
        """Number of CPU threads."""
        return self.matrix.threads

    @property
    def stored(self) -> str:
        """Type of the stored values: "float32" or "float64"; "float64" if all values are 1."""
        return "float32" if self.matrix.dtype == np.float32 else "float64"

    @property
    def rounded(self) -> bool:
        """Whether values are not all the numbers of the file that X was read from."""
        return self.source is not None and self.source.rounded

    @property
    def split(self) -> str:
        """Which rows here the CPU computes while a GPU works on the others; empty if it has none."""
        return "" if self.device == "cpu" else split_text(self.matrix)

    @property
    def first_row(self) -> int:
        """Number of the first row here among the rows of all ranks."""
        return 0

    @property
    def columns(self) -> NDArray[np.integer[Any]] | None:
        """Numbers of the columns of the local matrix in the whole matrix; None if it has all columns."""
        return None

    def entries(self) -> int:
        """Return the checksum of the local rows as stored; see ``bmrm.matrix.checksums``.

        Raises
        ------
        ParameterError
            If X was uploaded to a GPU while it was parsed, and `take_checksum` was not called.
        """
        if self._entries is None:
            if not isinstance(self.matrix, _cpu.Matrix):
                raise ParameterError(
                    "checkpoint: found X on a GPU without its checksum, expected a call of `take_checksum`"
                )
            self._entries = self.matrix.entries(self.first_row, self.columns)
        return self._entries

    def take_checksum(self, X: Csr | NDArray[Any]) -> None:
        """Compute the checksum of the X that was put on a GPU, from which its entries cannot be read back.

        Parameters
        ----------
        X : Csr or ndarray
            The local rows; arrays of a ``bmrm.matrix.upload.Landing`` must still exist.

        Examples
        --------
        >>> import numpy as np, bmrm
        >>> data = bmrm.Dataset(np.eye(2), [1, -1])
        >>> data.take_checksum(np.eye(2))
        """
        stored = self.matrix.dtype or np.dtype(np.float64)  # no dtype if all values are 1
        self._entries = matrix_checksum(X, stored, self.threads, self.first_row)

    def margins(self, w: Vector) -> Vector:
        """Return ``X w`` for the local rows.

        Parameters
        ----------
        w : ndarray of float64, shape (d,), or (d, K)

        Returns
        -------
        ndarray of float64, shape (m,), or (m, K)
        """
        return np.asarray(self.matrix.matvec(w))

    @property
    def total_weight(self) -> float:
        """Sum of the weights; the number of rows if there are no weights."""
        return float(self.shape[0]) if self.weights is None else float(self.weights.sum())


def _sum_counted_squares(X: Csr | NDArray[Any] | DeviceArray, weights: Vector | None) -> Vector | None:
    """Sum the squares of each column over rows of positive weight; None if all count or X is on a GPU."""
    if weights is None or weights.all() or is_uploaded(X):
        return None
    counts = weights > 0.0
    assert not isinstance(X, DeviceArray)
    if not isinstance(X, Csr):
        return np.asarray(np.einsum("ij,ij->j", X[counts], X[counts], dtype=np.float64))
    entries = np.repeat(counts, np.diff(X.indptr))
    squares = None if X.data is None else np.square(X.data[entries], dtype=np.float64)
    return np.bincount(X.indices[entries], squares, X.shape[1]).astype(np.float64)


def unpacked(
    X: Any, y: Any, offset: Any, groups: Any, dtype: DTypeLike | None = None
) -> tuple[Any, Any, Any, Any]:
    """Return X, labels, offsets and groups: of what a file was read into, those that are not given.

    Raise `ParameterError` for a ``dtype`` that would round what was read.
    """
    if not isinstance(X, Data):
        return X, y, offset, groups
    if dtype is not None and value_type(dtype) == np.float32 and X.dtype != "float32":
        raise ParameterError(
            f"dtype: found float32 for data that were read as {X.dtype}, expected dtype= of the reader"
        )
    return (
        X.X,
        X.y if y is None else y,
        X.offset if offset is None else offset,
        X.qid if groups is None else groups,
    )


def numbering_and_names(X: Any) -> tuple[bool | None, Names | None]:
    """Return what X says of the numbers of its features in text, and of their names."""
    return find_numbering(X), X.feature_names if isinstance(X, Data) else find_names(X)


def copy_labels(y: Any) -> Any:
    """Copy labels so that later changes of the original have no effect.

    Examples
    --------
    >>> given = [[1, 2], [3]]
    >>> labels = copy_labels(given)
    >>> given[1].append(4)
    >>> labels
    [[1, 2], [3]]
    """
    y = as_scipy("labels", read_foreign("labels", y))
    if isinstance(y, np.ndarray):
        return freeze(y.copy())
    if isinstance(y, (list, tuple)):
        return [row.copy() if isinstance(row, (list, set, np.ndarray)) else row for row in y]
    return y.copy() if hasattr(y, "copy") else y
