"""What is remembered of each kind of GPU: its measured rates, and the kernels that were picked for matrices.

One small JSON file for each kind of GPU and version of the package, in ``$XDG_CACHE_HOME/bmrm`` or
``~/.cache/bmrm``. It saves time and keeps results the same from run to run, but nothing needs it: a file that
is missing, broken or cannot be written is no error, and what it holds is checked before it is used.
Processes that add to it take turns, by a lock on a file beside it: the ranks of a job do so at the same time.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import re
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

from bmrm._version import __version__
from bmrm.base.atomic import atomic_write
from bmrm.io.regular import open_own_file

Plan: TypeAlias = dict[str, Any]
Plans: TypeAlias = tuple[Plan, Plan]

MAX_PLANS = 512
"""Matrices whose kernels are remembered, the latest."""

MAX_RECORD_BYTES = 1 << 20
"""Size of a file beyond which it is not read."""

_RATES = {"launch", "copy", "read", "gather_shared", "gather_l2", "gather_memory", "fill_shared"}
_PARAMETERS = ("lanes", "cap", "tiles", "tile")

_picked: dict[str, dict[str, Plans]] = {}
"""Plans by name of the device and by matrix: what this process picked, whether the file keeps it or not."""


class DeviceRecord(NamedTuple):
    """What is known of a kind of GPU.

    Attributes
    ----------
    constants : dict or None
        As `bmrm.matrix._cuda.measure` gives them.
    plans : dict
        Matrix to the plans of its two products, each as `bmrm.matrix._cuda.Matrix.report` gives it; the
        latest last.
    """

    constants: dict[str, float] | None
    plans: dict[str, Plans]


def read_record(device: str) -> DeviceRecord:
    """Return what the file of a kind of GPU holds, without what is not as it should be."""
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
    return DeviceRecord(constants if _are_constants(constants) else None, good)


def save_constants(device: str, constants: dict[str, float]) -> None:
    """Remember what was measured of a kind of GPU, where that is possible."""
    with _lock_record(device):
        _write_record(device, read_record(device)._replace(constants=constants))


def find_plans(device: str, matrix: str) -> Plans | None:
    """Return the plans that were picked for a matrix, None where that is not known."""
    return _picked.get(device, {}).get(matrix) or read_record(device).plans.get(matrix)


def save_plans(device: str, matrix: str, plans: Plans, before: Plans | None = None) -> Plans:
    """Remember the plans picked for a matrix: in this process, and in the file where that is possible.

    Parameters
    ----------
    device, matrix : str
    plans : Plans
    before : Plans, optional
        What `plans_of` knew, and did not suit.

    Returns
    -------
    Plans
        Those to use: what another process has kept meanwhile, so that all have the same, else ``plans``.
    """
    with _lock_record(device):
        known = read_record(device)
        there = known.plans.get(matrix)
        kept = plans if there is None or there == before else there
        if kept is plans:
            _write_record(device, known._replace(plans=_add_plans(known.plans, matrix, plans)))
    _picked[device] = _add_plans(_picked.get(device, {}), matrix, kept)
    return kept


def record_path(device: str) -> str:
    """Return the file of a kind of GPU, whether it is there or not."""
    folder = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    slug = re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-")
    return os.path.join(folder, "bmrm", f"{slug}-{__version__}.json")


def _add_plans(plans: dict[str, Plans], matrix: str, picked: Plans) -> dict[str, Plans]:
    """Plans with those of one more matrix, without the oldest where they are too many."""
    others = [(key, value) for key, value in plans.items() if key != matrix]
    return dict([*others, (matrix, picked)][-MAX_PLANS:])


def _are_constants(found: Any) -> bool:
    """Whether these are all the constants, positive and finite."""
    return (
        isinstance(found, dict)
        and set(found) == _RATES
        and all(isinstance(value, float) and 0.0 < value < math.inf for value in found.values())
    )


def _are_plans(found: Any) -> bool:
    """Whether these are two plans; whether they suit a matrix is for the backend to say."""
    return isinstance(found, list) and len(found) == 2 and all(map(_is_plan, found))


def _is_plan(found: Any) -> bool:
    return (
        isinstance(found, dict)
        and set(found) == {"kernel", *_PARAMETERS}
        and isinstance(found["kernel"], str)
        and all(type(found[name]) is int and 0 <= found[name] < 2**31 for name in _PARAMETERS)
    )


@contextlib.contextmanager
def _lock_record(device: str) -> Iterator[None]:
    """Keep other processes from adding to the file meanwhile, where it can be written at all."""
    name = record_path(device) + ".lock"
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError):
            os.makedirs(os.path.dirname(name), exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            fcntl.flock(held.enter_context(os.fdopen(os.open(name, flags, 0o666), "wb")), fcntl.LOCK_EX)
        yield


def _write_record(device: str, known: DeviceRecord) -> None:
    """Write the file where that is possible."""
    name = record_path(device)
    try:
        os.makedirs(os.path.dirname(name), exist_ok=True)
        with atomic_write(name, follow=False) as file:
            file.write(json.dumps(known._asdict(), indent=1).encode())
    except OSError:
        return
