"""Read the rows of a rank: each rank parses its own range of bytes of one text or of several joined texts.

The number of stored values grows with the bytes of text, so equal ranges are equal shares of the work. A
range starts after the first line end in it and ends with the line that crosses its end. Three facts depend on
all ranges together: whether indices start at 0, the number of columns, and whether some row has several
labels. So the ranks exchange these before they build their matrices.

A file that cannot be split (compressed or binary) is read whole by every rank, which keeps only its own rows.
"""

from __future__ import annotations

import glob
import os
import time
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bmrm.distributed.group import Group, group_of
from bmrm.distributed.options import check_alike
from bmrm.errors import DataError, ParameterError
from bmrm.io import _svmlight, _text
from bmrm.io.csr import Csr
from bmrm.io.data import Data
from bmrm.io.formats import detect_format, read_matrix_file
from bmrm.io.row_storage import StorageChoice
from bmrm.io.sources import open_source
from bmrm.io.svmlight import join_parts, read_text, resolve_thread_count
from bmrm.io.text import BLOCK_BYTES, Grammar, Parser, ZeroBased, file_text, line_start


class RankData(NamedTuple):
    """The rows of one rank.

    Attributes
    ----------
    data : Data
        The rows of this rank, with the columns of all ranks.
    first : int
        Number of the first of these rows.
    total : int
        Number of rows of all ranks.
    """

    data: Data
    first: int
    total: int


def read_rows(
    path: str | os.PathLike[str],
    comm: Any,
    *,
    n_features: int | None = None,
    zero_based: ZeroBased = "auto",
    dtype: DTypeLike = "float32",
    threads: int | None = None,
    query_id: bool = False,
    labels: str = "numbers",
) -> RankData:
    r"""Read this rank's part of a data file or of a set of files.

    Parameters
    ----------
    path : str or path-like
        A file that every rank can read, of any format that `bmrm.io.read_data` knows; or a pattern such as
        ``"part-*.svm"`` of SVMlight texts, which are joined in the order of their names.
    comm : mpi4py.MPI.Comm or PETSc.Comm
    n_features, zero_based, dtype, query_id, labels
        As for `bmrm.io.read_data`.
    threads : int, optional
        Default: the cores that this rank does not share with other ranks.

    Returns
    -------
    RankData

    Raises
    ------
    DataError, OSError, ParameterError
        As for `bmrm.io.read_data`; the same exception on every rank.

    Examples
    --------
    >>> import os, tempfile
    >>> from mpi4py import MPI
    >>> folder = tempfile.mkdtemp()
    >>> for part in range(2):
    ...     with open(os.path.join(folder, f"part-{part}.svm"), "w") as file:
    ...         _ = file.write(f"+1 {part + 1}:0.5\n")
    >>> rows = read_rows(os.path.join(folder, "part-*.svm"), MPI.COMM_SELF)
    >>> rows.data.X.to_scipy().toarray()
    array([[0.5, 0. ],
           [0. , 0.5]], dtype=float32)
    """
    group = group_of(comm)
    given = {"n_features": n_features, "zero_based": zero_based, "dtype": dtype, "query_id": query_id}
    check_alike(group, given | {"labels": labels})
    grammar = Grammar.from_arguments(n_features, zero_based, dtype, query_id, "error", labels)
    threads = group.cores if threads is None else resolve_thread_count(threads)
    began = time.perf_counter()
    with group.together():
        paths = find_paths(os.fspath(path))
        kinds = [_is_splittable(name) for name in paths]
        if len(paths) > 1 and not all(kinds):
            other = paths[kinds.index(False)]
            raise DataError(
                f"{other}: found another format, expected plain SVMlight text in all files of a set"
            )
    data = (
        _parse_range(paths, group, grammar, threads)
        if all(kinds)
        else _read_whole(paths[0], group, grammar, threads)
    )
    counts = group.everyones(data.X.shape[0])
    if min(counts) == 0:
        raise DataError(
            f"{os.fspath(path)}: found {sum(counts)} rows, expected at least one per rank ({group.size})"
        )
    data.seconds = {"parse": time.perf_counter() - began}
    return RankData(data, sum(counts[: group.rank]), sum(counts))


def find_paths(name: str) -> list[str]:
    """Return the files that match a pattern, sorted by name; or the file of that name itself."""
    if name == "-":
        raise ParameterError("DATA: found stdin, expected a file that each rank can read")
    if os.path.exists(name) or not glob.has_magic(name):
        return [name]
    found = sorted(glob.glob(name))
    if not found:
        raise DataError(f"{name}: no file matches this pattern")
    return found


def _is_splittable(name: str) -> bool:
    with open_source(name) as source:
        return source.is_plain and detect_format(source) == "svmlight"


def _parse_range(paths: list[str], group: Group, grammar: Grammar, threads: int) -> Data:
    """Parse this rank's range of the bytes of all texts."""
    with group.together():
        sizes = [os.stat(name).st_size for name in paths]
    bounds = group.split(sum(sizes))
    texts = list(
        zip(paths, _file_ranges(sizes, int(bounds[group.rank]), int(bounds[group.rank + 1])), strict=True)
    )

    def parsed(*, numbered: bool) -> tuple[Parser, list[_svmlight.Parsed]]:
        parser = Parser(paths[0], grammar, threads)
        parts = [_parse(parser, name, *span, numbered=numbered) for name, span in texts]
        return parser, parts or [_parse_nothing(parser)]

    with group.together():
        try:
            parser, parts = parsed(numbered=False)
        except DataError:
            # The message needs line numbers, and only for that the start of the file is worth reading.
            parsed(numbered=True)
            raise
    everyones = group.everyones((parser.max_index, parser.has_zero, parser.has_lists, parser.rounded))

    def combine(parser: Parser) -> Parser:
        parser.max_index = max(index for index, _, _, _ in everyones)
        parser.has_zero = any(zero for _, zero, _, _ in everyones)
        parser.has_lists = any(lists for _, _, lists, _ in everyones)
        parser.rounded = any(rounded for _, _, _, rounded in everyones)
        return parser

    with group.together():
        try:
            if combine(parser).rows:
                parser.check_content()
            parser.check()
        except DataError:
            combine(parsed(numbered=True)[0]).check()
            raise
        X, y, qid = join_parts(parts, parser)
    dtype = grammar.dtype.name
    return Data(
        X,
        y,
        qid=qid,
        zero_based=parser.zero_based,
        dtype=dtype,
        rounded=parser.rounded,
        storage=StorageChoice(False, "each rank reads sparse rows"),
    )


def _file_ranges(sizes: list[int], begin: int, end: int) -> list[tuple[int, int]]:
    """Return for each text which of its bytes are in a range of the joined texts."""
    starts = np.cumsum([0, *sizes[:-1]]).tolist()
    return [
        (min(max(begin - start, 0), size), min(max(end - start, 0), size))
        for start, size in zip(starts, sizes, strict=True)
    ]


def _parse(parser: Parser, name: str, first: int, last: int, *, numbered: bool) -> _svmlight.Parsed:
    """Parse the lines of a text that start in a range of its bytes."""
    parser.name, parser.lines = name, 0
    if first >= last:
        return _parse_nothing(parser)
    with open_source(name) as source:
        text = file_text(source)
        start, stop = (line_start(text, at, source.size) for at in (first, last))
        if numbered:
            parser.lines = _svmlight.line_count(text, start, threads=parser.threads, block_bytes=BLOCK_BYTES)
        return parser.parse(text, start, max(start, stop))


def _parse_nothing(parser: Parser) -> _svmlight.Parsed:
    """Parse an empty text."""
    text = np.zeros(_text.PADDING, np.uint8)
    return parser.parse(text, 0, 0)


def _read_whole(name: str, group: Group, grammar: Grammar, threads: int) -> Data:
    """Read everything and keep the rows of this rank."""
    with group.together(), open_source(name) as source:
        kind = detect_format(source)
        if kind == "svmlight":
            data = read_text(source, grammar, threads)
        else:
            data = read_matrix_file(source, kind, grammar)
    X = data.X
    rows = X.shape[0]
    if isinstance(X, Csr):
        # Balance stored values, counting one more for each row.
        work = X.indptr + np.arange(rows + 1)
        cuts = np.searchsorted(work, group.split(int(work[-1])))
        cuts[-1] = rows
    else:
        cuts = group.split(rows)
    return _slice(data, int(cuts[group.rank]), int(cuts[group.rank + 1]))


def _slice(data: Data, first: int, last: int) -> Data:
    X: Csr | NDArray[Any]
    if isinstance(data.X, Csr):
        indptr, indices, values, (_, columns) = data.X
        start, stop = int(indptr[first]), int(indptr[last])
        # Copies, so that the arrays of all rows can be freed.
        X = Csr(
            indptr[first : last + 1] - start,
            indices[start:stop].copy(),
            None if values is None else values[start:stop].copy(),
            (last - first, columns),
        )
    else:
        X = data.X[first:last].copy()
    y = None if data.y is None else data.y[first:last]
    qid = None if data.qid is None else data.qid[first:last]
    return replace(data, X=X, y=y, qid=qid, feature_names=None)
