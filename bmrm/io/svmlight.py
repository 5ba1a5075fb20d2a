"""Load SVMlight text, whole or in chunks of rows."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bmrm.base.arguments import integer
from bmrm.base.host_memory import require_memory
from bmrm.base.interrupts import interruptible
from bmrm.base.labels import spread_texts
from bmrm.base.threads import MAX_THREADS, usable_cores
from bmrm.base.vectors import Indices
from bmrm.errors import DataError, ParameterError
from bmrm.io import _svmlight
from bmrm.io.csr import Csr
from bmrm.io.data import Data, Labels
from bmrm.io.row_storage import SPARSE, StorageRule, dense_rows
from bmrm.io.sources import Source, open_source
from bmrm.io.text import (
    CHUNK_BYTES,
    Grammar,
    LabelKind,
    Parser,
    ZeroBased,
    file_text,
    line_windows,
    read_chunks,
)

ParsedRows = tuple[Any, Labels, Indices | None]


@overload
def load_svmlight(
    path: str | os.PathLike[str],
    *,
    n_features: int | None = ...,
    zero_based: ZeroBased = ...,
    dtype: DTypeLike = ...,
    query_id: Literal[False] = ...,
    threads: int | None = ...,
    duplicates: Literal["error", "sum"] = ...,
    labels: LabelKind = ...,
) -> tuple[Any, Any]: ...


@overload
def load_svmlight(
    path: str | os.PathLike[str],
    *,
    n_features: int | None = ...,
    zero_based: ZeroBased = ...,
    dtype: DTypeLike = ...,
    query_id: Literal[True],
    threads: int | None = ...,
    duplicates: Literal["error", "sum"] = ...,
    labels: LabelKind = ...,
) -> tuple[Any, Any, Indices]: ...


@interruptible
def load_svmlight(
    path: str | os.PathLike[str],
    *,
    n_features: int | None = None,
    zero_based: ZeroBased = "auto",
    dtype: DTypeLike = "float64",
    query_id: bool = False,
    threads: int | None = None,
    duplicates: str = "error",
    labels: str = "numbers",
) -> tuple[Any, Any] | tuple[Any, Any, Indices]:
    r"""Load an SVMlight (LIBSVM) file into a scipy CSR matrix, as scikit-learn's loader does.

    Parameters
    ----------
    path : str or path-like
        Text, plain or compressed by gzip, bzip2, xz or zstd; ``"-"`` is the standard input.
    n_features : int, optional
        Number of columns of ``X``, so that training and test files agree; default: as many as the file needs.
    zero_based : bool or "auto", default "auto"
        Whether indices start at 0 or at 1; with ``"auto"`` they start at 0 if and only if an index 0 occurs
        in the file.
    dtype : dtype, default float64
        Type of the values of ``X``: float32 or float64.
    query_id : bool, default False
        Return the ``qid:`` of the rows too; then every row must have one. Otherwise it is ignored.
    threads : int, optional
        Default: one per core that the process may use. The result does not depend on it.
    duplicates : "error" or "sum", default "error"
        What to do if an index occurs more than once in one row. Sums are in float64, and are rounded once.
    labels : "numbers" or "text", default "numbers"
        With ``"text"``, the label of a row is the first word of its line, whatever it is.

    Returns
    -------
    X : scipy.sparse.csr_matrix, shape (rows, columns)
        Rows without features are kept; indices are sorted within each row. Its attribute ``zero_based`` says
        whether column 0 was written as 0; a solve passes it on to the model. SciPy's copies and slices of the
        matrix lose it.
    y : ndarray of float64 or str, shape (rows,), or list of tuples of float
        Labels; tuples if some row of the file has several numbers or none as labels.
    qid : ndarray of int64, shape (rows,)
        Only with ``query_id``.

    Raises
    ------
    DataError
        The first fault of the text, as ``FILE:LINE:COLUMN: found ..., expected ...``.
    OSError
        The file is missing or cannot be read.
    ParameterError
        An argument is out of range.
    Interrupted
        By Ctrl-C.

    References
    ----------
    T. Joachims, "Making large-scale SVM learning practical", in Advances in Kernel Methods, MIT Press
    (1999). The grammar is in docs/formats.md.

    Examples
    --------
    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "tiny.svm")
    >>> with open(path, "w") as file:
    ...     _ = file.write("+1 1:0.5 3:2e-1 # a comment\n-1 2:1\n")
    >>> X, y = load_svmlight(path)
    >>> X.toarray()
    array([[0.5, 0. , 0.2],
           [0. , 1. , 0. ]])
    >>> y
    array([ 1., -1.])

    >>> with open(path, "w") as file:
    ...     _ = file.write("spam 1:0.5\nham 2:1\n")
    >>> load_svmlight(path, labels="text")[1]
    array(['spam', 'ham'], dtype='<U4')
    """
    grammar = Grammar.from_arguments(n_features, zero_based, dtype, query_id, duplicates, labels)
    with open_source(path) as source:
        parser = Parser(source.name, grammar, resolve_thread_count(threads))
        X, y, query = _read(source, parser)
    matrix = X.to_scipy(grammar.dtype)
    matrix.zero_based = parser.zero_based
    return (matrix, y) if query is None else (matrix, y, query)


def iter_svmlight(
    path: str | os.PathLike[str],
    *,
    rows_bytes: int = CHUNK_BYTES,
    n_features: int | None = None,
    zero_based: ZeroBased = "auto",
    dtype: DTypeLike = "float32",
    threads: int | None = None,
    duplicates: str = "error",
    labels: str = "numbers",
    one_label: bool = False,
    numbered: Callable[[bool], object] | None = None,
) -> Iterator[tuple[Csr, Labels]]:
    r"""Read an SVMlight file in bounded memory, in chunks of rows.

    Parameters
    ----------
    path : str or path-like
        As for `bmrm.load_svmlight`.
    rows_bytes : int, default 64 MiB
        Bytes of text per chunk, give or take a line.
    n_features : int, optional
        Number of columns of every chunk; default: as many as the rows read so far need.
    zero_based, dtype, threads, duplicates, labels
        As for `bmrm.load_svmlight`. With ``"auto"``, a file is searched for an index 0 beforehand. A pipe or
        a compressed file cannot be searched; there, an index 0 after the first chunk is an error.
    one_label : bool, default False
        Whether a row without a label is an error at once. Otherwise it is an error at the end, unless some
        row has several labels.
    numbered : callable, optional
        Called before each chunk with a bool: whether its features are numbered from 0.

    Yields
    ------
    X : Csr, shape (rows of the chunk, columns)
    y : ndarray of float64 or str, or list of tuples of float
        Tuples as soon as some row has several numbers or none as labels.

    Raises
    ------
    DataError, OSError, ParameterError
        As for `bmrm.load_svmlight`; chunks before the fault have been yielded by then.

    Examples
    --------
    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "tiny.svm")
    >>> with open(path, "w") as file:
    ...     _ = file.write("+1 1:0.5\n-1 3:1\n")
    >>> [(X.shape, y.tolist()) for X, y in iter_svmlight(path, rows_bytes=1, n_features=3)]
    [((1, 3), [1.0]), ((1, 3), [-1.0])]
    """
    if integer("rows_bytes", rows_bytes) < 1:
        raise ParameterError(f"rows_bytes: found {rows_bytes}, expected at least 1")
    grammar = Grammar.from_arguments(n_features, zero_based, dtype, False, duplicates, labels)
    with open_source(path) as source:
        parser = Parser(source.name, grammar, resolve_thread_count(threads))
        parts = _parse_file if source.is_plain else _parse_stream
        for part in parts(source, parser, rows_bytes):
            parser.check(labels=one_label)
            X, y, _ = join_parts([part], parser)
            if X.shape[0]:
                if numbered is not None:
                    numbered(parser.zero_based)
                yield X, y
        parser.check()
        parser.check_content()


def _parse_file(source: Source, parser: Parser, size: int) -> Iterator[_svmlight.Parsed]:
    text, length = file_text(source), source.size
    if parser.grammar.zero_based == "auto" and size < length:
        parser.find_zero(text, length)
    for start, stop in line_windows(text, length, size):
        yield parser.parse(text, start, stop)


def _parse_stream(source: Source, parser: Parser, size: int) -> Iterator[_svmlight.Parsed]:
    one_based = False  # how the rows that were already yielded have been read
    for text, length in read_chunks(source.file, source.name, size):
        part = parser.parse(text, 0, length)
        if one_based and parser.has_zero:
            raise DataError(
                f"{source.name}: found an index 0 after rows that were read as one-based, "
                "expected zero_based=True or --zero-based"
            )
        one_based = parser.grammar.zero_based == "auto" and not parser.has_zero
        yield part


def read_text(
    source: Source,
    grammar: Grammar,
    threads: int,
    land: _svmlight.Land | None = None,
    rule: StorageRule = SPARSE,
) -> Data:
    """Read a whole source; ``land`` is used only for a plain file."""
    began = time.perf_counter()
    parser = Parser(source.name, grammar, threads, rule=rule if source.is_plain else SPARSE)
    X, y, query = _read(source, parser, land)
    storage = parser.storage
    if not source.is_plain:  # the parts of a stream are sparse
        storage = rule.choose(X.shape[0], X.nnz, X.shape[1], grammar.dtype.itemsize)
    if storage.dense and isinstance(X, Csr):
        X = dense_rows(X, grammar.dtype, source.name)
    seconds = {"parse": time.perf_counter() - began}
    return Data(
        X,
        y,
        qid=query,
        zero_based=parser.zero_based,
        seconds=seconds,
        dtype=grammar.dtype.name,
        rounded=parser.rounded,
        negative=parser.negative,
        storage=storage,
    )


def _read(source: Source, parser: Parser, land: _svmlight.Land | None = None) -> ParsedRows:
    parts = []
    if source.is_plain:
        parts.append(parser.parse(file_text(source), 0, source.size, land))
    else:
        parts.extend(parser.parse(text, 0, length) for text, length in read_chunks(source.file, source.name))
    parser.check()
    parser.check_content()
    return join_parts(parts, parser)


def join_parts(parts: list[_svmlight.Parsed], parser: Parser) -> ParsedRows:
    """Join parsed parts, and free each part as soon as it has been copied."""
    dense = parts[0].dense  # of a text in one part
    if parser.grammar.zero_based == "auto" and parser.has_zero and dense is None:
        for part in parts:
            if not part.has_zero:
                part.indices += 1
    y: Labels
    if parser.grammar.text_labels:
        y = _join_texts(parts, parser.name)
    elif parser.gives_tuples:
        y = [labels for part in parts for labels in _label_tuples(part)]
    else:
        y = _concatenate([part.labels for part in parts])
    query = [part.query for part in parts if part.query is not None]
    if dense is not None:
        return dense, y, _concatenate(query) if query else None
    values: NDArray[Any] | None = None
    if any(part.values is not None for part in parts):
        if len(parts) > 1:
            stored = sum(len(part.indices) for part in parts)
            require_memory(parser.grammar.dtype.itemsize * stored, f"{stored} values of {parser.name}")
        dtype = parser.grammar.dtype
        every = (np.ones(len(part.indices), dtype) if part.values is None else part.values for part in parts)
        values = _concatenate(list(every))
    for part in parts:
        part.values = None
    counts = [len(part.indices) for part in parts]
    if len(parts) > 1:
        require_memory(4 * sum(counts), f"{sum(counts)} indices of {parser.name}")
    indices = _concatenate([part.indices for part in parts])
    indptr = parts[0].indptr
    if len(parts) > 1:
        starts = np.cumsum([0, *counts[:-1]])
        ends = [part.indptr[1:] + start for part, start in zip(parts, starts, strict=True)]
        indptr = np.concatenate([[0], *ends])
    X = Csr(indptr, indices, values, (len(indptr) - 1, parser.columns))
    return X, y, _concatenate(query) if query else None


def _concatenate(arrays: list[Any]) -> Any:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _join_texts(parts: list[_svmlight.Parsed], name: str) -> NDArray[np.str_]:
    """Return the labels, which are text, of the rows of all parts."""
    names: list[str] = []
    codes = []
    for part in parts:
        codes.append(part.labels + len(names))
        names += part.label_names or []
    return spread_texts(names, _concatenate(codes), name)


def _label_tuples(part: _svmlight.Parsed) -> Iterator[tuple[float, ...]]:
    """Yield the labels of each row; NaN in a plain array means no label."""
    labels = part.labels.tolist()
    if part.label_starts is None:
        return (() if label != label else (label,) for label in labels)
    return (tuple(labels[first:last]) for first, last in pairwise(part.label_starts.tolist()))


def resolve_thread_count(threads: int | None) -> int:
    """Validate a number of threads; the default is the number of cores that the process may use."""
    if threads is None:
        return usable_cores()
    if not 1 <= integer("threads", threads) <= MAX_THREADS:
        raise ParameterError(f"threads: found {threads}, expected 1 to {MAX_THREADS}")
    return threads
