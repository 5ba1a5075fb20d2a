"""Edges on a GPU: listed there, as `bmrm.graph.edge_list` has them in main memory, and as rows by target.

Edges in main memory are uploaded with their ids as they are, and get their numbers on the GPU too: what a
core does for each edge takes longer than the bus. Host and device have the same numbers, order and rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bmrm.base.arguments import is_on_device
from bmrm.base.vectors import Indices, Vector
from bmrm.errors import DataError
from bmrm.graph.edge_list import (
    EdgeList,
    HostEdgeRows,
    infinite_sum,
    sample_step,
    wrong_weight,
)
from bmrm.graph.edges import IdList
from bmrm.graph.labels import NodeLabels
from bmrm.io.edges import integer_vector
from bmrm.matrix.gpu.devices import import_cuda
from bmrm.matrix.gpu.memory import too_little, usable_bytes
from bmrm.matrix.gpu.placement import Placement, gpu_that_has, place
from bmrm.matrix.gpu.work import MatrixWork

if TYPE_CHECKING:
    from bmrm.matrix import _cuda


def place_edges(listed: EdgeList | IdList, device: str) -> Placement:
    """Decide where a graph is built: on the GPU that has its edges, if one has."""
    parts = {"sources": listed.source, "targets": listed.target, "weights": listed.weight}
    there = {what: gpu_that_has(part) for what, part in parts.items() if part is not None}
    if len(set(there.values())) > 1:
        text = " and ".join(
            f"{what} {'in main memory' if gpu is None else f'on GPU {gpu}'}" for what, gpu in there.items()
        )
        raise DataError(f"edges: found {text}, expected all in one memory")
    if not len(listed):
        return Placement(None, "there are no edges")
    return place(device, there["sources"], MatrixWork(len(listed)))


class DeviceEdges:
    """Listed edges on a GPU.

    Parameters
    ----------
    listed : EdgeList or IdList
        At least one edge.
    gpu : int
        That has them, if they are not in main memory.
    limit : int, optional
        Bytes of device memory that may be used; default: what is free.
    threads : int, optional
        For the upload.
    factor : int, default 1
        Times that each edge will be listed.

    Raises
    ------
    DeviceMemoryError
        If there is too little memory.
    """

    def __init__(
        self, listed: EdgeList | IdList, gpu: int, limit: int | None, threads: int | None, factor: int = 1
    ) -> None:
        cuda, total = import_cuda(), usable_bytes(gpu, limit)
        self.directed, self.both_ways, self.notes = listed.directed, listed.both_ways, listed.notes
        ends = [_ids(what, end) for what, end in (("source", listed.source), ("target", listed.target))]
        uploaded = 0 if is_on_device(ends[0]) else sum(end.itemsize for end in ends)
        nodes = 0 if listed.labels is None else len(listed.labels)
        needed = cuda.predict_edges_bytes(factor * len(listed), uploaded, listed.weighted, nodes)
        if needed > total:
            raise too_little(total, f"building a graph takes {needed / 1e6:.4g} MB")
        self._weight = listed.weight
        self._edges: _cuda.Edges = cuda.Edges(
            *ends, listed.weight, device=gpu, memory_limit=total, threads=threads
        )
        self._number(listed, threads)

    def _number(self, listed: EdgeList | IdList, threads: int | None) -> None:
        names, found = listed.labels, self._edges
        if names is None:
            found.number()
            names = NodeLabels(found.labels() if found.named else range(found.n_nodes))
        else:
            if found.low < 0 or found.high >= len(names):
                listed.numbered(threads)  # raises
            found.number(len(names))
        self.labels = names

    def __len__(self) -> int:
        return self._edges.n_edges

    @property
    def weighted(self) -> bool:
        return self._weight is not None

    def check_weights(self) -> None:
        weight, edge = self._weight, self._edges.wrong_weight
        if weight is None:
            return
        if edge >= 0:
            source, target = self._edges.at(edge)
            ends = self.labels[source], self.labels[target]
            raise wrong_weight(edge, ends, np.asarray(weight[edge : edge + 1], np.float64)[0])
        with np.errstate(over="ignore"):
            if np.isfinite(np.float64(self._edges.largest_weight) * len(self)):
                return
            if not np.isfinite(np.asarray(weight[: len(weight)], np.float64).sum()):
                raise infinite_sum()

    def count_directions(self) -> tuple[int, int]:
        return self._edges.count_directions()

    def in_both_directions(self) -> DeviceEdges:
        self._edges.list_both_ways()
        self.directed, self.both_ways = False, True
        return self

    def count_near(self, near: int, reached: int) -> tuple[int, int, int]:
        step = sample_step(len(self))
        return *self._edges.count_distances(step, near, reached), -(-len(self) // step)

    def degrees(self, threads: int) -> DeviceDegrees:
        return DeviceDegrees(self._edges)

    def sort(
        self, places: Any, duplicates: str, threads: int, *, drop_loops: bool, again: bool = False
    ) -> DeviceEdgeRows:
        self._edges.sort(duplicates, drop_loops, again)  # it has the places
        return DeviceEdgeRows(self._edges)


def _ids(what: str, given: Any) -> Any:
    """Return ids of int32 or int64, as the device takes them."""
    return given if is_on_device(given) else integer_vector(what, given)


class DeviceDegrees:
    """Degrees on a GPU."""

    def __init__(self, edges: _cuda.Edges) -> None:
        self._edges = edges
        self.into_last, self.out_of_first, self.n_last, self.n_first = edges.count_degrees()

    def order(self, *, by_degree: bool, peeled: bool) -> tuple[NDArray[Any], NDArray[Any]]:
        return self._edges.order_nodes(by_degree, peeled)


class DeviceEdgeRows:
    """Edges by target on a GPU. Row pointers are in main memory too; the rest once something there reads it.

    Parameters
    ----------
    edges : _cuda.Edges
        After `sort`.
    """

    def __init__(self, edges: _cuda.Edges) -> None:
        self._edges = edges
        self.starts, self._near_sources, self._near_weights = edges.rows()
        self.weighted, self.gpu = edges.weighted, edges.device
        self._host: HostEdgeRows | None = None

    def on_host(self) -> HostEdgeRows:
        if self._host is None:
            weights = None if self._near_weights is None else self._near_weights[:]
            self._host = HostEdgeRows(self.starts, self._near_sources[:], weights)
        return self._host

    @property
    def sources(self) -> NDArray[np.int32]:
        return self.on_host().sources

    @property
    def weights(self) -> Vector | None:
        return self.on_host().weights

    def sources_near(self, gpu: int) -> Any:
        return self._near_sources if gpu == self.gpu else self.sources

    @property
    def weight_bound(self) -> float:
        return float(self._edges.strengths().max(initial=0.0))

    def weights_near(self, gpu: int) -> Any:
        return self._near_weights if gpu == self.gpu else self.weights

    def shares_near(self, gpu: int) -> Shares | None:
        return Shares(self._edges) if gpu == self.gpu else None

    def count_reversed(self, step: int) -> tuple[int, int]:
        return self._edges.count_reversed(step)

    def count_sources(self, n: int, threads: int) -> Indices:
        return self._edges.count_sources()

    def strengths(self, n: int) -> Vector:
        return self._edges.strengths()


class Shares:
    """Weights over the sums of their sources, which are made on a GPU in the type that is asked for."""

    def __init__(self, edges: _cuda.Edges) -> None:
        self._edges = edges

    def of_type(self, dtype: DTypeLike) -> Any:
        """Return the shares on the GPU, until those of another type are asked for, or they are forgotten."""
        return self._edges.shares(dtype)

    def forget(self) -> None:
        """Free them."""
        self._edges.forget()
