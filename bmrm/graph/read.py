"""Graphs from files of any supported format."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from bmrm.base.arguments import flag
from bmrm.errors import DataError, ParameterError
from bmrm.graph.edges import EdgeList, from_arrow, from_matrix, import_pyarrow
from bmrm.graph.graph import Graph
from bmrm.graph.labels import NodeLabels
from bmrm.graph.memory import GraphSize
from bmrm.io.csr import Csr
from bmrm.io.edge_counts import count_edges
from bmrm.io.edge_data import Edges
from bmrm.io.edges import LabelKind, check_edge_options, read_edges
from bmrm.io.formats import detect_format
from bmrm.io.sources import open_source

FORMATS = ("auto", "edges", "mtx", "npz", "npy", "metis", "parquet", "arrow")
_MAGIC_BYTES = {
    b"%%MatrixMarket": "mtx",
    b"PK\x03\x04": "npz",
    b"\x93NUMPY": "npy",
    b"PAR1": "parquet",
    b"ARROW1": "arrow",
}
_SUFFIXES = {".metis": "metis", ".graph": "metis"}
_PACKERS = (".gz", ".bz2", ".xz", ".zst")


def read_graph(
    path: str | os.PathLike[str],
    *,
    format: str = "auto",
    directed: bool | None = None,
    weights: bool = False,
    labels: LabelKind = "auto",
    duplicates: str = "auto",
    self_loops: str = "keep",
    order: str = "auto",
    threads: int | None = None,
    cache: bool = False,
    comm: Any = None,
) -> Graph:
    r"""Read a graph.

    Parameters
    ----------
    path : str or path-like
        Text, plain or compressed by gzip, bzip2, xz or zstd, ``"-"`` for standard input; or a file of another
        format.
    format : {"auto", "edges", "mtx", "npz", "npy", "metis", "parquet", "arrow"}, default "auto"
        ``edges`` is text with two ids per line, and maybe a weight (`bmrm.io.edges.read_edges`). ``mtx`` is a
        square matrix in Matrix Market format, ``npz`` one that `scipy.sparse.save_npz` wrote in CSR layout,
        ``npy`` an array of integers of shape (edges, 2). ``metis`` is the input of METIS. ``parquet`` and
        ``arrow`` need pyarrow, and have the columns source, target and maybe weight. ``"auto"`` detects the
        format from the first bytes, and METIS from the names ``*.metis`` and ``*.graph``.
    directed : bool, optional
        Default: True, except that METIS files are undirected.
    weights : bool, default False
        Whether to read weights; then edge text must have a third column.
    labels : {"auto", "integer", "string"}, default "auto"
        What ids of edge text are; "auto" decides by the first edge.
    duplicates, self_loops, order, threads
        As for `Graph`.
    cache : bool, default False
        Use a binary cache next to plain edge text, ``path`` + ``.bmrmcache``, and write it if needed. Other
        files are read without one. Not with ``comm``.
    comm : mpi4py.MPI.Comm or PETSc.Comm, optional
        Ranks over which the graph is distributed. Each parses its part of plain edge text. Other files are
        read by rank 0, which then needs memory for all edges, and sends them to the others.

    Returns
    -------
    Graph
        A `GraphShard` with ``comm``.

    Raises
    ------
    DataError
        The content is invalid; for text with line and column.
    OSError
        The file is missing or cannot be read.
    ParameterError
        An argument is out of range.

    Examples
    --------
    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "tiny.txt")
    >>> with open(path, "w") as file:
    ...     _ = file.write("# from to\n10 20\n20\t30\n")
    >>> read_graph(path)
    <Graph: 3 nodes, 2 edges, directed>
    """
    options: dict[str, Any] = {
        "directed": directed,
        "weights": weights,
        "duplicates": duplicates,
        "self_loops": self_loops,
        "order": order,
        "threads": threads,
    }
    if comm is not None:
        if flag("cache", cache):
            raise ParameterError("cache: found with comm, expected it without ranks only")
        return _read_on_ranks(path, format, labels, comm, options)
    kind = _detect(path, format)
    return Graph(_read_edges(path, kind, weights, labels, threads, cache=cache), **options)


def _read_on_ranks(
    path: str | os.PathLike[str], format: str, labels: LabelKind, comm: Any, options: dict[str, Any]
) -> Graph:
    """Read a graph over the ranks: each its part of a plain text, or rank 0 all of any other file."""
    from bmrm.distributed.edge_files import read_edge_range
    from bmrm.distributed.group import Group
    from bmrm.distributed.options import check_alike
    from bmrm.graph.shard import GraphShard

    group = comm if isinstance(comm, Group) else Group(comm)
    weights, threads = options["weights"], options["threads"]
    with group.guarded():
        check_alike(group, {"format": format, "labels": labels, **options})
        with group.together():
            check_edge_options(weights, labels)
            kind = _detect(path, format)
            is_plain = kind == "edges" and _is_plain(path)
        edges: EdgeList | tuple[Any, ...] | None = None
        if all(group.everyones(is_plain)):
            with open_source(path) as source:
                text = read_edge_range(source, group, weights=weights, labels=labels, threads=threads)
                edges = _from_text(text)
        else:
            with group.together():
                if group.rank == 0:
                    edges = _read_edges(path, kind, weights, labels, threads)
    return GraphShard(edges, comm=group, **options)


def measure_graph(
    path: str | os.PathLike[str],
    *,
    format: str = "auto",
    directed: bool | None = None,
    weights: bool = False,
    labels: LabelKind = "auto",
    threads: int | None = None,
) -> GraphSize:
    r"""Return the size of a graph in a file: text is counted in chunks, other files are read.

    The arguments are those of `read_graph`.

    Examples
    --------
    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "tiny.txt")
    >>> with open(path, "w") as file:
    ...     _ = file.write("0 1\n1 2\n")
    >>> measure_graph(path).n_nodes
    3
    """
    kind = _detect(path, format)
    if kind == "edges":
        found = count_edges(path, weights=weights, labels=labels, threads=threads)
        return GraphSize(
            found.n_nodes, found.n_edges, found.label_bytes, weights, found.named, directed is False
        )
    graph = Graph(_read_edges(path, kind, weights, labels, threads), directed=directed, weights=weights)
    listed = graph.n_edges if graph.directed else graph.n_edges // 2
    return GraphSize(graph.n_nodes, listed, weighted=graph.weighted, undirected=not graph.directed)


def _is_plain(path: str | os.PathLike[str]) -> bool:
    """Return whether each rank can read its own part of a text."""
    if os.fspath(path) == "-":
        return False
    with open_source(path) as source:
        return source.is_plain and detect_format(source) == "svmlight"


def _detect(path: str | os.PathLike[str], wanted: str) -> str:
    """Return the format of a file."""
    if wanted not in FORMATS:
        raise ParameterError(f"format: found {wanted!r}, expected one of {', '.join(FORMATS)}")
    name = os.fspath(path)
    if wanted != "auto" or name == "-" or not os.path.isfile(name):  # a pipe can be read only once
        return "edges" if wanted == "auto" else wanted
    with open_source(path) as source:
        head = source.head
    found = next((kind for magic, kind in _MAGIC_BYTES.items() if head.startswith(magic)), None)
    stem, suffix = os.path.splitext(name)
    suffix = os.path.splitext(stem)[1] if suffix in _PACKERS else suffix
    return found or _SUFFIXES.get(suffix, "edges")


def _read_edges(
    path: str | os.PathLike[str],
    kind: str,
    weights: bool,
    labels: LabelKind,
    threads: int | None,
    *,
    cache: bool = False,
) -> EdgeList | tuple[Any, ...]:
    if kind == "edges":
        return _from_text(read_edges(path, weights=weights, labels=labels, threads=threads, cache=cache))
    if kind in ("mtx", "npz"):
        from bmrm.io import read_data

        X = read_data(path, format=kind, dtype="float64", threads=threads, duplicates="sum").X
        if not isinstance(X, Csr):
            raise DataError(f"{os.fspath(path)}: found a dense array, expected a sparse matrix")
        return from_matrix(X)
    if kind == "metis":
        from bmrm.io.metis import read_metis

        with open_source(path) as source:
            edges = from_matrix(read_metis(source))
        edges.directed, edges.both_ways = False, True
        return edges
    if kind == "npy":
        return _read_npy(path)
    return _read_table(path, kind)


def _from_text(text: Edges) -> EdgeList:
    found = text.labels
    if found is None:
        names = NodeLabels(range(text.n_nodes))
    else:
        names = NodeLabels(found.tolist() if found.dtype.hasobject else found)
    return EdgeList(text.sources, text.targets, text.weights, names)


def _read_npy(path: str | os.PathLike[str]) -> tuple[Any, Any]:
    from bmrm.io.npy import read_header, read_rows

    with open_source(path) as source:
        if not source.is_plain:
            raise DataError(f"{source.name}: found a compressed npy file or a pipe, expected a plain file")
        try:
            pairs = read_rows(source.file, read_header(source.file, source.size))
        except ValueError as error:
            raise DataError(f"{source.name}: found {error}, expected an array of edges") from None
    if pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise DataError(
            f"{source.name}: found {pairs.shape} of {pairs.dtype}, expected (edges, 2) of integers"
        )
    return np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1])


def _read_table(path: str | os.PathLike[str], kind: str) -> EdgeList:
    pyarrow = import_pyarrow()
    name = os.fspath(path)
    try:
        if kind == "parquet":
            from pyarrow import parquet

            table = parquet.read_table(name)
        else:
            from pyarrow import ipc

            with pyarrow.memory_map(name) as file:
                table = ipc.open_file(file).read_all()
    except (pyarrow.ArrowException, ValueError) as error:
        raise DataError(
            f"{name}: found a damaged {kind} file ({' '.join(str(error).split())[:200]})"
        ) from None
    return from_arrow(table)
