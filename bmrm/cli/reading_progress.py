"""What the progress line shows while a file is read."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable

from bmrm.base.progress import ProgressStep
from bmrm.errors import DataError, escape_unprintable

_ALL_READ = 0.995
"""From this share on, which is shown as 100 %, a file counts as read: skipped headers are not counted."""


def reading_step(
    path: str, verb: Callable[[], str] = lambda: "reading", *, afterwards: str | None = None
) -> Callable[[], ProgressStep]:
    """Return a function that makes the progress line of reading a file, from now on.

    The share is that of the bytes parsed, or of the compressed bytes; pipes have no known length. Once all
    bytes are read, the line says what comes ``afterwards``, if given.
    """
    count, size = _count_and_size(path)
    before, name = count(), escape_unprintable(path)

    def step() -> ProgressStep:
        done = count() - before
        share = min(1.0, done / size) if size and done else None
        if afterwards is not None and share is not None and share > _ALL_READ:
            return ProgressStep((afterwards,))
        return ProgressStep((f"{verb()} {name}",), share)

    return step


def _count_and_size(path: str) -> tuple[Callable[[], int], int]:
    """Return a count of bytes that rises while a regular file is read, and its size; 0 for anything else."""
    from bmrm.io.formats import plain_bytes
    from bmrm.io.sources import open_source, unpacked_bytes

    with contextlib.suppress(OSError, DataError):
        if path != "-" and os.path.isfile(path):
            with open_source(path) as source:
                return unpacked_bytes if source.compressed else plain_bytes, source.size
    return plain_bytes, 0
