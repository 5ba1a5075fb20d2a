"""Processor times of calls."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def least_seconds(calls: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Return the least processor time of each call; they take turns."""
    found = dict.fromkeys(calls, float("inf"))
    for _ in range(repeats):
        for who, call in calls.items():
            start = time.process_time()
            call()
            found[who] = min(found[who], time.process_time() - start)
    return found
