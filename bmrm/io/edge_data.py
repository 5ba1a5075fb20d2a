"""The edges that a text holds."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

NodeLabels = NDArray[np.int64] | NDArray[np.object_]


@dataclass
class Edges:
    """The edges of a graph, in the order of the text.

    Attributes
    ----------
    sources, targets : ndarray of int32, shape (edges,)
        Numbers of the nodes, from 0 to ``n_nodes - 1``.
    weights : ndarray of float64, shape (edges,), or None
        Finite numbers of any sign; None unless they were asked for, or the text says that it has them.
    labels : ndarray of int64 or of str (dtype object), shape (n_nodes,), or None
        The ids of the nodes: integers ascend, strings are in the order of their first appearance, the source
        of an edge before its target. None if node i has the id i.
    n_nodes : int
        Number of distinct ids.
    has_header : bool
        Whether the first line names the columns.
    directed : bool or None
        What the text says of itself; None if it does not say.
    unread : bool
        Whether a third column without a name has numbers that were not read.
    seconds : dict
        Seconds spent on ``"parse"``, which includes the numbering of the nodes, and on the ``"cache"``.
    from_cache : bool
        Whether the cache was read instead of the text.
    """

    sources: NDArray[np.int32]
    targets: NDArray[np.int32]
    weights: NDArray[np.float64] | None
    labels: NodeLabels | None
    n_nodes: int
    has_header: bool = False
    directed: bool | None = None
    unread: bool = False
    seconds: dict[str, float] = field(default_factory=dict)
    from_cache: bool = False

    @property
    def n_edges(self) -> int:
        """Number of edges; repeated ones and loops count."""
        return len(self.sources)
