"""Reading data: SVMlight text, its binary cache, Matrix Market, npz, npy, CSV, Parquet; graphs in `edges`."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from typing import TYPE_CHECKING

from numpy.typing import DTypeLike

from bmrm.io.csr import Csr
from bmrm.io.data import Data, Labels
from bmrm.io.row_storage import Storage, StorageRule
from bmrm.io.sources import open_source
from bmrm.io.svmlight import iter_svmlight, load_svmlight, read_text, resolve_thread_count
from bmrm.io.text import Grammar, ZeroBased

if TYPE_CHECKING:
    from bmrm.io._svmlight import Land

__all__ = ["Csr", "Data", "Labels", "is_text", "iter_svmlight", "load_svmlight", "read_data"]


def read_data(
    path: str | os.PathLike[str],
    *,
    format: str = "auto",
    n_features: int | None = None,
    zero_based: ZeroBased = "auto",
    dtype: DTypeLike | None = "float32",
    query_id: bool = False,
    threads: int | None = None,
    cache: bool = False,
    duplicates: str = "error",
    land: Land | None = None,
    label: str | None = None,
    drop: Sequence[str] = (),
    offset: str | None = None,
    labels: str = "numbers",
    storage: Storage | StorageRule = "sparse",
) -> Data:
    r"""Read a data file of any format.

    Parameters
    ----------
    path : str or path-like
        A file or pipe, plain or compressed by gzip, bzip2, xz or zstd; ``"-"`` is the standard input.
    format : {"auto", "svmlight", "mtx", "npz", "npy", "csv", "parquet"}, default "auto"
        ``"auto"`` detects the format from the first bytes. ``mtx`` is Matrix Market, ``npz`` a CSR matrix
        written by `scipy.sparse.save_npz` with an optional array ``y`` of labels, ``npy`` a dense array.
        ``csv`` (a first line of names; taken for other text if ``label`` or ``drop`` is given) and
        ``parquet`` are tables of numbers, which pyarrow reads, and dense.
    n_features : int, optional
        Number of columns of ``X``; a dense array must have exactly this number, a sparse matrix at most.
    zero_based : bool or "auto", default "auto"
        See `bmrm.load_svmlight`; other formats fix the base.
    dtype : dtype, default float32
        Type of the values: float32, rounded to nearest (``Data.rounded`` says whether that changed any
        value), or float64. None means float64, except that a dense array of float32 stays as it is.
    query_id : bool, default False
        Read the ``qid:`` of the rows.
    threads : int, optional
        Default: one per core that the process may use.
    cache : bool, default False
        Use a binary cache next to an SVMlight file, ``path`` + ``.bmrmcache``, and write it if needed.
    duplicates : {"error", "sum"}, default "error"
        What to do if an entry occurs twice.
    land : callable, optional
        A ``bmrm.matrix.upload.Landing`` that may receive text while it is parsed, instead of arrays on the
        host. Not used if a cache is.
    label : str, optional
        Name of the column of labels in a table.
    drop : sequence of str, default ()
        Names of columns of a table that are no features.
    offset : str, optional
        Name of the column of offsets in a table; not used for other formats.
    labels : {"numbers", "text", "none"}, default "numbers"
        With ``"text"``, labels are read as text: the first word of each line of SVMlight text, or the column
        ``label`` of a table, which is text anyway if some cell is no number. ``"none"`` wants no labels: then
        text is CSV also if its first line has names with commas between them.
    storage : {"auto", "sparse", "dense"} or StorageRule, default "sparse"
        Whether rows of SVMlight text become a `Csr` or a dense array, into which they are parsed directly.
        ``"auto"`` takes dense rows if that is predicted to save time in a solve, and takes no more memory. A
        ``bmrm.io.row_storage.StorageRule`` predicts it for a device. Other formats have their own storage.

    Returns
    -------
    Data

    Raises
    ------
    DataError
        The content is invalid; the message is one line, with line and column for text.
    OSError
        The file is missing or cannot be read. A cache that cannot be written causes only a warning.
    ParameterError
        An argument is out of range.

    Examples
    --------
    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "tiny.svm")
    >>> with open(path, "w") as file:
    ...     _ = file.write("2,5 0:1\n3 7:1\n")
    >>> data = read_data(path)
    >>> data.X.shape, data.X.data, data.y, data.zero_based
    ((2, 8), None, [(2.0, 5.0), (3.0,)], True)
    """
    from bmrm.io.formats import detect_format, names_columns, read_matrix_file

    grammar = Grammar.from_arguments(n_features, zero_based, dtype, query_id, duplicates, labels)
    count = resolve_thread_count(threads)
    rule = storage if isinstance(storage, StorageRule) else StorageRule(storage)
    with open_source(path) as source:
        named = label is not None or bool(drop) or (labels == "none" and names_columns(source))
        kind = detect_format(source, format, named=named)
        if kind != "svmlight":
            return read_matrix_file(source, kind, grammar, label, drop, offset)
        if source.path is None or source.compressed:
            return read_text(source, grammar, count, land, rule)
        from bmrm.io.cache import describe_source, load, store

        key = describe_source(source)
        data = load(source.path, key, grammar, count, rule) if cache else None
        if data is None:
            data = read_text(source, grammar, count, None if cache else land, rule)
            if cache and describe_source(source) == key:  # the file has not changed meanwhile
                store(source, data, key, grammar, count, rule)
        data.checksum = f"{key['checksum']:016x}"
        return data


def is_text(path: str | os.PathLike[str]) -> bool:
    """Return whether a file holds SVMlight text.

    Parameters
    ----------
    path : str or path-like
        Anything except a regular file is assumed to.

    Returns
    -------
    bool

    Examples
    --------
    >>> is_text("-")
    True
    """
    from bmrm.io.formats import detect_format

    if os.fspath(path) == "-" or not stat.S_ISREG(os.stat(path).st_mode):
        return True
    with open_source(path) as source:
        return detect_format(source) == "svmlight"
