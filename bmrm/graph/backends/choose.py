"""Which backend holds a graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from bmrm.base.notices import warn
from bmrm.errors import DeviceMemoryError
from bmrm.graph.backends.base import Pair, Transitions
from bmrm.graph.backends.gpu import GpuPair, GpuTransitions
from bmrm.graph.backends.host import HostPair, HostTransitions
from bmrm.graph.backends.peeled import PeeledTransitions
from bmrm.graph.graph import Graph
from bmrm.graph.peers import total_of
from bmrm.matrix.gpu.devices import import_cuda, parse_device
from bmrm.matrix.gpu.memory import MIN_RESIDENT_SHARE
from bmrm.matrix.resident import device_number, wants_gpu

Host = TypeVar("Host")
Gpu = TypeVar("Gpu")


def transitions_of(graph: Graph, weighted: bool, device: str, columns: int = 1) -> Transitions:
    """Return the transition matrix of a graph on a device, which is built once.

    ``columns`` is the number of walks that will be computed together.
    """

    def on_gpu(number: int) -> GpuTransitions:
        key = "transitions", weighted, number
        found: GpuTransitions = graph.resident(key, lambda: GpuTransitions(graph, weighted, number))
        found.resident(columns, min_resident=MIN_RESIDENT_SHARE if device == "auto" else 0.0)
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
        key, least = ("pair", weighted, number), MIN_RESIDENT_SHARE if device == "auto" else 0.0
        found: GpuPair = graph.resident(key, lambda: GpuPair(graph, weighted, number, min_resident=least))
        return found

    def on_host() -> HostPair:
        found: HostPair = graph.resident(("pair", weighted, "cpu"), lambda: HostPair(graph, weighted))
        return found

    return _hold(graph, device, on_host, on_gpu)


def _hold(graph: Graph, device: str, on_host: Callable[[], Host], on_gpu: Callable[[int], Gpu]) -> Host | Gpu:
    """Return what is kept with a graph on the CPU or on a GPU; "auto" decides as `bmrm.solve` does.

    Of several processes each uses a GPU, its own if the machine has enough, or none does.
    """
    peers = graph.peers
    if not (graph.n_nodes and peers.everywhere):
        return on_host()
    with peers.together():
        number = _gpu_for(graph, device)
    if total_of(peers, float(number is not None)) == peers.size:
        assert number is not None
        try:
            return on_gpu(number)
        except DeviceMemoryError as error:
            if device != "auto":
                raise
            warn(f"device='auto': {error}; using the CPU")
    return on_host()


def _gpu_for(graph: Graph, device: str) -> int | None:
    """Return the number of the GPU that this process should use, None for the CPU."""
    peers = graph.peers
    if not wants_gpu(device, graph.n_edges // peers.size):
        return None
    if peers.size == 1:
        return device_number(device)
    cuda = import_cuda()
    number = parse_device(device)
    if number is None:
        number = peers.number % max(1, cuda.device_count())
    cuda.device_info(number)  # raises here, on all processes, if there is none
    return number
