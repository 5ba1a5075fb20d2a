"""What the ranks of a solve were asked for, held against each other before anything rests on it."""

from __future__ import annotations

import numbers
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from bmrm.distributed.group import Group
from bmrm.errors import ParameterError

PER_RANK_OPTIONS = frozenset({"X", "y", "sample_weight", "groups", "comm"})
"""What is each rank's part of the problem."""

FREE_OPTIONS = frozenset({"callback", "device", "gpu_mem", "progress", "threads", "verbose"})
"""What each rank may have as it likes: the answer does not depend on it."""


def check_alike(group: Group, options: Mapping[str, Any], prefix: str = "") -> None:
    """Raise `ParameterError`, on all ranks, for an option that some rank was given otherwise than rank 0.

    Parameters
    ----------
    group : Group
    options : dict
        By name; those of `OWN` and `FREE` are left out.
    prefix : str, default ""
        What the message puts before a name.

    Examples
    --------
    >>> from mpi4py import MPI
    >>> check_alike(Group(MPI.COMM_SELF), {"lam": 0.1, "prior": np.zeros(2)})
    """
    mine = {
        name: _describe(value)
        for name, value in options.items()
        if name not in PER_RANK_OPTIONS | FREE_OPTIONS
    }
    everyones = group.everyones(mine)
    first = everyones[0]
    for other in everyones[1:]:
        for name in [*first, *(name for name in other if name not in first)]:
            one, another = first.get(name, "none"), other.get(name, "none")
            if one != another:
                raise ParameterError(f"{prefix}{name}: found {one} on one rank and {another} on another")


def _describe(value: Any) -> str:
    """Tell a value so that equal ones are told alike, on whatever host, and other ones otherwise."""
    if value is None:
        return "none"
    if isinstance(value, (bool, np.bool_, str)):
        return str(value)
    if isinstance(value, numbers.Real):
        return f"{float(value)!r}".removesuffix(".0")
    if isinstance(value, type):
        return value.__name__
    if isinstance(value, np.dtype):
        return str(value)
    if isinstance(value, Mapping):
        return (
            "{"
            + ", ".join(sorted(f"{_describe(key)}: {_describe(each)}" for key, each in value.items()))
            + "}"
        )
    model = getattr(value, "model", value)  # that of a checkpoint
    w = getattr(model, "w", None)
    if isinstance(w, np.ndarray):
        return f"a {type(value).__name__} of {_describe(w)}"
    return _describe_array(value)


def _describe_array(value: Any) -> str:
    """Tell an array by its shape and a checksum; a loss, or what else has none, by its text."""
    try:
        array = np.ascontiguousarray(value, np.float64)
    except (TypeError, ValueError):
        text = repr(value)
        return type(value).__name__ if " object at 0x" in text else text  # which differs from rank to rank
    size = " x ".join(map(str, array.shape)) or "1"
    return f"{size} numbers with the checksum {zlib.crc32((array + 0.0).tobytes()):08x}"
