"""A cache per kind of processor: its measured rates, and the kernels that were chosen for matrices.

There is one small JSON file per kind of GPU or CPU and version of the package, in ``$XDG_CACHE_HOME/bmrm`` or
``~/.cache/bmrm``. It saves time and keeps results the same from run to run, but is optional: a file that is
missing, damaged or not writable is not an error, and its content is checked before use. Processes that add to
the file, such as the ranks of a job, take turns through a lock on a file next to it.
"""

from __future__ import annotations

import functools
import json
import math
import os
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, TypeAlias

from bmrm.base.atomic import atomic_write
from bmrm.base.caches import cache_folder, lock_file
from bmrm.base.threads import processor_name
from bmrm.base.version import __version__
from bmrm.io.regular import open_own_file
from bmrm.matrix._cpu import instruction_set

Plan: TypeAlias = dict[str, Any]
Plans: TypeAlias = tuple[Plan, Plan]

MAX_PLANS = 512
"""Maximum number of matrices whose kernels are remembered; the latest ones are kept."""

MAX_RECORD_BYTES = 1 << 20
"""Maximum size of a file; a larger one is not read."""

_RATES = {"launch", "copy", "read", "gather_shared", "gather_l2", "gather_memory", "fill_shared"}
_PARAMETERS = ("lanes", "cap", "tiles", "tile")

_picked: dict[str, dict[str, Plans]] = {}
"""Plans by device name and matrix that this process uses, even if the file could not be written."""


_known_times: dict[tuple[str, str], float] = {}
"""Times by device name and work that this process uses, even if the file could not be written."""

MIN_SECONDS = 1e-15
"""Least time of any work, as a clock may not have moved."""


class DeviceRecord(NamedTuple):
    """The content of the file of a kind of GPU."""

    constants: dict[str, float] | None  # result of `bmrm.matrix._cuda.measure`
    plans: dict[str, Plans]
    """For each matrix, the plans of its two products as in `bmrm.matrix._cuda.Matrix.report`; the latest
    matrix is last."""
    times: dict[str, float] = {}  # noqa: RUF012 (never changed)
    """Measured times of other work, in seconds, by its name."""


def read_record(device: str) -> DeviceRecord:
    """Read the file of a kind of GPU; leave out invalid parts."""
    try:
        with open_own_file(record_path(device)) as (file, _):
            text = file.read(MAX_RECORD_BYTES + 1)
        found = json.loads(text) if len(text) <= MAX_RECORD_BYTES else None
    except (OSError, ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        return DeviceRecord(None, {})
    constants, plans = found.get("constants"), found.get("plans")
    if not isinstance(plans, dict):
        plans = {}
    good = {key: (pair[0], pair[1]) for key, pair in plans.items() if _are_plans(pair)}
    times = found.get("times")
    if not isinstance(times, dict):
        times = {}
    known = {name: value for name, value in times.items() if _is_rate(value)}
    return DeviceRecord(constants if _are_constants(constants) else None, good, known)


def save_constants(device: str, constants: dict[str, float]) -> None:
    """Save the measured rates of a kind of GPU, if the file can be written."""
    with _lock_record(device):
        _write_record(device, read_record(device)._replace(constants=constants))


def save_time(device: str, name: str, seconds: float) -> None:
    """Save a measured time of some work, if the file can be written."""
    with _lock_record(device):
        record = read_record(device)
        _write_record(device, record._replace(times={**record.times, name: seconds}))


def known_time(device: str, name: str, measure: Callable[[], float]) -> float:
    """Return the time of some work that was saved; measure and save it if there is none."""
    found = stored_time(device, name)
    if found is None:
        _known_times[device, name] = found = max(MIN_SECONDS, measure())
        save_time(device, name, found)
    return found


def stored_time(device: str, name: str) -> float | None:
    """Return the time of some work that was saved; None if there is none."""
    key = device, name
    if key not in _known_times:
        found = read_record(device).times.get(name)
        if found is None:
            return None
        _known_times[key] = found
    return _known_times[key]


@functools.cache
def cpu_name() -> str:
    """Return the processor and its instruction set, by which its times are kept."""
    return f"{processor_name()} {instruction_set()}"


def find_plans(device: str, matrix: str) -> Plans | None:
    """Return the plans that were chosen for a matrix; None if they are unknown."""
    return _picked.get(device, {}).get(matrix) or read_record(device).plans.get(matrix)


def save_plans(device: str, matrix: str, plans: Plans, before: Plans | None = None) -> Plans:
    """Save the plans chosen for a matrix: in this process, and in the file if it can be written.

    Return the plans to use: those that another process has saved meanwhile, so that all use the same, else
    ``plans``. ``before`` is what `find_plans` returned, if that did not fit.
    """
    with _lock_record(device):
        record = read_record(device)
        saved = record.plans.get(matrix)
        used = plans if saved is None or saved == before else saved
        if used is plans:
            _write_record(device, record._replace(plans=_add_plans(record.plans, matrix, plans)))
    _picked[device] = _add_plans(_picked.get(device, {}), matrix, used)
    return used


def record_path(device: str) -> str:
    """Return the path of the file of a kind of GPU, which need not exist."""
    slug = re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-")
    return os.path.join(cache_folder(), f"{slug}-{__version__}.json")


def _add_plans(plans: dict[str, Plans], matrix: str, picked: Plans) -> dict[str, Plans]:
    """Return the plans with those of one more matrix, without the oldest if there are too many."""
    others = [(key, value) for key, value in plans.items() if key != matrix]
    return dict([*others, (matrix, picked)][-MAX_PLANS:])


def _are_constants(found: Any) -> bool:
    return isinstance(found, dict) and set(found) == _RATES and all(map(_is_rate, found.values()))


def _is_rate(value: Any) -> bool:
    return isinstance(value, float) and 0.0 < value < math.inf


def _are_plans(found: Any) -> bool:
    """Return whether these are two well-formed plans; whether they fit a matrix is checked in CUDA code."""
    return isinstance(found, list) and len(found) == 2 and all(map(is_plan, found))


def is_plan(found: Any) -> bool:
    """Return whether this is a well-formed plan."""
    return (
        isinstance(found, dict)
        and set(found) == {"kernel", *_PARAMETERS}
        and isinstance(found["kernel"], str)
        and all(type(found[name]) is int and 0 <= found[name] < 2**31 for name in _PARAMETERS)
    )


def _lock_record(device: str) -> AbstractContextManager[None]:
    """Keep other processes from changing the file during the block, if it can be written at all."""
    return lock_file(record_path(device) + ".lock")


def _write_record(device: str, record: DeviceRecord) -> None:
    name = record_path(device)
    try:
        os.makedirs(os.path.dirname(name), exist_ok=True)
        with atomic_write(name, follow=False) as file:
            file.write(json.dumps(record._asdict(), indent=1).encode())
    except OSError:
        return
