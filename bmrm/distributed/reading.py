"""What a user passes as rows, read into a `RowSet`: as it is, or validated for estimators.

Nothing is copied if types allow, and a mapped file never as a whole.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, cast
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from bmrm.base import arguments
from bmrm.base.arguments import describe_position, find_device, is_on_device, is_sparse
from bmrm.base.estimator import words_for_scikit_learn
from bmrm.base.foreign_arrays import LEGACY_STREAM
from bmrm.base.sparse_tensors import as_scipy
from bmrm.base.vectors import Vector
from bmrm.distributed.row_set import RowSet
from bmrm.distributed.rows import (
    MAX_CONVERTED_BYTES,
    DenseRows,
    DeviceRows,
    DeviceSparseRows,
    MatrixRows,
    SparseRows,
    StoredRows,
    is_read,
)
from bmrm.errors import DataError
from bmrm.io.csr import Csr, build_canonical, check_layout
from bmrm.io.data import Data
from bmrm.matrix._cpu import Matrix
from bmrm.matrix.dataset import Dataset
from bmrm.matrix.gpu.device_arrays import DeviceArray, read_back, read_device_matrix
from bmrm.matrix.resident import resident_rows, validate_matrix

MAX_ABSOLUTE_VALUE = 1e150
"""Values of float64 whose squares are far from overflow."""

READ_BYTES = 1 << 25
"""Size of rows of a mapped file that are validated before their pages are released."""


def read_rows(data: Any) -> RowSet:
    """Read rows of any real type for compiled functions; values need not be finite.

    Parameters
    ----------
    data : ndarray, memmap, DLPack, DataFrame, SciPy sparse matrix, Csr, Data, Dataset, or array on a GPU
        A table of numbers. Mapped files are never copied as a whole.

    Raises
    ------
    DataError
        If it is not a matrix of real numbers.

    Examples
    --------
    >>> read_rows([[1, 2], [3, 4]]).shape
    (2, 2)
    """
    if isinstance(data, RowSet):
        return data
    if isinstance(data, Data):
        data = data.X
    return _read_dataset(data) if isinstance(data, Dataset) else RowSet(_read_stored(data))


def _read_stored(data: Any) -> StoredRows:
    if isinstance(data, Csr):
        return _on_gpu(data) if is_on_device(data.indices) else SparseRows(data)
    if is_sparse(data):
        there = read_device_matrix(data)
        return _on_gpu(there) if isinstance(there, Csr) else SparseRows(_from_scipy(data))
    if (type(data) is np.ndarray or isinstance(data, np.memmap)) and data.ndim == 2:
        if data.dtype == bool:
            data = data.view(np.uint8)
        if data.dtype.kind in "fiu":
            return DenseRows(np.asarray(data))
    place = find_device(data)
    if place is not None:
        array = DeviceArray("rows", data, 2, None, any_order=True, stream=LEGACY_STREAM, place=place)
        if array.dtype != bool and not is_read(array.dtype):
            raise DataError(
                f"rows: found {array.dtype} on a GPU, expected float32, float64, integers or truth values"
            )
        return DeviceRows(array)
    return DenseRows(np.asarray(arguments.matrix("rows", data)))


def _on_gpu(csr: Csr) -> StoredRows:
    columns, values = (
        cast(Any, None if array is None else DeviceArray("rows", array, 1, None))
        for array in (csr.indices, csr.data)
    )
    return DeviceSparseRows(csr._replace(indices=columns, data=values))


_datasets: WeakKeyDictionary[Dataset, RowSet] = WeakKeyDictionary()
"""Rows of data sets in main memory, and of sparse ones on a GPU: these keep their columns in other forms,
which are copied once."""


def _read_dataset(data: Dataset) -> RowSet:
    if data in _datasets:
        return _datasets[data]
    stored: StoredRows
    if not isinstance(data.matrix, Matrix):
        stored = _read_stored(resident_rows("rows", data, sparse=True))
        if not stored.sparse:
            return RowSet(stored)
        _datasets[data] = RowSet(stored)
    else:
        found = data.matrix.rows()
        if isinstance(found, np.ndarray):
            stored = DenseRows(found, {})
        else:
            starts, columns, values = found
            if data.columns is not None:  # those that the rows of this rank touch
                columns = data.columns[columns].astype(np.int64)
            values = np.ones(len(columns)) if values is None else values
            shape = (len(starts) - 1, data.shape[1])
            csr = build_canonical(starts, columns, values, shape, sum_duplicates=False)
            if csr.data is None and data.stored == "float32":  # as on another rank, where not all are 1
                csr = csr._replace(data=np.ones(csr.nnz, np.float32))
            stored = SparseRows(csr, {})
        _datasets[data] = RowSet(stored, None, None, data.group, _bounds_of(data))
    return _datasets[data]


def _bounds_of(data: Dataset) -> tuple[int, ...]:
    if data.group is None:
        return ()
    from bmrm.distributed.shard import Shard

    assert isinstance(data, Shard)
    return (0, *itertools.accumulate(data.rows))


def _from_scipy(X: Any) -> Csr:
    """Convert without looking at the values, of which some may not be finite."""
    X = as_scipy("rows", X).tocsr()
    if X.ndim != 2:
        raise DataError(f"rows: found a sparse array of {X.ndim} dimensions, expected 2")
    check_layout(X.indptr, X.indices, X.data, X.shape)  # SciPy would read outside of arrays
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    if X.data.dtype.kind not in "fiub":
        raise DataError(f"rows: found values of type {X.data.dtype}, expected real numbers")
    values = X.data if X.data.dtype in (np.float32, np.float64) else X.data.astype(np.float64)
    index = np.int32 if X.indices.dtype == np.int32 else np.int64
    return Csr(
        np.ascontiguousarray(X.indptr, np.int64),
        np.ascontiguousarray(X.indices, index),
        np.ascontiguousarray(values),
        (int(X.shape[0]), int(X.shape[1])),
    )


def read_row_set(
    X: Any,
    sample_weight: Any = None,
    *,
    threads: int | None = None,
    comm: Any = None,
) -> RowSet:
    """Validate rows and weights; with a communicator, those of each rank.

    A dense array on a GPU stays there; with a communicator, those of all ranks are.

    Raises
    ------
    DataError
        If X is no matrix of finite numbers, or weights do not fit; if ranks have other numbers of columns,
        or no rows.
    ParameterError
        If ``comm`` is not a communicator.
    """
    if comm is None:
        if isinstance(X, Dataset):
            sample_weight = X.weights if sample_weight is None else sample_weight
            X = _dense_rows_of(X)
        found = _read_there(X) or read_here(X)
        return RowSet(found, read_weights(read_back(sample_weight), len(found)), threads)
    from bmrm.distributed.group import group_of

    group = group_of(comm)
    with group.together():
        if isinstance(X, Dataset):
            raise DataError("X: found a Dataset with comm, expected the rows of this rank as a matrix")
        rows = _read_there(X) or read_here(X)
        weights = read_weights(read_back(sample_weight), len(rows), zeros=True)
    kinds = group.everyones(_kind_of(rows))
    if len(set(kinds)) > 1:
        first, other = sorted(set(kinds))[:2]
        raise DataError(f"X: found {first} on rank {kinds.index(first)}, {other} on {kinds.index(other)}")
    shapes = group.everyones(rows.shape)
    columns = {d for _, d in shapes}
    if len(columns) > 1:
        raise DataError(f"X: found {min(columns)} columns on one rank and {max(columns)} on another")
    weighted = group.everyones(weights is not None)
    if any(weighted):
        weights = np.ones(rows.shape[0]) if weights is None else weights
        if not any(group.everyones(bool(weights.any()))):
            raise DataError("sample_weight: found only zeros, expected some positive weight")
    threads = group.cores if threads is None else threads
    return RowSet(rows, weights, threads, group, (0, *itertools.accumulate(n for n, _ in shapes)))


def read_product_rows(
    X: Any,
    sample_weight: Any = None,
    *,
    threads: int | None = None,
    comm: Any = None,
    needs_rows: Callable[[int], bool],
) -> tuple[RowSet, Any]:
    """Validate rows and weights as `read_row_set`; return them and their resident matrix, if they have one.

    That of a `bmrm.Dataset` forms products where it is; of one on a GPU there may be no other rows.

    - ``needs_rows``: whether dense rows on a GPU are needed too, given the number of columns
    """
    if comm is not None or not isinstance(X, Dataset):
        return read_row_set(X, sample_weight, threads=threads, comm=comm), None
    matrix: Any = X.matrix
    if X.device != "cpu" and X.group is None and matrix.is_dense and needs_rows(X.shape[1]):
        return read_row_set(X, sample_weight, threads=threads), None
    if X.group is not None:
        raise DataError("X: found rows on several ranks, expected a Dataset of all rows, or comm")
    weights = read_weights(X.weights if sample_weight is None else sample_weight, X.shape[0])
    if X.device == "cpu":
        return RowSet(read_rows(X).X[:], weights, threads), matrix
    if X.stored == "float32":
        raise DataError("X: found float32 rows on a GPU, which sums them in float32; expected float64")
    if weights is not None:
        raise DataError("X: found a Dataset with row weights, expected the matrix itself and sample_weight")
    return RowSet(MatrixRows(matrix), None, threads), matrix


def _kind_of(rows: StoredRows) -> str:
    if rows.on_gpu:
        return "rows on a GPU"
    return "sparse rows" if rows.sparse else "dense rows in main memory"


def _read_there(X: Any) -> StoredRows | None:
    """Return rows of a dense array on a GPU; None for others."""
    if not is_on_device(X) or is_sparse(X):
        return None
    found = DeviceArray("X", X, 2, (np.float32, np.float64))
    if not all(found.shape):
        raise DataError(f"X: found shape {found.shape} on a GPU, expected some rows and columns")
    return DeviceRows(found)


def read_new_rows(X: Any) -> StoredRows:
    """Return rows that a model is applied to as `read_here`; those on a GPU or of a data set are copied."""
    if isinstance(X, Dataset):
        if X.group is not None:
            raise DataError("X: found rows on several ranks, expected a Dataset of all rows")
        X = read_rows(X).X[:]
    return read_here(read_back(X))


def read_here(X: Any) -> StoredRows:
    """Return rows in main memory or in a mapped file, of finite values that estimators read.

    Raise `DataError` for anything else, also for values whose squares overflow.
    """
    with words_for_scikit_learn(X):
        found = _read_floats(X)
        _check_values(found)
    return found


def _read_floats(X: Any) -> StoredRows:
    if isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "fiub" and X.size:
        rows = DenseRows(np.asarray(X))
        if not (rows.in_place or rows.file is None):  # what is read of it is converted
            return rows
    found = validate_matrix(X)
    if not isinstance(found, Csr):
        return DenseRows(np.ascontiguousarray(found))
    found = found.on_host()
    indices = np.ascontiguousarray(found.indices, np.int32 if found.indices.dtype == np.int32 else np.int64)
    data = None if found.data is None else np.ascontiguousarray(found.data)
    try:  # compiled loops trust the indices
        check_layout(found.indptr, indices, indices if data is None else data, found.shape)
    except DataError as error:
        raise DataError(f"X: {error}") from None
    return SparseRows(Csr(np.ascontiguousarray(found.indptr, np.int64), indices, data, found.shape))


def _check_values(rows: StoredRows) -> None:
    """Raise for values that are not finite or too large; pages of a large mapped file are released."""
    if rows.sparse:
        _check_largest(rows.values, lambda at: f"row {np.searchsorted(rows[:].indptr, at[0], 'right')} ")
        return
    too_much = rows.reads_too_much
    piece = READ_BYTES if rows.in_place else MAX_CONVERTED_BYTES
    whole = rows.in_place and not too_much
    size = len(rows) if whole else max(1, piece // (rows.shape[1] * rows.value_bytes))
    for first in range(0, len(rows), size):

        def place(at: NDArray[np.int64], before: int = first) -> str:
            return describe_position((before + int(at[0]), int(at[1])), "row")

        block = rows[first : first + size]
        _check_largest(block, place)
        if too_much:
            rows.release(first, first + len(block))


def _check_largest(values: NDArray[Any], place: Callable[[NDArray[np.int64]], str]) -> None:
    largest = max(-float(values.min(initial=0.0)), float(values.max(initial=0.0)))
    if largest <= MAX_ABSOLUTE_VALUE:  # NaN compares false
        return
    bad = np.argwhere(~np.isfinite(values))
    if len(bad):
        numbers = "finite numbers" if values.ndim == 1 else "a finite number"
        raise DataError(f"X: {place(bad[0])}has {values[tuple(bad[0])]}, expected {numbers}")
    raise DataError(f"X: found {largest:.3g}, expected absolute values of at most {MAX_ABSOLUTE_VALUE:g}")


def _dense_rows_of(data: Dataset) -> Any:
    if data.device != "cpu":
        return resident_rows("X", data)
    found = _read_dataset(data)
    if found.sparse or found.group is not None:
        raise DataError(
            f"X: found a Dataset of {data.nnz} stored values, expected dense rows on the CPU, or a matrix"
        )
    return found.X.given


def read_weights(given: Any, rows: int, *, zeros: bool = False) -> Vector | None:
    """Return the weights of rows, None if all are equal to 1.

    Raise `DataError` for weights of the wrong number, negative or not finite, or, unless ``zeros``, all 0.
    """
    if given is None:
        return None
    if isinstance(given, (int, float, np.generic)) or (isinstance(given, np.ndarray) and given.ndim == 0):
        given = np.full(rows, arguments.number("sample_weight", given, DataError))
    weights = np.ascontiguousarray(arguments.vector("sample_weight", given, rows))
    arguments.check_finite("sample_weight", weights)
    if weights.min() < 0.0:
        raise DataError(f"sample_weight: found {weights.min():g}, expected numbers of at least 0")
    if not (zeros or weights.any()):
        raise DataError("sample_weight: found only zeros, expected some positive weight")
    return None if (weights == 1.0).all() else weights
