"""Graphs from files of any supported format."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from bmrm.base.arguments import flag
from bmrm.base.host_memory import require_memory
from bmrm.errors import DataError, DeviceMemoryError, HostMemoryError, ParameterError
from bmrm.graph.edge_list import EdgeList
from bmrm.graph.edges import IdList, Reading, from_arrays, from_arrow, from_matrix, import_pyarrow
from bmrm.graph.graph import Graph
from bmrm.graph.labels import NodeLabels
from bmrm.graph.memory import GraphSize
from bmrm.io.csr import Csr
from bmrm.io.edge_columns import choose_columns
from bmrm.io.edge_counts import count_edges
from bmrm.io.edge_data import Edges
from bmrm.io.edges import LabelKind, check_edge_options, ends_in_returns, read_edges
from bmrm.io.formats import detect_format, format_of
from bmrm.io.sources import open_source

log = logging.getLogger("bmrm")

FORMATS = ("auto", "edges", "mtx", "npz", "npy", "metis", "parquet", "arrow")
_SUFFIXES = {".metis": "metis", ".graph": "metis", ".mtx": "mtx"}
_PACKERS = (".gz", ".bz2", ".xz", ".zst")

MAX_LOOKED_AT = 1 << 16
"""Edges of which the reverse is looked for, to find out whether a graph may be undirected."""

UNREAD_COLUMN = (
    "numbers of the third column, which has no name, are not read (weights=True, --weighted: weights)"
)


def read_graph(
    path: str | os.PathLike[str],
    *,
    format: str = "auto",
    directed: bool | None = None,
    weights: bool | None = None,
    labels: LabelKind = "auto",
    columns: Sequence[str] | None = None,
    duplicates: str = "auto",
    self_loops: str = "keep",
    order: str = "auto",
    threads: int | None = None,
    cache: bool = False,
    comm: Any = None,
    device: str = "auto",
    gpu_mem: int | str | None = None,
) -> Graph:
    r"""Read a graph.

    Parameters
    ----------
    path : str or path-like
        Text, plain or compressed by gzip, bzip2, xz or zstd, ``"-"`` for standard input; or a file of another
        format.
    format : {"auto", "edges", "mtx", "npz", "npy", "metis", "parquet", "arrow"}, default "auto"
        ``edges`` is text with two ids per line, and maybe a weight (``bmrm.io.edges.read_edges``). ``mtx`` is
        a square matrix in Matrix Market format, ``npz`` one that `scipy.sparse.save_npz` wrote in CSR layout,
        ``npy`` an array of integers of shape (edges, 2). ``metis`` is the input of METIS. ``parquet`` and
        ``arrow`` need pyarrow, and have the columns that `Graph` takes. ``"auto"`` detects the format from
        the first bytes, METIS from the names ``*.metis`` and ``*.graph``; a file ``*.mtx`` must be one.
    directed : bool, optional
        Default: what the file says: METIS files and symmetric matrices are undirected, and text may say so in
        a column ``Type`` or in the first comments of SNAP and KONECT. Else True.
    weights : bool, optional
        Whether to read weights; with True the file must have some, in edge text in the third column if none
        has that name. Default: if the file says that it has weights, by a name or its format.
    labels : {"auto", "integer", "string"}, default "auto"
        What ids of edge text are; "auto" decides by the first edge.
    columns : sequence of str, optional
        Names of the columns source, target and maybe weight in a table or a text whose first line has names;
        or their numbers, from "1" on, in a text without.
    duplicates, self_loops, order, threads
        As for `Graph`.
    cache : bool, default False
        Use a binary cache next to plain edge text, ``path`` + ``.bmrmcache``, and write it if needed. Other
        files are read without one. Not with ``comm``.
    comm : mpi4py.MPI.Comm or PETSc.Comm, optional
        Ranks over which the graph is distributed. Each parses its part of plain edge text. Other files are
        read by rank 0, which then needs memory for all edges, and sends them to the others.
    device, gpu_mem
        As for `Graph`. If the GPU has too little memory to build the graph, the CPU does; the parts of ranks
        are built on their CPUs.

    Returns
    -------
    Graph
        A `bmrm.graph.GraphShard` with ``comm``. ``notes`` tells what the file leaves open.

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
    check_edge_options(weights, labels, columns)
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
        return _read_on_ranks(path, format, labels, columns, comm, options)
    kind = _detect(path, format)
    how = Reading(weights=weights, columns=columns)
    edges = _read_edges(path, kind, labels, how, threads, cache=cache)
    try:
        graph = Graph(edges, **options, device=device, gpu_mem=gpu_mem)
    except DeviceMemoryError as error:  # scores need less memory there, and stream
        log.info("%s: using the CPU for that", error)
        graph = Graph(edges, **options, device="cpu")
    if directed is None and edges.directed is None:
        graph.notes += note_of_direction(graph)
    return graph


def note_of_direction(graph: Graph) -> tuple[str, ...]:
    """Return a note if the edges of a directed graph may be those of an undirected one, listed once."""
    step = max(1, graph.n_edges // MAX_LOOKED_AT)
    looked_at, both_ways = graph.rows.count_reversed(step)
    if not looked_at or both_ways:
        return ()
    every = "every edge is" if step == 1 else f"{looked_at} edges that were looked at are"
    return (f"{every} there in one direction; directed=False (--undirected) reads an undirected graph",)


def _read_on_ranks(
    path: str | os.PathLike[str],
    format: str,
    labels: LabelKind,
    columns: Sequence[str] | None,
    comm: Any,
    options: dict[str, Any],
) -> Graph:
    """Read a graph over the ranks: each its part of a plain text, or rank 0 all of any other file."""
    from bmrm.distributed.edge_files import read_edge_range
    from bmrm.distributed.group import group_of
    from bmrm.distributed.options import check_alike
    from bmrm.graph.shard import GraphShard

    group = group_of(comm)
    weights, threads = options["weights"], options["threads"]
    with group.guarded():
        check_alike(group, {"format": format, "labels": labels, "columns": columns, **options})
        with group.together():
            kind = _detect(path, format)
            is_plain = kind == "edges" and _is_plain(path)
        edges: EdgeList | IdList | None = None
        if all(group.everyones(is_plain)):
            with open_source(path) as source:
                text = read_edge_range(
                    source, group, weights=weights, labels=labels, columns=columns, threads=threads
                )
                edges = _from_text(text)
        else:
            with group.together():
                if group.rank == 0:
                    how = Reading(weights=weights, columns=columns)
                    edges = _read_edges(path, kind, labels, how, threads)
    return GraphShard(edges, comm=group, **options)


def measure_graph(
    path: str | os.PathLike[str],
    *,
    format: str = "auto",
    directed: bool | None = None,
    weights: bool | None = None,
    labels: LabelKind = "auto",
    columns: Sequence[str] | None = None,
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
        found = count_edges(path, weights=weights, labels=labels, columns=columns, threads=threads)
        said = found.directed if directed is None else directed
        sizes = found.n_nodes, found.n_edges, found.label_bytes
        return GraphSize(*sizes, found.weighted, found.named, said is False)
    edges = _read_edges(path, kind, labels, Reading(weights=weights, columns=columns), threads)
    graph = Graph(edges, directed=directed, weights=weights)
    listed = graph.n_edges if graph.directed else graph.n_edges // 2
    return GraphSize(graph.n_nodes, listed, weighted=graph.weighted, undirected=not graph.directed)


def _is_plain(path: str | os.PathLike[str]) -> bool:
    """Return whether each rank can read its own part of a text."""
    if os.fspath(path) == "-":
        return False
    with open_source(path) as source:
        return source.is_plain and detect_format(source) == "svmlight" and not ends_in_returns(source)


def _detect(path: str | os.PathLike[str], wanted: str) -> str:
    """Return the format of a file."""
    if wanted not in FORMATS:
        raise ParameterError(f"format: found {wanted!r}, expected one of {', '.join(FORMATS)}")
    name = os.fspath(path)
    if wanted != "auto" or name == "-" or not os.path.isfile(name):  # a pipe can be read only once
        return "edges" if wanted == "auto" else wanted
    with open_source(path) as source:
        head = source.head
    found = format_of(head)
    stem, suffix = os.path.splitext(name)
    suffix = os.path.splitext(stem)[1] if suffix in _PACKERS else suffix
    return found or _SUFFIXES.get(suffix, "edges")


def _read_edges(
    path: str | os.PathLike[str],
    kind: str,
    labels: LabelKind,
    how: Reading,
    threads: int | None,
    *,
    cache: bool = False,
) -> EdgeList | IdList:
    if kind == "edges":
        options: dict[str, Any] = {"weights": how.weights, "columns": how.columns, "labels": labels}
        return _from_text(read_edges(path, **options, threads=threads, cache=cache))
    if kind in ("parquet", "arrow"):
        return _read_table(path, kind, how)
    if how.columns is not None:
        raise ParameterError(f"columns: found with a file of the format {kind}, whose columns have no names")
    if kind in ("mtx", "npz"):
        return _read_matrix(path, kind, threads)
    if kind == "metis":
        from bmrm.io.metis import read_metis

        with open_source(path) as source:
            edges = from_matrix(read_metis(source))
        edges.directed, edges.both_ways = False, True
        return edges
    return _read_npy(path)


def _read_matrix(path: str | os.PathLike[str], kind: str, threads: int | None) -> EdgeList:
    from bmrm.io import read_data
    from bmrm.io.matrix_market import is_symmetric

    X = Csr.of(read_data(path, format=kind, dtype="float64", threads=threads, duplicates="sum").X)
    if X is None:
        raise DataError(f"{os.fspath(path)}: found a dense array, expected a sparse matrix")
    edges = from_matrix(X)
    if kind == "mtx" and os.path.isfile(path):
        with open_source(path) as source:
            if is_symmetric(source.head):
                edges.directed, edges.both_ways = False, True
    return edges


def _from_text(text: Edges) -> EdgeList:
    found = text.labels
    if found is None:
        names = NodeLabels(range(text.n_nodes))
    else:
        names = NodeLabels(found.tolist() if found.dtype.hasobject else found)
    notes = (UNREAD_COLUMN,) if text.unread else ()
    return EdgeList(text.sources, text.targets, text.weights, names, text.directed, notes=notes)


def _read_npy(path: str | os.PathLike[str]) -> EdgeList | IdList:
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
    ends = np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1])
    return from_arrays(ends, None, None)


def _read_table(path: str | os.PathLike[str], kind: str, how: Reading) -> EdgeList | IdList:
    """Read a table from a copy of the file, which nobody can change after it was validated."""
    pyarrow = import_pyarrow()
    with open_source(path) as source:
        if source.is_plain:
            require_memory(source.size, "the file")
        buffer = pyarrow.BufferReader(source.file.read())
        try:
            table = _read_parquet(buffer, how) if kind == "parquet" else _read_arrow(buffer)
            table.validate(full=True)
            return from_arrow(table, how)
        except pyarrow.ArrowMemoryError as error:
            raise HostMemoryError(f"{source.name}: {_on_one_line(error)}") from None
        except (DataError, HostMemoryError) as error:
            raise type(error)(f"{source.name}: {error}") from None
        except (pyarrow.ArrowException, ValueError, OSError, OverflowError) as error:
            raise DataError(f"{source.name}: found a damaged {kind} file ({_on_one_line(error)})") from None


def _read_arrow(file: Any) -> Any:
    from pyarrow import ipc

    return ipc.open_file(file).read_all()


def _read_parquet(file: Any, how: Reading) -> Any:
    """Read the columns that may be of edges: a run of equal values takes a few bytes, whatever its length."""
    from pyarrow import parquet

    found = parquet.ParquetFile(file)
    names = found.schema_arrow.names
    places = (place for place in choose_columns(names, how.columns, how.weights) if place is not None)
    wanted = [*(names[place] for place in places), *(name for name in names if name.lower() == "type")]
    require_memory(8 * found.metadata.num_rows * len(wanted), "its columns")
    return found.read(columns=wanted)


def _on_one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
