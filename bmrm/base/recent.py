"""What was made for a key, kept as long as it is among those used last."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

V = TypeVar("V")


class _Kept(Generic[V]):
    """A value, and when it was used last."""

    __slots__ = ("used", "value")

    def __init__(self, value: V, used: int) -> None:
        self.value, self.used = value, used


class Recent(Generic[V]):
    """The values of the keys that were used last; threads may share it.

    Parameters
    ----------
    limit : int
        Maximum number of values; that of the key used longest ago goes first.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._values: dict[Hashable, _Kept[V]] = {}
        self._clock = itertools.count()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: Hashable, make: Callable[[], V]) -> V:
        """Return the value of a key; make it if it is not there: two threads may do so at once."""
        kept = self._values.get(key)  # looked up once, without the lock: most calls of a function come here
        if kept is None:
            kept = _Kept(make(), next(self._clock))
            with self._lock:
                self._values[key] = kept
                while len(self._values) > self._limit:
                    del self._values[min(self._values, key=lambda other: self._values[other].used)]
        kept.used = next(self._clock)
        return kept.value
