"""The number of threads: its limit, what the environment asks for, and the cores that the process may use."""

from __future__ import annotations

import contextlib
import functools
import math
import os
import platform
import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

CGROUPS = Path("/sys/fs/cgroup")
"""Where the kernel shows the limits of control groups, by which containers limit their processors."""

OWN_GROUPS = Path("/proc/self/cgroup")
"""Where the kernel lists the control groups that the process is in."""

MAX_THREADS = 4096
"""Maximum number of threads of a matrix product (``src_cython``)."""


def requested_threads(environ: Mapping[str, str]) -> int | None:
    """Return the number in ``OMP_NUM_THREADS``, the first of a list; None if it is missing or out of range.

    Examples
    --------
    >>> [requested_threads({"OMP_NUM_THREADS": text}) for text in ("3", "2,1", "", "0", "5000", "²")]
    [3, 2, None, None, None, None]
    """
    found = re.fullmatch(r"\s*([0-9]{1,4})\s*(,.*)?", environ.get("OMP_NUM_THREADS", ""))
    count = int(found[1]) if found else 0
    return count if 1 <= count <= MAX_THREADS else None


def usable_cores() -> int:
    """Return the number of cores that the process may use: by its affinity and by the quota of its container.

    A container with a quota sees all cores of its host. With a thread on each of them it would use up its
    share early in each period and then wait. So a quota counts as that number of cores, rounded up. It is
    read once.

    References
    ----------
    The Linux kernel's documentation of cgroup v2 (``cpu.max``) and v1 (``cpu.cfs_quota_us``).

    Examples
    --------
    >>> usable_cores() >= 1
    True
    """
    cores = len(os.sched_getaffinity(0))
    quota = _cpu_quota(CGROUPS, OWN_GROUPS)
    return cores if quota is None else max(1, min(cores, math.ceil(quota)))


def preferred_threads() -> int:
    """Return the default number of threads of a loop: ``OMP_NUM_THREADS``, or the usable cores.

    Examples
    --------
    >>> preferred_threads() >= 1
    True
    """
    return requested_threads(os.environ) or usable_cores()


@functools.cache  # small loops ask often
def _cpu_quota(top: Path, own: Path) -> float | None:
    """Return the least quota of the control groups of the process, in cores; None if there is none."""
    quotas = (_quota_of(folder) for folder in _groups(top, own))
    return min((quota for quota in quotas if quota is not None), default=None)


def _groups(top: Path, own: Path) -> Iterator[Path]:
    """Yield the folders of the control groups that limit the processors: the process's own, and those above.

    In a container, the folder at the top is often that of its own group.
    """
    try:
        lines = own.read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    for line in lines:
        _, controllers, name = f"{line}::".split(":", 2)  # of version 2: no controllers
        path = PurePosixPath(name.removesuffix("::").lstrip("/"))
        if (not controllers or "cpu" in controllers.split(",")) and ".." not in path.parts:
            for group in (path, *path.parents)[:-1]:
                yield top / ("cpu" if controllers else "") / group
    yield from (top, top / "cpu")


def _quota_of(group: Path) -> float | None:
    """Return the quota of one control group in cores; None if there is no quota."""
    try:
        words = (group / "cpu.max").read_text().split()
    except OSError:
        try:
            words = [(group / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period")]
        except OSError:
            return None
    try:
        quota, period = (int(word) for word in words)
    except ValueError:  # "max 100000", or a file of another kind
        return None
    return quota / period if quota > 0 and period > 0 else None


def processor_name() -> str:
    """Return the model name of the processor, or the name of its architecture if there is none."""
    found = None
    with contextlib.suppress(OSError):
        text = Path("/proc/cpuinfo").read_text()
        found = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return found[1].strip() if found else platform.machine()
