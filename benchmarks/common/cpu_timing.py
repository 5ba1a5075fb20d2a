"""Times of calls on a CPU."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def least_seconds(
    calls: dict[str, Callable[[], Any]], repeats: int, clock: Callable[[], float] = time.process_time
) -> dict[str, float]:
    """Return the least time of each call, by default of the processor; they take turns."""
    found = dict.fromkeys(calls, float("inf"))
    for _ in range(repeats):
        for who, call in calls.items():
            start = clock()
            call()
            found[who] = min(found[who], clock() - start)
    return found
