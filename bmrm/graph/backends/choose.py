"""Which backend holds a graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from bmrm.graph.backends.base import Pair, Transitions
from bmrm.graph.backends.gpu import GpuPair, GpuTransitions
from bmrm.graph.backends.host import HostPair, HostTransitions
from bmrm.graph.backends.peeled import PeeledTransitions
from bmrm.graph.graph import Graph
from bmrm.matrix.gpu.cpu_share import Share
from bmrm.matrix.gpu.devices import import_cuda
from bmrm.matrix.gpu.memory import MIN_RESIDENT_SHARE
from bmrm.matrix.gpu.placement import Placement, place, with_fall_back
from bmrm.matrix.gpu.work import MatrixWork

Host = TypeVar("Host")
Gpu = TypeVar("Gpu")


def transitions_of(
    graph: Graph,
    weighted: bool,
    device: str,
    walks: int = 1,
    limit: int | None = None,
    batch: int | None = None,
    share: Share = None,
) -> tuple[Transitions, Placement]:
    """Return the transition matrix of a graph on a device, which is built once, and where that is.

    ``walks`` will be computed, up to ``batch`` of them together; ``limit`` are the bytes of device memory
    that may be used, and ``share`` is the CPU's of what does not fit.
    """

    def on_gpu(number: int) -> tuple[GpuTransitions, str]:
        key = "transitions", weighted, number
        found: GpuTransitions = graph.resident(
            key, lambda: GpuTransitions(graph, weighted, number, limit, share), limit, share
        )
        columns = walks if walks < 2 else min(walks, batch or found.batch)
        there = found.resident(columns, min_resident=MIN_RESIDENT_SHARE if device == "auto" else 0.0)
        return found, there.split

    def on_host() -> HostTransitions:
        key = "transitions", weighted, "cpu"
        kind = HostTransitions if graph.core is None else PeeledTransitions
        found: HostTransitions = graph.resident(key, lambda: kind(graph, weighted))
        return found

    return _hold(graph, device, on_host, on_gpu)


def pair_of(
    graph: Graph, weighted: bool, device: str, limit: int | None = None, share: Share = None
) -> tuple[Pair, Placement]:
    """Return the adjacency matrix of a graph and its transpose, which are built once, and where they are."""

    def on_gpu(number: int) -> tuple[GpuPair, str]:
        key, least = ("pair", weighted, number), MIN_RESIDENT_SHARE if device == "auto" else 0.0
        found: GpuPair = graph.resident(
            key, lambda: GpuPair(graph, weighted, number, limit, least, share), limit, share
        )
        return found, found.split

    def on_host() -> HostPair:
        found: HostPair = graph.resident(("pair", weighted, "cpu"), lambda: HostPair(graph, weighted))
        return found

    return _hold(graph, device, on_host, on_gpu)


def _hold(
    graph: Graph, device: str, on_host: Callable[[], Host], on_gpu: Callable[[int], tuple[Gpu, str]]
) -> tuple[Host | Gpu, Placement]:
    """Return what is kept with a graph on the CPU or on a GPU, and where that is; see `place`.

    Of several processes each uses a GPU, its own if the machine has enough, or none does.
    """
    peers = graph.peers

    def checked(number: int) -> tuple[Gpu, str]:
        with peers.together():
            import_cuda().device_info(number)  # raises here, on all processes, if there is none
        return on_gpu(number)

    if graph.n_nodes and peers.everywhere:
        found = place(device, None, MatrixWork(graph.n_edges // peers.size), group=peers.group)
    else:
        found = Placement(None, "some process has no node")
    held, found = with_fall_back(found, on_host, checked)
    found.log()
    return held, found
