"""Edges from the objects that users have: arrays, SciPy, NetworkX, igraph, Arrow tables.

A[u, v] is the weight of the edge from u to v. NetworkX and igraph are recognised by the modules of their
classes, so that neither is imported for a graph of another kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from operator import methodcaller
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmrm.base import arguments
from bmrm.base.vectors import Vector
from bmrm.errors import DataError, ParameterError
from bmrm.graph.labels import NodeLabels, check_labels, narrow, number_nodes
from bmrm.io.csr import Csr


@dataclass
class EdgeList:
    """A list of edges between numbered nodes.

    Attributes
    ----------
    source, target : ndarray of int32, shape (edges,)
        Numbers of nodes, in range.
    weight : ndarray of float64, shape (edges,), or None
    labels : NodeLabels
    directed : bool or None
        What the object says of itself; None if it does not say.
    both_ways : bool
        Whether an undirected graph lists each edge in both directions.
    """

    source: NDArray[np.int32]
    target: NDArray[np.int32]
    weight: Vector | None
    labels: NodeLabels
    directed: bool | None = None
    both_ways: bool = False


def edges_of(given: Any, n_nodes: int | None = None, labels: Any = None, weight: str = "weight") -> EdgeList:
    """Convert any supported object to edges; see `bmrm.graph.Graph` for the arguments."""
    if isinstance(given, EdgeList):
        return given
    if hasattr(given, "__arrow_c_stream__"):
        return from_arrow(given, n_nodes, labels)
    if arguments.is_sparse(given):
        return from_matrix(Csr.from_scipy(given), labels)
    if isinstance(given, Csr):
        return from_matrix(given, labels)
    home = type(given).__module__.partition(".")[0]
    foreign = {"networkx": from_networkx, "igraph": from_igraph}
    kind = (
        home if home in foreign else "networkx" if hasattr(given, "adj") and hasattr(given, "nodes") else None
    )
    if kind is not None:
        if n_nodes is not None or labels is not None:
            raise ParameterError("n_nodes, labels: found one with a graph object, which has its own nodes")
        return foreign[kind](given, weight)
    return from_arrays(given, n_nodes, labels)


def from_arrays(given: Any, n_nodes: int | None, labels: Any) -> EdgeList:
    """Convert ``(source, target)``, ``(source, target, weight)`` or an array of shape (edges, 2)."""
    if isinstance(given, np.ndarray):
        if given.ndim != 2 or given.shape[1] != 2:
            raise DataError(f"edges: found an array of shape {given.shape}, expected (edges, 2)")
        parts: tuple[Any, ...] = (given[:, 0], given[:, 1])
    elif isinstance(given, (tuple, list)) and len(given) in (2, 3):
        parts = tuple(given)
    else:
        raise DataError(
            f"edges: found a {type(given).__name__}, expected (source, target[, weight]), an array of shape "
            "(edges, 2), a sparse matrix, a graph of NetworkX or igraph, or an Arrow table"
        )
    source, target = (part if isinstance(part, (np.ndarray, list)) else list(part) for part in parts[:2])
    if len(source) != len(target):
        raise DataError(
            f"edges: found {len(source)} sources and {len(target)} targets, expected equal numbers"
        )
    weight = None if len(parts) == 2 else arguments.numbers("weight", parts[2], each="edge")
    if weight is not None and weight.shape != (len(source),):
        raise DataError(f"weight: found shape {weight.shape}, expected ({len(source)},), one per edge")
    if n_nodes is None and labels is None:
        source, target, names = number_nodes(source, target)
        return EdgeList(source, target, weight, names)
    names = (
        NodeLabels(range(arguments.integer("n_nodes", n_nodes)))
        if labels is None
        else check_labels(labels, n_nodes)
    )
    ends = [
        _numbers_in_range(what, end, len(names)) for what, end in (("source", source), ("target", target))
    ]
    return EdgeList(ends[0], ends[1], weight, names)


def _numbers_in_range(what: str, given: Any, n: int) -> NDArray[Any]:
    found = np.asarray(given)
    if found.size == 0:
        found = found.astype(np.int64)
    if found.ndim != 1 or found.dtype.kind not in "iu":
        raise DataError(f"{what}: found {found.dtype}, expected the numbers of nodes, 0 to {n - 1}")
    outside = (found < 0) | (found >= n)
    if outside.any():
        edge = int(np.argmax(outside))
        raise DataError(f"{what}: edge {edge + 1} has node {found[edge]}, expected 0 to {n - 1}")
    return narrow(found, n)


def from_matrix(X: Csr, labels: Any = None) -> EdgeList:
    """Convert an adjacency matrix; its stored entries are the edges."""
    n = X.shape[0]
    if X.shape[1] != n:
        raise DataError(f"edges: found a matrix of shape {X.shape}, expected a square one")
    source = np.repeat(np.arange(n), np.diff(X.indptr))
    weight = None if X.data is None else X.data.astype(np.float64)
    names = NodeLabels(range(n)) if labels is None else check_labels(labels, n)
    return EdgeList(narrow(source, n), narrow(X.indices, n), weight, names)


def from_networkx(graph: Any, weight: str | None = "weight") -> EdgeList:
    """Convert a NetworkX graph; nodes keep their order, edges without the attribute weigh 1."""
    nodes, adjacent = list(graph), graph._adj
    n, rows = len(nodes), list(map(adjacent.__getitem__, nodes))
    source = np.repeat(np.arange(n, dtype=np.int32), np.fromiter(map(len, rows), np.int64, n))
    names = NodeLabels(range(n) if nodes == list(range(n)) else nodes)
    filled = list(filter(None, rows))
    ends = chain.from_iterable(filled)
    if isinstance(names.values, range):
        target = np.fromiter(ends, np.int32, len(source))
    else:
        number = {node: i for i, node in enumerate(nodes)}
        target = np.fromiter(map(number.__getitem__, ends), np.int32, len(source))
    records = chain.from_iterable(map(methodcaller("values"), filled))
    weights = None
    if graph.is_multigraph():  # parallel edges are summed
        parallel = list(records)
        counts = [len(keys) for keys in parallel]
        source, target = np.repeat(source, counts), np.repeat(target, counts)
        weights = _weights_of((record for keys in parallel for record in keys.values()), weight)
    elif weight is not None and any(records):
        weights = _weights_of((record for row in filled for record in row.values()), weight)
    return EdgeList(
        narrow(source, n), narrow(target, n), weights, names, graph.is_directed(), not graph.is_directed()
    )


def _weights_of(records: Iterable[Mapping[str | None, Any]], weight: str | None) -> Vector:
    """Return an attribute of edges, 1 for edges without it."""
    return arguments.numbers("weight", [record.get(weight, 1) for record in records], each="edge")


def from_igraph(graph: Any, weight: str = "weight") -> EdgeList:
    """Convert an igraph graph; labels are the attribute "name" if there is one."""
    n = graph.vcount()
    pairs = np.array(graph.get_edgelist(), np.int64).reshape(-1, 2)
    weights = None
    if weight in graph.es.attributes():
        weights = arguments.numbers("weight", graph.es[weight], each="edge")
    names = check_labels(graph.vs["name"], n) if "name" in graph.vs.attributes() else NodeLabels(range(n))
    return EdgeList(narrow(pairs[:, 0], n), narrow(pairs[:, 1], n), weights, names, graph.is_directed())


def from_arrow(given: Any, n_nodes: int | None = None, labels: Any = None) -> EdgeList:
    """Convert a table by its first two columns, source and target, and its third, the weight, if any."""
    pyarrow = import_pyarrow()
    table = given if isinstance(given, pyarrow.Table) else pyarrow.table(given)
    if table.num_columns < 2:
        raise DataError(f"edges: found {table.num_columns} columns, expected source, target and maybe weight")
    for name, column in zip(table.column_names, table.columns, strict=True):
        if column.null_count:
            raise DataError(f"edges: column {name!r} has {column.null_count} missing values, expected none")
    ends = [_arrow_ids(pyarrow, table.column(i)) for i in range(2)]
    weight = [] if table.num_columns == 2 else [table.column(2).to_numpy()]
    return from_arrays((*ends, *weight), n_nodes, labels)


def _arrow_ids(pyarrow: Any, column: Any) -> Any:
    """Return a column of integers or text."""
    types = pyarrow.types
    kind = column.type.value_type if types.is_dictionary(column.type) else column.type
    if types.is_integer(column.type):
        return column.to_numpy()
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return column.to_pylist()
    raise DataError(f"edges: found a column of type {column.type}, expected integers or text")


def import_pyarrow() -> Any:
    """Import pyarrow, or raise a one-line error."""
    try:
        import pyarrow
    except ImportError:
        raise ParameterError("edges: found an Arrow table without pyarrow, expected it installed") from None
    return pyarrow
