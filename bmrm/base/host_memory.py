"""Main memory: what this process may still take, and one line in place of a process that is killed for it.

Linux gives memory out freely and kills whoever uses it when there is none left. So what is known beforehand
to take much is held against what is free: of the machine, swap included, of the process's control groups
(containers, batch systems), and of its limit on address space.
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
from collections.abc import Iterator

from bmrm.errors import HostMemoryError

MIN_CHECKED_BYTES = 1 << 26
"""Bytes that are not worth looking."""


def available_bytes() -> int | None:
    """Return the bytes that this process may still take; None where nothing is known.

    Examples
    --------
    >>> available() > 0
    True
    """
    return min(_free_bytes(), default=None)


def require_memory(needed: int, what: str) -> None:
    """Raise where ``what`` takes more memory than there is.

    Parameters
    ----------
    needed : int
        Bytes, at least.
    what : str
        For the message.

    Raises
    ------
    HostMemoryError

    Examples
    --------
    >>> require(1 << 62, "the matrix")
    Traceback (most recent call last):
    bmrm.errors.HostMemoryError: out of memory: needs 4.612e+09 GB for the matrix, ... GB are free; ...
    """
    if needed < MIN_CHECKED_BYTES:
        return
    free = available_bytes()
    if free is not None and needed > free:
        raise HostMemoryError(
            f"out of memory: needs {needed / 1e9:.4g} GB for {what}, {max(free, 0) / 1e9:.4g} GB are free; "
            "bmrm-train --dry-run tells what data will take"
        )


def _free_bytes() -> Iterator[int]:
    meminfo = _read("/proc/meminfo")
    found = re.findall(r"^(?:MemAvailable|SwapFree): +(\d+) kB$", meminfo, re.MULTILINE)
    if "MemAvailable:" in meminfo:
        yield sum(map(int, found)) * 1024
    most, _ = resource.getrlimit(resource.RLIMIT_AS)
    if most != resource.RLIM_INFINITY and (pages := _read("/proc/self/statm").split()):
        yield most - int(pages[0]) * resource.getpagesize()
    for line in _read("/proc/self/cgroup").splitlines():
        _, kinds, path = line.split(":", 2)
        if not kinds:
            yield from _free_in_control_groups("/sys/fs/cgroup", path, "memory.max", "memory.current")
        elif "memory" in kinds.split(","):
            names = "memory.limit_in_bytes", "memory.usage_in_bytes"
            yield from _free_in_control_groups("/sys/fs/cgroup/memory", path, *names)


def _free_in_control_groups(root: str, path: str, most: str, used: str) -> Iterator[int]:
    """Yield what a control group leaves, and each of those that it is in."""
    folder = os.path.normpath(root + path)
    while folder.startswith(root):
        limit, usage = _read(f"{folder}/{most}").strip(), _read(f"{folder}/{used}").strip()
        if limit.isdecimal() and usage.isdecimal():
            # Pages of files are given up where memory is short.
            pages = _read(f"{folder}/memory.stat")
            cached = re.search(r"^(?:total_)?inactive_file (\d+)$", pages, re.MULTILINE)
            yield int(limit) - int(usage) + (int(cached[1]) if cached else 0)
        folder = os.path.dirname(folder)


def _read(path: str) -> str:
    with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
        return file.read()
    return ""
