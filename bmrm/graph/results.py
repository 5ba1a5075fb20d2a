"""What the algorithms return."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmrm.base import arguments
from bmrm.base.answers import MAX_ROWS, STOPS, Answer, ShownTable, ranked
from bmrm.base.atomic import atomic_write
from bmrm.base.vectors import Indices, Vector, make_arrays_read_only
from bmrm.errors import ParameterError
from bmrm.graph.labels import NodeLabels
from bmrm.matrix.gpu.placement import Placement

NO_WORK = "there is nothing to compute"
"""Why a graph without nodes or edges goes to no GPU."""

FIRST_SORTED = 1024
"""Scores that are sorted first to find out how far the order is proven; eight times as many follow."""


FIRST_NODES = 5
"""Nodes per query in the table of several walks."""


def proven_ranks(scores: Vector, bound: float) -> int:
    """Return the number of leading ranks whose order a bound proves; scores descend.

    Examples
    --------
    >>> proven_ranks(np.array([0.5, 0.3, 0.29, 0.1]), 0.1)
    1
    """
    close = ~(scores[:-1] - scores[1:] > bound * (1 + 1e-15))
    return int(np.argmax(close)) if close.any() else len(scores)


def count_proven(scores: Vector, bound: float) -> int:
    """Return the number of leading ranks whose order a bound proves, for scores in any order."""
    count = FIRST_SORTED
    while True:
        found = proven_ranks(scores[ranked(scores, count + 1)], bound)
        if found <= count or count >= len(scores):
            return min(found, len(scores))
        count *= 8


@dataclass(frozen=True, repr=False)
class Ranking(Answer):
    """PageRank of every node.

    Attributes
    ----------
    scores : ndarray of float64, shape (n,)
        In the order of the labels.
    labels : NodeLabels
    error_bound : float
        Proven: the sum over the nodes of ``|score - exact score|`` is at most this. So the score of each
        node, and the difference of any two scores, is within it.
    residual : float
        The l1 norm of ``T(x) - x`` of the last step.
    status : {"converged", "max_iter", "max_time", "interrupted", "precision"}
        "precision": float64 cannot prove more on this graph.
    n_iter, n_products : int
        Iterations, and products of the matrix and a vector.
    seconds : float
    edges_per_second : float
    placement : Placement
        Where it ran, and why.

    Examples
    --------
    >>> from bmrm.graph import pagerank
    >>> found = pagerank(([0, 1, 2], [2, 2, 0]))
    >>> [(node, round(score, 3)) for node, score in found.top(2)], found.rank_of(1), found.proven
    ([(2, 0.486), (0, 0.464)], 3, 3)
    """

    scores: Vector
    labels: NodeLabels
    error_bound: float
    residual: float
    status: str
    n_iter: int
    n_products: int
    seconds: float
    edges_per_second: float
    placement: Placement

    def __post_init__(self) -> None:
        make_arrays_read_only(self, "scores")

    @cached_property
    def proven(self) -> int:
        """Number of leading ranks in a proven order: each score exceeds the next by more than the bound."""
        return count_proven(self.scores, self.error_bound)

    def top(self, count: int = 10) -> list[tuple[Any, float]]:
        """Return labels and scores of the first nodes, ties in the order of the labels.

        Parameters
        ----------
        count : int, default 10

        Returns
        -------
        list of tuple
            Of label and score, in descending order.
        """
        order = ranked(self.scores, count)
        return list(zip(self.labels.take(order), self.scores[order].tolist(), strict=True))

    def ties(self, count: int = 10) -> list[tuple[int, int]]:
        """Return ranges of ranks whose order is not proven.

        Parameters
        ----------
        count : int, default 10
            Only among the first ranks.

        Returns
        -------
        list of tuple
            First and last rank of each range, counted from 1.

        Examples
        --------
        >>> from bmrm.graph import pagerank
        >>> pagerank(([0, 1, 2], [2, 2, 0])).ties(3)
        []
        >>> pagerank(([0, 1, 2, 2], [2, 2, 0, 1])).ties(3)
        [(2, 3)]
        """
        scores = self.scores[ranked(self.scores, arguments.integer("count", count) + 1)]
        close = ~(scores[:-1] - scores[1:] > self.error_bound * (1 + 1e-15))
        edges = np.flatnonzero(np.diff(np.concatenate([[False], close, [False]]).astype(int)))
        return [(int(first) + 1, int(last) + 1) for first, last in edges.reshape(-1, 2)]

    def rank_of(self, label: Any) -> int:
        """Return the rank of a node, 1 for the first; equal scores share the better rank.

        Parameters
        ----------
        label : object
            Of a node.

        Returns
        -------
        int
        """
        number = self.labels.number("rank_of", label)
        return int((self.scores > self.scores[number]).sum()) + 1

    def to_dict(self) -> dict[Any, float]:
        """Return the scores by label."""
        return dict(zip(self.labels.to_list(), self.scores.tolist(), strict=True))

    _numbers = (
        *("status", "error_bound", "proven", "residual"),
        *("n_iter", "n_products", "seconds", "placement.device"),
    )

    def _title(self) -> str:
        return f"PageRank of {len(self.scores)} nodes"

    def _facts(self) -> Mapping[str, Any]:
        return {**super()._facts(), "proven": f"the order of the first {self.proven}"}

    def _columns(self) -> Mapping[str, Any]:
        return {"node": self.labels.to_array(), "score": self.scores}

    def _tables(self) -> list[ShownTable]:
        return [_ranks("node", self.top(MAX_ROWS), len(self.scores))]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write nodes and scores, in descending order.

        Parameters
        ----------
        path : str or path-like
            Ending in .tsv, .npz or .parquet, which sets the format.
        """
        order = ranked(self.scores, len(self.scores))
        columns = {"node": _labels_of(self.labels, order), "score": self.scores[order]}
        save_columns(path, columns, {"error_bound": self.error_bound, "status": self.status})


@dataclass(frozen=True, repr=False)
class Walks(Answer):
    """Random walks with restart, one per query.

    Attributes
    ----------
    nodes : ndarray of int64, shape (q, top), or None
        Numbers of the nodes with the largest scores, in descending order; -1 fills rows of graphs with fewer
        nodes.
    scores : ndarray of float64, shape (q, top), or (n, q) if all scores were asked for
    labels : NodeLabels
    queries : list
        Labels of the query nodes, or the restart vectors as they were given.
    error_bound, residual : ndarray of float64, shape (q,)
        As in `Ranking`.
    status : list of str
    n_iter : ndarray of int64, shape (q,)
    n_products : int
        Products of the matrix and a vector, over all queries.
    seconds, edges_per_second : float
    placement : Placement
        As in `Ranking`.
    proven_in_lists : ndarray of int64, shape (q,), or None
        `proven` of lists, which takes the score after the last.

    Examples
    --------
    >>> from bmrm.graph import random_walk
    >>> found = random_walk(([0, 1, 2, 2], [2, 2, 0, 1]), [0], top=2)
    >>> found.status, [node for node, score in found.top()]
    (['converged'], [2, 0])
    """

    nodes: Indices | None
    scores: Vector
    labels: NodeLabels
    queries: list[Any]
    error_bound: Vector
    residual: Vector
    status: list[str]
    n_iter: Indices
    n_products: int
    seconds: float
    edges_per_second: float
    placement: Placement
    proven_in_lists: Indices | None = None

    @cached_property
    def proven(self) -> Indices:
        """Number of leading ranks of each query whose order is proven, int64 of shape (q,)."""
        if self.proven_in_lists is not None:
            return self.proven_in_lists
        columns = zip(self.scores.T, self.error_bound, strict=True)
        return np.array([count_proven(scores, float(bound)) for scores, bound in columns], np.int64)

    def top(self, query: int = 0, count: int | None = None) -> list[tuple[Any, float]]:
        """Return labels and scores of the first nodes of one query.

        Parameters
        ----------
        query : int, default 0
            Its position among the queries.
        count : int, optional
            Default: all that are there.

        Returns
        -------
        list of tuple
            Of label and score, in descending order.
        """
        if not 0 <= arguments.integer("query", query) < len(self.queries):
            raise ParameterError(
                f"query: found {query}, expected a position from 0 to {len(self.queries) - 1}"
            )
        if count is not None and arguments.integer("count", count) < 0:
            raise ParameterError(f"count: found {count}, expected at least 0")
        if self.nodes is None:
            scores = self.scores[:, query]
            order: NDArray[Any] = ranked(scores, len(scores) if count is None else count)
            return list(zip(self.labels.take(order), scores[order].tolist(), strict=True))
        kept = self.nodes[query] >= 0
        nodes, scores = self.nodes[query][kept][:count], self.scores[query][kept][:count]
        return list(zip(self.labels.take(nodes), scores.tolist(), strict=True))

    def stopped(self, query: int) -> str:
        """Return why the walk of a query stopped.

        Parameters
        ----------
        query : int
            Its position among the queries.

        Returns
        -------
        str

        Examples
        --------
        >>> from bmrm.graph import random_walk
        >>> random_walk(([0, 1, 2], [2, 2, 0]), [0], top=2).stopped(0)
        'the order is proven'
        """
        status = self.status[query]
        if status != "converged":
            return STOPS[status]
        listed = 0 if self.nodes is None else int((self.nodes[query] >= 0).sum())
        return "the order is proven" if 0 < listed <= self.proven[query] else "the error is below tol"

    _numbers = ("n_products", "seconds", "edges_per_second", "placement.device")

    def _title(self) -> str:
        count = len(self.queries)
        return f"random walks with restart from {count} {'query' if count == 1 else 'queries'}"

    def _columns(self) -> dict[str, Any]:
        lists = [self.top(query) for query in range(len(self.queries))]
        return {
            "query": _objects(self.queries[q] for q, top in enumerate(lists) for _ in top),
            "rank": np.array([rank for top in lists for rank in range(1, len(top) + 1)], np.int64),
            "node": _objects(label for top in lists for label, _ in top),
            "score": np.array([score for top in lists for _, score in top], np.float64),
        }

    def _tables(self) -> list[ShownTable]:
        shown = range(min(len(self.queries), MAX_ROWS))
        found = {
            "query": [self.queries[q] for q in shown],
            "stopped because": [self.stopped(q) for q in shown],
            "proven": [int(self.proven[q]) for q in shown],
            "error bound": [float(self.error_bound[q]) for q in shown],
            "first nodes": [", ".join(str(label) for label, _ in self.top(q, FIRST_NODES)) for q in shown],
        }
        return [ShownTable(found, len(self.queries) - len(shown))]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the lists, one line per query, rank and node.

        Parameters
        ----------
        path : str or path-like
            Ending in .tsv, .npz or .parquet, which sets the format.
        """
        columns = self._columns()
        columns |= {name: np.array(list(map(str, columns[name]))) for name in ("query", "node")}
        save_columns(path, columns, {"error_bound": self.error_bound, "proven": self.proven})


@dataclass(frozen=True, repr=False)
class Hits(Answer):
    """Hubs and authorities; see `bmrm.graph.hits`.

    Attributes
    ----------
    hubs, authorities : ndarray of float64, shape (n,)
        At least 0, each with sum 1, in the order of the labels.
    labels : NodeLabels
    singular_value : float
        The largest singular value of A.
    gap : float
        Its distance to the second largest, relative to it; an estimate (Ritz values).
    residual : float
        ``||A' h - s a|| / s`` for unit vectors: the pair is exact for a matrix that differs from A by at most
        this times ``||A||``.
    error_estimate : float
        ``residual / gap``, about the angle to the exact vectors. An estimate, since the gap is one.
    status : {"converged", "max_iter", "max_time", "interrupted", "precision"}
    n_iter, n_products : int
    seconds : float
    placement : Placement
        As in `Ranking`.
    find_unique : callable
        What `unique` calls.

    Examples
    --------
    >>> from bmrm.graph import hits
    >>> found = hits(([0, 0, 1], [1, 2, 2]))
    >>> found.status, [(node, round(score, 3)) for node, score in found.top(2)]
    ('converged', [(2, 0.618), (1, 0.382)])
    """

    hubs: Vector
    authorities: Vector
    labels: NodeLabels
    singular_value: float
    gap: float
    residual: float
    error_estimate: float
    status: str
    n_iter: int
    n_products: int
    seconds: float
    placement: Placement
    find_unique: Callable[[], bool] = field(repr=False)

    def __post_init__(self) -> None:
        make_arrays_read_only(self, "hubs", "authorities")

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled: with the graph only if `unique` has not been asked for."""
        state = dict(self.__dict__)
        return state | {"find_unique": partial(bool, self.unique)} if "unique" in state else state

    @cached_property
    def unique(self) -> bool:
        """Whether one component alone has the largest singular value; if not, other vectors are answers too.

        Found when it is asked for, by comparing components, which takes about as long as `hits` itself. All
        ranks of a graph on several must ask.
        """
        return self.find_unique()

    def top(self, count: int = 10, what: str = "authorities") -> list[tuple[Any, float]]:
        """Return labels and scores of the first authorities or hubs.

        Parameters
        ----------
        count : int, default 10
        what : {"authorities", "hubs"}, default "authorities"

        Returns
        -------
        list of tuple
            Of label and score, in descending order.
        """
        if what not in ("authorities", "hubs"):
            raise ParameterError(f"what: found {what!r}, expected authorities or hubs")
        scores = self.authorities if what == "authorities" else self.hubs
        order = ranked(scores, count)
        return list(zip(self.labels.take(order), scores[order].tolist(), strict=True))

    _numbers = (
        *("status", "singular_value", "gap", "residual", "error_estimate"),
        *("n_iter", "n_products", "seconds", "placement.device"),
    )

    def _title(self) -> str:
        return f"hubs and authorities of {len(self.hubs)} nodes"

    def _columns(self) -> Mapping[str, Any]:
        return {"node": self.labels.to_array(), "authority": self.authorities, "hub": self.hubs}

    def _tables(self) -> list[ShownTable]:
        sides = {"authority": "authorities", "hub": "hubs"}
        return [_ranks(one, self.top(MAX_ROWS, what), len(self.hubs)) for one, what in sides.items()]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write nodes, hubs and authorities, by descending authority.

        Parameters
        ----------
        path : str or path-like
            Ending in .tsv, .npz or .parquet, which sets the format.
        """
        order = ranked(self.authorities, len(self.authorities))
        columns = {
            "node": _labels_of(self.labels, order),
            "authority": self.authorities[order],
            "hub": self.hubs[order],
        }
        save_columns(path, columns, {"residual": self.residual, "status": self.status})


def _ranks(what: str, top: list[tuple[Any, float]], count: int) -> ShownTable:
    """Return the table of the first nodes of ``count``."""
    columns = {"rank": [*range(1, len(top) + 1)], what: [label for label, _ in top]}
    return ShownTable({**columns, "score": [score for _, score in top]}, count - len(top))


def _objects(values: Iterable[Any]) -> NDArray[Any]:
    """Return an array of integers or text, or of objects for other values."""
    found = [*values]
    return np.array(found) if {*map(type, found)} == {int} else NodeLabels(found).to_array()


def _labels_of(labels: NodeLabels, order: NDArray[np.intp]) -> NDArray[Any]:
    found = labels.to_array()[order]
    return np.array([str(label) for label in found]) if found.dtype == object else found


def save_columns(
    path: str | os.PathLike[str], columns: dict[str, NDArray[Any]], facts: dict[str, Any]
) -> None:
    """Write columns to a tsv, npz or parquet file; only npz keeps the facts."""
    name = os.fspath(path)
    suffix = os.path.splitext(name)[1]
    if suffix not in (".tsv", ".npz", ".parquet"):
        raise ParameterError(f"{name}: found the suffix {suffix!r}, expected .tsv, .npz or .parquet")
    with atomic_write(name) as file:
        if suffix == ".npz":
            arrays: dict[str, Any] = {**columns, **facts}
            np.savez(file, **arrays)
        elif suffix == ".parquet":
            import pyarrow
            from pyarrow import parquet

            parquet.write_table(pyarrow.table(columns), file)
        else:
            file.write(("\t".join(columns) + "\n").encode())
            rows = zip(*(column.tolist() for column in columns.values()), strict=True)
            file.writelines(("\t".join(map(_field, row)) + "\n").encode() for row in rows)


def _field(value: Any) -> str:
    return repr(value) if isinstance(value, float) else str(value).replace("\t", " ").replace("\n", " ")
