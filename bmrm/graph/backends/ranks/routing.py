"""Edges and labels on their way between ranks: one numbering of all nodes, and each edge at its owner.

A rank sends edges in the order of its part, and receives those of the ranks in their order. So the edges that
end in one node come to its owner in the order of all parts, as in a graph of one process: the first of
several equal edges is the same, and weights are added in the same order.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bmrm.base.distinct import distinct_values
from bmrm.base.vectors import Indices, Vector
from bmrm.distributed.group import Group
from bmrm.graph.edge_list import EdgeList
from bmrm.graph.labels import NodeLabels, narrow


class Routed(NamedTuple):
    """Edges whose ``near`` ends belong to this rank."""

    near: NDArray[np.int32]
    far: NDArray[np.int32]
    weight: Vector | None


def send_edges(
    group: Group, bounds: Indices, near: NDArray[Any], far: NDArray[Any], weight: Vector | None
) -> Routed:
    """Send each edge to the rank that owns its near end, a place in memory."""
    owner = np.searchsorted(bounds[1:], near, "right").astype(np.uint16)
    order = np.argsort(owner, kind="stable")
    counts = np.bincount(owner, minlength=group.size).tolist()
    parts = [group.exchanged(part[order].astype(np.int32, copy=False), counts) for part in (near, far)]
    return Routed(parts[0], parts[1], None if weight is None else group.exchanged(weight[order], counts))


def number_together(group: Group, edges: EdgeList) -> EdgeList:
    """Give the nodes of all ranks numbers, in the order that a graph of one process has.

    Integer labels ascend; others have the order of their first appearance, rank after rank.
    """
    values = edges.labels.values
    empty = len(values) == 0
    kinds = {kind for kind in group.everyones(None if empty else type(values)) if kind is not None}
    if kinds <= {range}:
        return _numbered(edges, None, NodeLabels(range(max(group.everyones(len(values))))))
    if list not in kinds:
        mine = np.zeros(0, np.int64) if empty else np.asarray(values, np.int64)
        ids = distinct_values(np.concatenate(group.everyones(mine)))
        labels: range | NDArray[Any] = ids
        if ids[0] == 0 and ids[-1] == len(ids) - 1:
            labels = range(len(ids))
        return _numbered(edges, np.searchsorted(ids, mine), NodeLabels(labels))
    known: dict[Any, int] = {}
    for theirs in group.everyones(edges.labels.to_list()):
        for label in theirs:
            known.setdefault(label, len(known))
    numbers = np.array([known[label] for label in edges.labels.to_list()], np.int64)
    return _numbered(edges, numbers, NodeLabels(list(known)))


def _numbered(edges: EdgeList, numbers: NDArray[Any] | None, labels: NodeLabels) -> EdgeList:
    """Return edges between nodes with other numbers; None leaves the numbers."""
    ends = edges.source, edges.target
    if numbers is None:
        narrow(np.zeros(0), len(labels))
    else:
        short = narrow(numbers, len(labels))
        ends = short[edges.source], short[edges.target]
    return replace(edges, source=ends[0], target=ends[1], labels=labels)
