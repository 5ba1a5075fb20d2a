"""Matrix Market, npz and npy files, and how a format is told.

A header of these formats names sizes; none is believed before it has been held against the bytes that
are there, so that a few damaged bytes cannot ask for all the memory.
"""

from __future__ import annotations

import contextlib
import errno
import io
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmrm.errors import DataError, ParameterError
from bmrm.io.compressed import Source
from bmrm.io.csr import Csr, canonical, check_finite, check_layout, real_values
from bmrm.io.data import Data
from bmrm.io.matrix_market import read_matrix_market
from bmrm.io.text import Grammar

FORMATS = ("auto", "svmlight", "mtx", "npz", "npy")
_MOST_COLUMNS = 1 << 32  # as many as products take
_MAGIC = {b"%%MatrixMarket": "mtx", b"PK\x03\x04": "npz", b"\x93NUMPY": "npy"}


def detect_format(source: Source, wanted: str = "auto") -> str:
    """Return the format asked for, or the one that the first bytes tell."""
    if wanted not in FORMATS:
        raise ParameterError(f"format: found {wanted!r}, expected one of {', '.join(FORMATS)}")
    if wanted != "auto":
        return wanted
    known = (name for magic, name in _MAGIC.items() if source.head.startswith(magic))
    return next(known, "svmlight")


def read_other(source: Source, kind: str, grammar: Grammar) -> Data:
    """Read a source that is no SVMlight text."""
    began = time.perf_counter()
    if grammar.query_id:
        raise DataError(f"{source.name}: found a {kind} file, which has no query ids, expected SVMlight text")
    X: Csr | NDArray[Any]
    y: NDArray[np.float64] | None = None
    try:
        if kind == "npz":
            X, y = _read_npz(source, grammar)
        elif kind == "npy":
            X = _read_npy(source)
        else:
            X = read_matrix_market(source, grammar)
        data = Data(_fitted(X, grammar), y)
    except DataError as error:
        raise DataError(f"{source.name}: {error}") from None
    except MemoryError:
        raise DataError(f"{source.name}: found sizes that do not fit into memory") from None
    data.seconds["parse"] = time.perf_counter() - began
    return data


def _fitted(X: Csr | NDArray[Any], grammar: Grammar) -> Csr | NDArray[Any]:
    """Give X the value type and the columns asked for."""
    rows, columns = X.shape
    if columns > _MOST_COLUMNS:
        raise DataError(f"found {columns} columns, expected at most {_MOST_COLUMNS}")
    wanted = columns if grammar.n_features is None else grammar.n_features
    if columns > wanted or (columns != wanted and not isinstance(X, Csr)):
        raise DataError(f"found {columns} columns, expected {wanted} (n_features={wanted})")
    if not isinstance(X, Csr):
        with np.errstate(over="ignore"):
            X = X.astype(X.dtype if grammar.as_stored else grammar.dtype, order="C", copy=False)
        check_finite(X)
        return X
    if X.data is not None:
        with np.errstate(over="ignore"):
            X = X._replace(data=X.data.astype(grammar.dtype, copy=False))
        assert X.data is not None
        check_finite(X.data)
    return X._replace(shape=(rows, wanted))


def _read_npy(source: Source) -> NDArray[Any]:
    X = _load_array(source)
    if X.ndim != 2:
        raise DataError(f"found an array of {X.ndim} dimensions, expected 2")
    return real_values(X)


def _load_array(source: Source) -> NDArray[Any]:
    """Load an npy file, mapped where it can be; a mapping longer than the file is refused by numpy."""
    with _blaming_file("npy"):
        if source.mappable and source.path is not None:
            return np.load(source.path, mmap_mode="r", allow_pickle=False)  # type: ignore[no-any-return]
        return np.load(io.BytesIO(source.file.read()), allow_pickle=False)  # type: ignore[no-any-return]


def _read_npz(source: Source, grammar: Grammar) -> tuple[Csr, NDArray[np.float64] | None]:
    arrays = _load_archive(source)
    layout = arrays.get("format")
    if layout is None or layout.shape != () or layout.item() not in (b"csr", "csr"):
        raise DataError("found no matrix that scipy.sparse.save_npz wrote in CSR layout, expected one")
    missing = [name for name in ("shape", "indptr", "indices", "data") if name not in arrays]
    if missing:
        raise DataError(f"found no array {missing[0]!r}, expected the arrays of a CSR matrix")
    shape = arrays["shape"]
    integers = all(arrays[name].dtype.kind in "iu" for name in ("shape", "indptr", "indices"))
    if shape.shape != (2,) or not integers:
        raise DataError("found a shape, row pointers or indices that are not integers")
    rows, columns = map(int, shape)
    values = real_values(arrays["data"])
    check_layout(arrays["indptr"], arrays["indices"], values, (rows, columns))
    X = canonical(arrays["indptr"], arrays["indices"], values, (rows, columns), grammar.sum_duplicates)
    return X, _labels(arrays, rows)


def _load_archive(source: Source) -> dict[str, NDArray[Any]]:
    file: Any = source.file if source.mappable else io.BytesIO(source.file.read())
    wanted = ("format", "shape", "indptr", "indices", "data", "y")
    with _blaming_file("npz"), np.load(file, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in wanted if name in archive.files}
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray):  # numpy gives what is no npy file as bytes
            raise DataError(f"found a member {name!r} that is no npy file, expected an array")
    return arrays


def _labels(arrays: dict[str, NDArray[Any]], rows: int) -> NDArray[np.float64] | None:
    if "y" not in arrays:
        return None
    y = real_values(arrays["y"]).astype(np.float64, copy=False)
    if y.shape != (rows,):
        raise DataError(f"found labels of shape {y.shape}, expected ({rows},)")
    check_finite(y)
    return y


@contextlib.contextmanager
def _blaming_file(kind: str) -> Iterator[None]:
    """Turn whatever the libraries raise for a damaged file, which is anything, into a `DataError`."""
    try:
        yield
    except (DataError, MemoryError):
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):  # EINVAL: a wild seek
            raise
        text = " ".join(str(error).split())[:200] or type(error).__name__
        raise DataError(f"found a damaged {kind} file ({text})") from None
