"""Write SVMlight text that reads back exactly."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bmrm.base import arguments
from bmrm.base.atomic import atomic_write
from bmrm.base.labels import is_number, label_array
from bmrm.errors import DataError
from bmrm.io.csr import Csr, check_finite, find_numbering

_WORD = re.compile(r"[^\x00-\x20\x7f#\ud800-\udfff]+")
"""Text without blanks, comments, control characters and halves of characters."""

_BLOCK_ROWS = 1 << 12
"""Rows formatted at a time, so that the text in memory stays small."""


def dump_svmlight(
    X: Any,
    y: ArrayLike | Sequence[str] | list[tuple[float, ...]],
    path: str | os.PathLike[str],
    *,
    query_id: ArrayLike | None = None,
    zero_based: bool | None = None,
    comment: str | None = None,
) -> None:
    r"""Write features and labels as SVMlight (LIBSVM) text.

    Every number is written with the digits that `bmrm.load_svmlight` needs to return the same float64. The
    file appears under its name only when it is complete.

    Parameters
    ----------
    X : array_like or scipy sparse matrix, shape (rows, columns)
        Finite real values. All stored values of a sparse matrix are written, or all of a dense array that are
        not 0.
    y : array_like of float or str, shape (rows,), or list of tuples of float
        Labels; a tuple has the labels of one row of multilabel data. Text must have no blanks and no ``#``,
        and must not begin with ``qid:`` or with a number and a colon; `bmrm.load_svmlight` reads it with
        ``labels="text"``.
    path : str or path-like
        The file to write.
    query_id : array_like of int64, shape (rows,), optional
        The query of each row, written as ``qid:``.
    zero_based : bool, optional
        Whether column 0 is written as 0 or as 1. Default: as in the file that X was loaded from, else 1.
    comment : str, optional
        Text for lines that start with ``#`` at the top of the file.

    Raises
    ------
    DataError
        If X, y or query_id has another shape, or holds values that are not finite real numbers.
    OSError
        The file cannot be written.

    References
    ----------
    The grammar is in docs/formats.md.

    Examples
    --------
    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "tiny.svm")
    >>> dump_svmlight(np.array([[0.5, 0.0, 0.2], [0.0, 1.0, 0.0]]), [1, -1], path, comment="two rows")
    >>> with open(path) as file:
    ...     print(file.read(), end="")
    # two rows
    1 1:0.5 3:0.2
    -1 2:1
    """
    rows = _as_csr(X)
    count = rows.shape[0]
    labels = _label_texts(y, count)
    if query_id is not None:
        labels = [
            f"{label} qid:{query}" for label, query in zip(labels, _queries(query_id, count), strict=True)
        ]
    first = 0 if (find_numbering(X) if zero_based is None else zero_based) else 1
    with atomic_write(path) as file:
        for line in (comment or "").splitlines():
            file.write(f"# {line}\n".encode())
        for start in range(0, count, _BLOCK_ROWS):
            lines = _lines(rows, labels, start, min(start + _BLOCK_ROWS, count), first)
            file.write("".join(lines).encode())


def _as_csr(X: Any) -> Csr:
    if arguments.is_sparse(X):
        return Csr.from_scipy(X)
    dense = arguments.numbers("X", X)
    if dense.ndim != 2:
        raise DataError(f"X: found {dense.ndim} dimensions, expected 2")
    try:
        check_finite(dense)
    except DataError as error:
        raise DataError(f"X: {error}") from None
    row, column = np.nonzero(dense)
    pointers = np.searchsorted(row, np.arange(len(dense) + 1))
    return Csr(pointers.astype(np.int64), column, dense[row, column], (dense.shape[0], dense.shape[1]))


def _lines(rows: Csr, labels: list[str], start: int, stop: int, first: int) -> Iterator[str]:
    pointers = rows.indptr[start : stop + 1].tolist()
    stored = slice(pointers[0], pointers[-1])
    columns = (rows.indices[stored].astype(np.int64) + first).tolist()
    values = [1.0] * len(columns) if rows.data is None else rows.data[stored].astype(np.float64).tolist()
    pairs = [f" {column}:{_text(value)}" for column, value in zip(columns, values, strict=True)]
    for row, label in enumerate(labels[start:stop]):
        here = slice(pointers[row] - pointers[0], pointers[row + 1] - pointers[0])
        yield f"{label}{''.join(pairs[here])}\n"


def _text(value: float) -> str:
    """Return the shortest text that reads back as the same number."""
    return repr(value).removesuffix(".0")


def _label_texts(y: Any, rows: int) -> list[str]:
    if isinstance(y, list) and any(isinstance(labels, tuple) for labels in y):
        if len(y) != rows:
            raise DataError(f"y: found {len(y)} rows, expected {rows}, as in X")
        return [",".join(_text(label) for label in _finite("y", labels).tolist()) for labels in y]
    labels = label_array("y", y)
    if labels.shape != (rows,):
        raise DataError(f"y: found shape {labels.shape}, expected ({rows},), one label per row of X")
    if labels.dtype.kind != "U":
        return [_text(label) for label in _finite("y", labels).tolist()]
    texts: list[str] = labels.tolist()
    wrong = {text for text in set(texts) if not _is_word(text)}
    if wrong:
        row = next(row for row, text in enumerate(texts) if text in wrong)
        raise DataError(
            f"y: row {row + 1} has {arguments.short_repr(texts[row])}, expected a label without blanks, #, "
            "control characters and a number and a colon at its start"
        )
    return texts


def _is_word(text: str) -> bool:
    """Return whether the reader takes text for one label, and returns it as it is."""
    if not _WORD.fullmatch(text) or text.startswith(("qid:", "\ufeff")):
        return False
    return not (":" in text and is_number(text.partition(":")[0]))


def _finite(what: str, given: Any) -> NDArray[np.float64]:
    found = arguments.numbers(what, given, exact=True)
    arguments.check_finite(what, found)
    return found


def _queries(given: ArrayLike, rows: int) -> list[int]:
    found = arguments.array("query_id", given)
    if found.shape != (rows,):
        raise DataError(f"query_id: found shape {found.shape}, expected ({rows},), one per row of X")
    if found.dtype.kind not in "iu" or (found.dtype == np.uint64 and found.max(initial=0) >= 2**63):
        raise DataError(f"query_id: found {found.dtype} values, expected 64-bit integers")
    numbers: list[int] = found.tolist()
    return numbers
