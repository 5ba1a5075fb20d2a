"""The kernels of paper.cu and our counts, on the same points of a GPU, with their times."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import cupy as cp
import numpy as np

from benchmarks.common import gpu_timing
from bmrm.matrix import _cuda
from bmrm.pairs.edges import read_bins

NAIVE, SHM_SHM, REGISTER_SHM, REGISTER_ROC, SHUFFLE = range(5)
COUNT, GLOBAL, PRIVATE = range(3)
ALL, WITHIN_BLOCKS = range(2)
REPEATS, LONG_SECONDS = (1, 100), 1.0
SHARED_BYTES = 227 << 10
PLAIN_ROWS, PLAIN_STRIPS = 1024, 16


def least_seconds(call: Callable[[], object]) -> float:
    """Return the least time of a call; a long one is made once after the first."""
    found = gpu_timing.least_seconds({"": call}, REPEATS, LONG_SECONDS, timed=gpu_timing.between_events)
    return found[""]


class Paper:
    """The kernels of paper.cu."""

    def __init__(self) -> None:
        two_body = [
            f"two_body<{source}, {output}, {balanced}>"
            for source in range(5)
            for output in range(3)
            for balanced in ("false", "true")
        ]
        self._module = cp.RawModule(
            code=Path(__file__).with_name("paper.cu").read_text(),
            options=("-std=c++17", "--use_fast_math"),
            name_expressions=(*two_body, "plain<0>", "plain<2>", "add_copies"),
        )
        self._add = self._function("add_copies")

    def two_body(
        self,
        x: cp.ndarray,
        scale: float,
        bins: int,
        *,
        source: int,
        output: int,
        balanced: bool = False,
        part: int = ALL,
        threads: int = 1024,
    ) -> Callable[[], cp.ndarray]:
        """Return a call of a kernel of the paper on points by axes, shape (3, n), float32."""
        n = x.shape[1]
        blocks, out = -(-n // threads), cp.zeros(bins, cp.uint64)
        copies = cp.empty((blocks, bins) if output == PRIVATE else 1, cp.uint32)
        kernel = self._function(f"two_body<{source}, {output}, {'true' if balanced else 'false'}>")
        shared = 4 * (bins if output == PRIVATE else 0) + 24 * threads * (source in (SHM_SHM, REGISTER_SHM))
        if shared > 48 << 10:
            kernel.max_dynamic_shared_size_bytes = shared
        words = (*x, np.int32(n), np.float32(scale), np.int32(bins), np.int32(part), out, copies)

        def run() -> cp.ndarray:
            if output != PRIVATE:
                out[...] = 0
            kernel((blocks,), (threads,), words, shared_mem=shared)
            if output == PRIVATE:
                self._add((-(-bins // 256),), (256,), (copies, np.int32(blocks), np.int32(bins), out))
            return out

        return run

    def plain(self, x: cp.ndarray, scale: float, bins: int, *, output: int) -> Callable[[], cp.ndarray]:
        """Return a call of the plain kernel over all n x n pairs of points, shape (n, 4), float32."""
        n, out = len(x), cp.zeros(bins, cp.uint64)
        kernel = self._function(f"plain<{output}>")
        shared = 4 * bins if output == PRIVATE else 0
        if shared > 44 << 10:
            kernel.max_dynamic_shared_size_bytes = shared
        words = (x, np.int32(n), np.float32(scale), np.int32(bins), out)

        def run() -> cp.ndarray:
            out[...] = 0
            kernel((-(-n // PLAIN_ROWS), PLAIN_STRIPS), (256,), words, shared_mem=shared)
            return out

        return run

    def blocks_at_once(self, source: int, output: int, threads: int, shared: int) -> int:
        """Return how many blocks a multiprocessor holds."""
        kernel = self._function(f"two_body<{source}, {output}, false>")
        if shared > 48 << 10:
            kernel.max_dynamic_shared_size_bytes = shared
        found = cp.cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor(kernel.kernel.ptr, threads, shared)
        return int(found)

    def _function(self, name: str) -> Any:
        return self._module.get_function(name)


class Ours:
    """Counts of `bmrm.pairs` on placed points; a call waits for its counts."""

    def __init__(self, x: np.ndarray, box: np.ndarray | None = None) -> None:
        """Place points of shape (d, n), float64."""
        self.points = _cuda.PlacedPoints(x, np.zeros(len(x)) if box is None else box)

    def counter(self, edges: Any, kernel: str) -> _cuda.PairCounter:
        """Return a counter for the edges."""
        return _cuda.PairCounter(self.points, None, read_bins(edges, "last").bounds, kernel)

    def call(self, edges: Any, kernel: str) -> Callable[[], Any]:
        """Return a call that counts all pairs."""
        counter = self.counter(edges, kernel)
        tasks = counter.tasks
        return lambda: counter.count(0, tasks)


def uniform(n: int, seed: int = 0) -> tuple[np.ndarray, cp.ndarray]:
    """Return points of the unit cube by axes: float64 on the host, float32 on the GPU."""
    x = np.random.default_rng(seed).random((3, n))
    return x, cp.asarray(x.astype(np.float32))


def by_points(x: cp.ndarray) -> cp.ndarray:
    """Return points as rows of four numbers."""
    out = cp.zeros((x.shape[1], 4), cp.float32)
    out[:, :3] = x.T
    return out
