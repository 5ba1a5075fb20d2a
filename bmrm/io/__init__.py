"""Reading data files: SVMlight text, its binary cache, Matrix Market, npz and npy."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from numpy.typing import DTypeLike

from bmrm.io.csr import Csr
from bmrm.io.data import Data, Labels
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
) -> Data:
    r"""Read a data file of any format.

    Parameters
    ----------
    path : str or path-like
        A file or pipe, plain or compressed by gzip, bzip2, xz or zstd; ``"-"`` is the standard input.
    format : {"auto", "svmlight", "mtx", "npz", "npy"}, default "auto"
        ``"auto"`` goes by the first bytes of the content. ``mtx`` is Matrix Market, ``npz`` a CSR matrix as
        `scipy.sparse.save_npz` writes it with an optional array ``y`` of labels, ``npy`` a dense array.
    n_features : int, optional
        Columns of ``X``; a dense array must have that many, a sparse matrix at most.
    zero_based : bool or "auto", default "auto"
        See `load_svmlight`; the other formats leave no choice.
    dtype : dtype, default float32
        Of the values: float32, the nearest to the numbers of the file (``Data.rounded`` tells whether that
        has changed any), or float64. None for float64, but leave a dense array of float32 as it is.
    query_id : bool, default False
        Read the ``qid:`` of the rows.
    threads : int, optional
        Default: one for each core that the process may use.
    cache : bool, default False
        Use, and where needed write, a binary cache beside an SVMlight file: ``path`` + ``.bmrmcache``.
    duplicates : {"error", "sum"}, default "error"
        What an entry that occurs twice is.
    land : callable, optional
        A `bmrm.Landing`, to which text that need not be cached may go as it is parsed, in place
        of arrays of the host.

    Returns
    -------
    Data

    Raises
    ------
    DataError
        The content is at fault; the message is one line, with line and column for text.
    OSError
        The file is missing or cannot be read. A cache that cannot be written is only warned of.
    ParameterError
        An argument out of its range.

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
    from bmrm.io.formats import detect_format, read_matrix_file

    grammar = Grammar.from_arguments(n_features, zero_based, dtype, query_id, duplicates)
    count = resolve_thread_count(threads)
    with open_source(path) as source:
        kind = detect_format(source, format)
        if kind != "svmlight":
            return read_matrix_file(source, kind, grammar)
        if not cache or source.path is None:
            return read_text(source, grammar, count, land)
        from bmrm.io.cache import describe_source, load, store

        key = describe_source(source)
        cached = load(source.path, key, grammar, count)
        if cached is not None:
            return cached
        data = read_text(source, grammar, count)
        if describe_source(source) == key:  # else the file has changed meanwhile
            store(source, data, key, grammar, count)
        return data


def is_text(path: str | os.PathLike[str]) -> bool:
    """Tell whether a regular file holds SVMlight text; what is not a regular file is taken for text.

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
