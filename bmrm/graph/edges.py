"""Edges from the objects that users have: arrays, SciPy, NetworkX, igraph, Arrow tables.

A[u, v] is the weight of the edge from u to v. NetworkX and igraph are recognised by the modules of their
classes, so that neither is imported for a graph of another kind.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain
from operator import methodcaller
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmrm.base import arguments
from bmrm.base.vectors import Vector
from bmrm.errors import DataError, ParameterError
from bmrm.graph.edge_list import EdgeList, ListedColumns
from bmrm.graph.labels import (
    NodeLabels,
    as_ids,
    check_count,
    check_labels,
    narrow,
    number_nodes,
    number_objects,
)
from bmrm.io.csr import Csr
from bmrm.io.edge_columns import check_columns, choose_columns
from bmrm.io.edges import narrow_below
from bmrm.matrix.gpu.device_arrays import DeviceArray

ID_TYPES = (np.int32, np.int64)
"""Types of ids on a GPU."""

MAX_SHOWN = 10
"""Names of attributes that a message lists."""


class IdList(ListedColumns):
    """A list of edges between nodes that have no numbers yet, all in one memory.

    Ids are integers, or int32 or int64 on a GPU. With labels they are numbers of nodes, in range or not;
    without, nodes are those that occur. Weights are float64, or float32 on a GPU.
    """

    def numbered(self, threads: int | None) -> EdgeList:
        """Return the edges in main memory, whose nodes have numbers."""
        source, target, names = _in_main_memory(self.source), _in_main_memory(self.target), self.labels
        if names is None:
            source, target, names = number_nodes(source, target, threads)
        else:
            source, target = (
                _numbers_in_range(what, end, len(names), threads)
                for what, end in (("source", source), ("target", target))
            )
        weight = None if self.weight is None else np.asarray(_in_main_memory(self.weight), np.float64)
        return EdgeList(source, target, weight, names, self.directed, self.both_ways, self.notes)


def _in_main_memory(array: Any) -> NDArray[Any]:
    return np.asarray(array[:])


@dataclass(frozen=True)
class Reading:
    """What the arguments of `bmrm.graph.Graph` say about the edges; see there."""

    n_nodes: int | None = None
    labels: Any = None
    weights: bool | None = None
    weight: str | None = None
    columns: Sequence[str] | None = None
    threads: int | None = None

    def check(self) -> None:
        """Raise for arguments out of range."""
        check_columns(self.columns, self.weights)
        if self.weights is not None:
            arguments.flag("weights", self.weights)
        if self.weight is not None and not isinstance(self.weight, str):
            raise ParameterError(f"weight: found {self.weight!r}, expected the name of an attribute")
        if self.weight is not None and self.weights is not None and not self.weights:
            raise ParameterError("weight: found with weights=False, expected one of them")

    def check_only(self, what: str, *known: str) -> None:
        """Raise for arguments that mean nothing with edges of some kind."""
        given = {
            "n_nodes": self.n_nodes,
            "labels": self.labels,
            "weight": self.weight,
            "columns": self.columns,
        }
        for name, value in given.items():
            if value is not None and name not in known:
                raise ParameterError(f"{name}: found one with {what}")


def edges_of(given: Any, how: Reading) -> EdgeList:
    """Convert any supported object to edges between numbered nodes, in main memory."""
    return listed_of(given, how).numbered(how.threads)


def listed_of(given: Any, how: Reading) -> EdgeList | IdList:
    """Convert any supported object to edges, where they are."""
    how.check()
    if hasattr(given, "__arrow_c_stream__") and not hasattr(given, "to_frame"):  # else one column
        return from_arrow(given, how)
    if hasattr(given, "is_multigraph") and hasattr(given, "adj"):
        how.check_only("a graph object, which has its own nodes", "weight")
        return from_networkx_named(given, how)
    if type(given).__module__.partition(".")[0] == "igraph" and hasattr(given, "get_edgelist"):
        how.check_only("a graph object, which has its own nodes", "weight")
        return from_igraph(given, how)
    found: EdgeList | IdList
    if isinstance(given, (EdgeList, IdList)):
        found = given
    elif (matrix := Csr.of(given)) is not None:
        how.check_only("a matrix, whose columns have no names", "labels", "n_nodes")
        found = from_matrix(matrix, how.labels, how.n_nodes)
    else:
        how.check_only("arrays, which have no names", "labels", "n_nodes")
        found = from_arrays(given, how.n_nodes, how.labels)
    if how.weights is not None and not how.weights:
        found.weight = None
    return found


EXPECTED = (
    "a tuple of arrays (source, target[, weight]), a list of pairs (u, v) or triples (u, v, weight), an "
    "array of shape (edges, 2), a sparse matrix, a graph of NetworkX or igraph, or an Arrow table"
)


def from_arrays(given: Any, n_nodes: int | None, labels: Any) -> EdgeList | IdList:
    """Convert a tuple of arrays, a list of edges or an array of shape (edges, 2)."""
    source, target, *more = _columns_of(given)
    if len(source) != len(target):
        raise DataError(
            f"edges: found {len(source)} sources and {len(target)} targets, expected equal numbers"
        )
    weight = _weights(more[0]) if more else None
    if weight is not None and weight.shape != (len(source),):
        raise DataError(f"weight: found shape {weight.shape}, expected ({len(source)},), one per edge")
    if n_nodes is None and labels is None:
        ids = as_ids("source", source), as_ids("target", target)
        if not isinstance(ids[0], list) and not isinstance(ids[1], list):
            return IdList(*ids, weight, None)
        source, target, names = number_objects(*ids)
        return EdgeList(source, target, weight, names)
    names = (
        NodeLabels(range(arguments.integer("n_nodes", n_nodes)))
        if labels is None
        else check_labels(labels, n_nodes)
    )
    check_count(len(names))
    ends = [_check_numbers(what, end, len(names)) for what, end in (("source", source), ("target", target))]
    return IdList(ends[0], ends[1], weight, names)


def _weights(given: Any) -> Any:
    """Return weights as an array, where they are."""
    if arguments.is_on_device(given):
        return DeviceArray("weight", given, 1, (np.float32, np.float64))
    return arguments.numbers("weight", given, each="edge")


def _check_numbers(what: str, given: Any, n: int) -> Any:
    """Return the numbers of nodes as an array, where they are."""
    if arguments.is_on_device(given):
        return given
    found = np.asarray(given)
    if found.size == 0:
        found = found.astype(np.int64)
    if found.ndim != 1 or found.dtype.kind not in "iu":
        raise DataError(f"{what}: found {found.dtype}, expected the numbers of nodes, 0 to {n - 1}")
    return found


def _columns_of(given: Any) -> tuple[Any, ...]:
    """Return sources, targets and maybe weights: a tuple holds arrays, a list holds edges."""
    if arguments.has_masked(given):
        raise DataError("edges: found masked values, expected an id in each place")
    if arguments.is_on_device(given):
        pairs = DeviceArray("edges", given, 2, ID_TYPES, any_order=True)
        if pairs.shape[1] != 2:
            raise DataError(f"edges: found an array of shape {pairs.shape}, expected (edges, 2)")
        return _ids("source", pairs.owner[:, 0]), _ids("target", pairs.owner[:, 1])
    if isinstance(given, np.ndarray):
        if given.ndim != 2 or given.shape[1] != 2:
            raise DataError(f"edges: found an array of shape {given.shape}, expected (edges, 2)")
        return given[:, 0], given[:, 1]
    if isinstance(given, list):
        return _columns_of_list(given)
    if not isinstance(given, tuple) or len(given) not in (2, 3) or any(isinstance(x, tuple) for x in given):
        if isinstance(given, str | os.PathLike):
            raise DataError("edges: found text, expected edges; bmrm.graph.read_graph reads files")
        what = "a tuple of tuples" if isinstance(given, tuple) and given else f"a {type(given).__name__}"
        raise DataError(f"edges: found {what}, expected {EXPECTED}")
    ends = (_ids("source", given[0]), _ids("target", given[1]))
    return (*ends, *given[2:])


def _columns_of_list(edges: list[Any]) -> tuple[Any, ...]:
    """Return the columns of a list of pairs or triples."""
    if not edges:
        return [], []
    kinds, lengths = set(map(type, edges)), {len(edge) if hasattr(edge, "__len__") else 0 for edge in edges}
    pairs = all(issubclass(kind, tuple) for kind in kinds) or (kinds <= {tuple, list} and lengths == {2})
    unclear = len(edges) <= 3 and not pairs  # they may be sources, targets and weights
    if len(lengths) > 1 or not lengths <= {2, 3} or unclear or kinds & {str, bytes, set, frozenset, dict}:
        raise DataError(f"edges: found a list with other items than pairs or triples, expected {EXPECTED}")
    return tuple(list(column) for column in zip(*edges, strict=True))


def _ids(what: str, given: Any) -> Any:
    """Return the ids of one end of the edges as an array or a list."""
    if isinstance(given, (np.ndarray, list)):
        return given
    if arguments.is_on_device(given):
        return DeviceArray(what, given, 1, ID_TYPES, any_order=True)
    if hasattr(given, "to_pylist"):  # Arrow's
        return given.to_pylist()
    if hasattr(given, "__array__") or hasattr(given, "__dlpack__"):
        return arguments.array(what, given)
    if isinstance(given, (str, bytes, Mapping, Set)) or not isinstance(given, Iterable):
        raise DataError(f"{what}: found {arguments.short_repr(given)}, expected an array of ids")
    return list(given)


def _numbers_in_range(what: str, found: NDArray[Any], n: int, threads: int | None) -> NDArray[Any]:
    numbers = (
        None if found.dtype == np.uint64 and n <= found.max(initial=0) else narrow_below(found, n, threads)
    )
    if numbers is None:
        edge = int(np.argmax((found < 0) | (found >= n)))
        raise DataError(f"{what}: edge {edge + 1} has node {found[edge]}, expected 0 to {n - 1}")
    return numbers


def from_matrix(X: Csr, labels: Any = None, n_nodes: int | None = None) -> EdgeList:
    """Convert an adjacency matrix; its stored entries are the edges."""
    n = X.shape[0]
    if X.shape[1] != n or n_nodes not in (None, n):
        expected = "a square one" if n_nodes is None else f"({n_nodes}, {n_nodes})"
        raise DataError(f"edges: found a matrix of shape {X.shape}, expected {expected}")
    source = np.repeat(np.arange(n), np.diff(X.indptr))
    weight = None if X.data is None else X.data.astype(np.float64)
    names = NodeLabels(range(n)) if labels is None else check_labels(labels, n)
    return EdgeList(narrow(source, n), narrow(X.indices, n), weight, names)


def from_networkx_named(graph: Any, how: Reading) -> EdgeList:
    """Convert a NetworkX graph as `from_networkx` does; an attribute that is named must be there."""
    name = _attribute(how)
    if how.weight is not None or how.weights:
        known: set[Any] = set().union(*(data for *_, data in graph.edges(data=True)))
        _check_attribute(name, known, any_edge=graph.number_of_edges() > 0)
    return from_networkx(graph, name)


def _attribute(how: Reading) -> str | None:
    """Return the name of the attribute of weights; None if they are not wanted."""
    return None if how.weights is not None and not how.weights else how.weight or "weight"


def _check_attribute(name: str | None, known: Iterable[Any], *, any_edge: bool) -> None:
    if any_edge and name not in known:
        listed = ", ".join(sorted(map(repr, known))[:MAX_SHOWN]) or "none"
        raise DataError(f"weight: found no edge with the attribute {name!r}, expected one of: {listed}")


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
    directed = bool(graph.is_directed())
    both_ways = None if directed else True
    return EdgeList(narrow(source, n), narrow(target, n), weights, names, directed, both_ways)


def _weights_of(records: Iterable[Mapping[str | None, Any]], weight: str | None) -> Vector:
    """Return an attribute of edges, 1 for edges without it."""
    return arguments.numbers("weight", [record.get(weight, 1) for record in records], each="edge")


def from_igraph(graph: Any, how: Reading) -> EdgeList:
    """Convert an igraph graph; labels are the attribute "name" if there is one."""
    n, name = graph.vcount(), _attribute(how)
    pairs = np.array(graph.get_edgelist(), np.int64).reshape(-1, 2)
    attributes = graph.es.attributes()
    if how.weight is not None or how.weights:
        _check_attribute(name, attributes, any_edge=len(pairs) > 0)
    weights = None
    if name in attributes:
        weights = arguments.numbers("weight", graph.es[name], each="edge")
    elif graph.has_multiple():  # parallel edges are summed
        weights = np.ones(len(pairs))
    names = check_labels(graph.vs["name"], n) if "name" in graph.vs.attributes() else NodeLabels(range(n))
    directed = bool(graph.is_directed())
    both_ways = None if directed else False
    return EdgeList(narrow(pairs[:, 0], n), narrow(pairs[:, 1], n), weights, names, directed, both_ways)


def from_arrow(given: Any, how: Reading) -> EdgeList | IdList:
    """Convert a table by the columns that `bmrm.io.edge_columns.choose_columns` finds."""
    pyarrow = import_pyarrow()
    try:
        table = given if isinstance(given, pyarrow.Table) else pyarrow.table(given)
        kept = [name for name in table.column_names if not _INDEX.fullmatch(name)]
    except (pyarrow.ArrowException, ValueError, TypeError) as error:
        raise DataError(f"edges: found a damaged table ({' '.join(str(error).split())[:200]})") from None
    if len(kept) < 2:
        raise DataError(f"edges: found {len(kept)} columns, expected source, target and maybe weight")
    places = [table.column_names.index(name) if kept.count(name) == 1 else -1 for name in kept]
    try:
        found = choose_columns(kept, how.columns, how.weights, how.weight)
    except DataError as error:
        raise DataError(f"edges: {error}") from None
    used = [kept[place] for place in found if place is not None]
    if repeated := [name for name in used if kept.count(name) > 1]:
        raise DataError(f"edges: found the column {repeated[0]!r} twice, expected it once")
    columns = [table.column(places[place]) for place in found if place is not None]
    for name, column in zip(used, columns, strict=True):
        _check_cells(pyarrow, name, column)
    ends = [_arrow_ids(pyarrow, column) for column in columns[:2]]
    if isinstance(ends[0], list) != isinstance(ends[1], list) and len(ends[0]):
        raise DataError(
            f"edges: found {columns[0].type} and {columns[1].type} as ids, expected integers or text in both"
        )
    arrays = (*ends, *(column.to_numpy() for column in columns[2:]))
    edges = from_arrays(arrays, how.n_nodes, how.labels)
    edges.directed = _table_directed(table, kept)
    return edges


_INDEX = re.compile(r"__index_level_\d+__")  # what pandas adds for the rows of a frame


def _check_cells(pyarrow: Any, name: str, column: Any) -> None:
    """Raise for missing values, and for offsets and text that a damaged column has."""
    if column.null_count:
        raise DataError(f"edges: column {name!r} has {column.null_count} missing values, expected none")
    try:
        column.validate(full=True)
    except (pyarrow.ArrowException, ValueError) as error:
        text = " ".join(str(error).split())[:200]
        raise DataError(f"edges: column {name!r}: found damaged cells ({text})") from None


def _table_directed(table: Any, names: list[str]) -> bool | None:
    """Return what a column ``Type``, as Gephi writes it, says about the direction of the edges."""
    found = [name for name in names if name.lower() == "type" and names.count(name) == 1]
    if not found:
        return None
    values = {str(value).lower() for value in table.column(found[0]).unique().to_pylist()}
    if not values or not values <= {"directed", "undirected"}:
        return None
    if len(values) > 1:
        raise DataError(f"edges: column {found[0]!r}: found directed and undirected edges, expected one kind")
    return values == {"directed"}


def _arrow_ids(pyarrow: Any, column: Any) -> Any:
    """Return a column of integers or text."""
    types = pyarrow.types
    if len(column) == 0:
        return []
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
        raise ParameterError("edges: an Arrow table needs pyarrow: pip install pyarrow") from None
    return pyarrow
