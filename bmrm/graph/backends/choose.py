"""Which backend holds a graph."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import TypeVar

from bmrm.errors import DeviceMemoryError, ParameterError
from bmrm.graph.backends.base import Pair, Transitions
from bmrm.graph.backends.gpu import GpuPair, GpuTransitions
from bmrm.graph.backends.host import HostPair, HostTransitions
from bmrm.graph.backends.peeled import PeeledTransitions
from bmrm.graph.graph import Graph
from bmrm.matrix.resident import DEVICES, device_number, wants_gpu

Host = TypeVar("Host")
Gpu = TypeVar("Gpu")


def transitions_of(graph: Graph, weighted: bool, device: str, columns: int = 1) -> Transitions:
    """Return the transition matrix of a graph on a device, which is built once.

    ``columns`` is the number of walks that will be computed together.
    """

    def on_gpu(number: int) -> GpuTransitions:
        key = "transitions", weighted, number
        found: GpuTransitions = graph.resident(key, lambda: GpuTransitions(graph, weighted, number))
        found.resident(columns)
        return found

    def on_host() -> HostTransitions:
        key = "transitions", weighted, "cpu"
        kind = HostTransitions if graph.core is None else PeeledTransitions
        found: HostTransitions = graph.resident(key, lambda: kind(graph, weighted))
        return found

    return _hold(graph, device, on_host, on_gpu)


def pair_of(graph: Graph, weighted: bool, device: str) -> Pair:
    """Return the adjacency matrix of a graph and its transpose on a device, which are built once."""

    def on_gpu(number: int) -> GpuPair:
        found: GpuPair = graph.resident(("pair", weighted, number), lambda: GpuPair(graph, weighted, number))
        return found

    def on_host() -> HostPair:
        found: HostPair = graph.resident(("pair", weighted, "cpu"), lambda: HostPair(graph, weighted))
        return found

    return _hold(graph, device, on_host, on_gpu)


def check_device(device: str, graph: Graph) -> None:
    """Raise `ParameterError` unless it names a device that the graph may use."""
    if device not in DEVICES and not re.fullmatch(r"cuda:\d+", str(device)):
        raise ParameterError(f"device: found {device!r}, expected one of {', '.join(DEVICES)}, cuda:N")
    if graph.peers.size > 1 and device not in ("auto", "cpu"):
        raise ParameterError(f"device: found {device!r}, expected auto or cpu for a graph on several ranks")


def _hold(graph: Graph, device: str, on_host: Callable[[], Host], on_gpu: Callable[[int], Gpu]) -> Host | Gpu:
    """Return what is kept with a graph on the CPU or on a GPU; "auto" decides as `bmrm.solve` does."""
    if graph.n_nodes and graph.peers.size == 1 and wants_gpu(device, graph.n_edges):
        try:
            return on_gpu(device_number(device))
        except DeviceMemoryError as error:
            if device != "auto":
                raise
            warnings.warn(f"device='auto': {error}; using the CPU", stacklevel=4)
    return on_host()
