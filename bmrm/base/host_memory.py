"""Free main memory, and an error instead of a process that is killed because memory runs out.

Linux promises memory freely and kills a process that uses it when none is left. So large allocations are
checked beforehand against what is free: on the machine, including swap; in the control groups of the process
(containers, batch systems); and within its limit on address space.
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
from collections.abc import Iterator

from bmrm.errors import HostMemoryError

MIN_CHECKED_BYTES = 1 << 26
"""Smaller allocations are not checked: 64 MiB seldom matter, and a check reads several files."""


def available_bytes() -> int | None:
    """Return the number of bytes that this process may still allocate; None if that is unknown.

    Examples
    --------
    >>> available_bytes() > 0
    True
    """
    return min(_free_bytes(), default=None)


def require_memory(needed: int, what: str, advice: str = "") -> None:
    """Raise `HostMemoryError` if ``what`` needs more bytes than are free; ``needed`` are those at least.

    The message ends with the advice. A command that can predict its memory adds its own.

    Examples
    --------
    >>> require_memory(1 << 62, "the matrix")
    Traceback (most recent call last):
    bmrm.errors.HostMemoryError: out of memory: needs 4.612e+09 GB for the matrix, ... GB are free
    """
    if needed < MIN_CHECKED_BYTES:
        return
    free = available_bytes()
    if free is not None and needed > free:
        raise HostMemoryError(
            f"out of memory: needs {needed / 1e9:.4g} GB for {what}, {max(free, 0) / 1e9:.4g} GB are free"
            + (f"; {advice}" if advice else "")
        )


def _free_bytes() -> Iterator[int]:
    meminfo = _read("/proc/meminfo")
    found = re.findall(r"^(?:MemAvailable|SwapFree): +(\d+) kB$", meminfo, re.MULTILINE)
    if "MemAvailable:" in meminfo:
        yield sum(map(int, found)) * 1024
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and (pages := _read("/proc/self/statm").split()):
        yield limit - int(pages[0]) * resource.getpagesize()
    for line in _read("/proc/self/cgroup").splitlines():
        _, kinds, path = line.split(":", 2)
        if not kinds:
            yield from _free_in_control_groups("/sys/fs/cgroup", path, "memory.max", "memory.current")
        elif "memory" in kinds.split(","):
            names = "memory.limit_in_bytes", "memory.usage_in_bytes"
            yield from _free_in_control_groups("/sys/fs/cgroup/memory", path, *names)


def _free_in_control_groups(root: str, path: str, limit_file: str, usage_file: str) -> Iterator[int]:
    """Yield the free bytes of a control group and of each group above it."""
    folder = os.path.normpath(root + path)
    while folder.startswith(root):
        limit, usage = _read(f"{folder}/{limit_file}").strip(), _read(f"{folder}/{usage_file}").strip()
        if limit.isdecimal() and usage.isdecimal():
            # The kernel frees cached pages of files when memory is short.
            pages = _read(f"{folder}/memory.stat")
            cached = re.search(r"^(?:total_)?inactive_file (\d+)$", pages, re.MULTILINE)
            yield int(limit) - int(usage) + (int(cached[1]) if cached else 0)
        folder = os.path.dirname(folder)


def _read(path: str) -> str:
    with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
        return file.read()
    return ""
