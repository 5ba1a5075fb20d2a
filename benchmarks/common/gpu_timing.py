"""Times of work on a GPU: replays of a CUDA graph between two events, on more data than the cache holds; and
the least times of calls.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import cupy as cp

MOST_COPIES = 64

COPY = r"""
extern "C" __global__ void copy(const uint4* from, uint4* to, long long n) {
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
        uint4 v[4];
        for (int k = 0; k < 4; k++) v[k] = __ldcs(from + i + k * n);
        for (int k = 0; k < 4; k++) __stcs(to + i + k * n, v[k]);
    }
}
"""


class Clock:
    """Times calls that enqueue work on its stream, which becomes the current one."""

    def __init__(self, *, calls: int = 40, replays: int = 9) -> None:
        self.calls, self.replays = calls, replays
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.stream.use()

    def seconds(self, work: Sequence[Callable[[], object]]) -> float:
        """Return the median seconds of one call; the calls of `work` take turns within a graph."""
        rounds = -(-self.calls // len(work))
        for call in work:
            call()
        self.stream.synchronize()
        self.stream.begin_capture()
        try:
            for _ in range(rounds):
                for call in work:
                    call()
        finally:
            graph = self.stream.end_capture()
        start, end = cp.cuda.Event(), cp.cuda.Event()
        times = []
        for _ in range(self.replays + 1):
            start.record(self.stream)
            graph.launch(self.stream)
            end.record(self.stream)
            end.synchronize()
            times.append(cp.cuda.get_elapsed_time(start, end) / 1e3)
        return statistics.median(times[1:]) / (rounds * len(work))


def until_done(call: Callable[[], object]) -> float:
    """Return the time from a call to the end of its work on the GPU."""
    cp.cuda.runtime.deviceSynchronize()
    start = time.perf_counter()
    call()
    cp.cuda.runtime.deviceSynchronize()
    return time.perf_counter() - start


def between_events(call: Callable[[], object]) -> float:
    """Return the time between two events around a call."""
    start, end = cp.cuda.Event(), cp.cuda.Event()
    start.record()
    call()
    end.record()
    end.synchronize()
    return float(cp.cuda.get_elapsed_time(start, end)) / 1e3


def least_seconds(
    calls: dict[str, Callable[[], object]],
    rounds: tuple[int, int],
    seconds: float,
    *,
    timed: Callable[[Callable[[], object]], float] = until_done,
    warm_seconds: float = 0.0,
) -> dict[str, float]:
    """Return the least time of each call; they take turns.

    Parameters
    ----------
    calls : dict of str to callable
    rounds : (int, int)
        The least and the greatest number of rounds.
    seconds : float
        Time after which there are no more rounds than the least number.
    timed : callable
        Makes a call and returns its time.
    warm_seconds : float
        Time for which rounds do not count; the first one never does.
    """

    def turns() -> dict[str, float]:
        return {name: timed(call) for name, call in calls.items()}

    began = time.perf_counter()
    turns()
    while time.perf_counter() - began < warm_seconds:
        turns()
    began, least, count = time.perf_counter(), dict.fromkeys(calls, float("inf")), 0
    while count < rounds[0] or (count < rounds[1] and time.perf_counter() - began < seconds):
        least = {name: min(least[name], found) for name, found in turns().items()}
        count += 1
    return least


def properties() -> dict[str, Any]:
    """Return the properties of the current device."""
    return cp.cuda.runtime.getDeviceProperties(cp.cuda.Device().id)


def copies_beyond_cache(size: int) -> int:
    """Return how many copies of `size` bytes exceed twice the level-two cache."""
    return min(MOST_COPIES, 2 * properties()["l2CacheSize"] // max(size, 1) + 1)


def copy_bandwidth(clock: Clock, size: int = 2 << 30) -> float:
    """Return the bytes per second of a copy on the device, counting both reads and writes."""
    free = cp.cuda.runtime.memGetInfo()[0]
    size = min(size, free // 4)
    source = cp.arange(size // 4, dtype=cp.uint32) * cp.uint32(2654435761)
    target = cp.empty_like(source)
    # A kernel: in a graph, a memcpy may run on a copy engine, which is slower.
    copy = cp.RawKernel(COPY, "copy")
    blocks = properties()["multiProcessorCount"] * 16

    def copies() -> None:
        copy((blocks,), (256,), (source, target, source.nbytes // 64))

    return 2 * source.nbytes / clock.seconds([copies])


def device() -> dict[str, object]:
    """Return the device and the library versions that the numbers belong to."""
    known = properties()
    driver = cp.cuda.runtime.driverGetVersion()
    return {
        "name": known["name"].decode(),
        "compute_capability": f"{known['major']}.{known['minor']}",
        "multiprocessors": known["multiProcessorCount"],
        "memory_bytes": known["totalGlobalMem"],
        "l2_bytes": known["l2CacheSize"],
        "driver": f"{driver // 1000}.{driver % 1000 // 10}",
        "cupy": cp.__version__,
    }


def normal(size: int, dtype: str, seed: int) -> cp.ndarray:
    """Return normally distributed numbers, equal in float32 and float64 up to rounding."""
    return cp.random.default_rng(seed).standard_normal(size).astype(dtype)
