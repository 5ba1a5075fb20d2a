"""Check that all ranks of a solve were given the same options."""

from __future__ import annotations

import numbers
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from bmrm.distributed.group import Group
from bmrm.errors import ParameterError

PER_RANK_OPTIONS = frozenset({"X", "y", "sample_weight", "offset", "groups", "comm"})
"""Arguments that hold each rank's part of the problem."""

FREE_OPTIONS = frozenset({"callback", "cpu_share", "device", "gpu_mem", "progress", "threads", "verbose"})
"""Options that may differ between ranks, since the solution does not depend on them."""


def check_alike(group: Group, options: Mapping[str, Any], prefix: str = "") -> None:
    """Raise `ParameterError` on all ranks if some rank was given another option than rank 0.

    Parameters
    ----------
    group : Group
    options : dict
        Values by name; those in `PER_RANK_OPTIONS` and `FREE_OPTIONS` are not compared.
    prefix : str, default ""
        Put before the name in a message.

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
    """Describe a value so that descriptions are equal, on any host, if and only if the values are."""
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
    model = getattr(value, "model", value)  # a checkpoint has one
    w = getattr(model, "w", None)
    if isinstance(w, np.ndarray):
        return f"a {type(value).__name__} of {_describe(w)}"
    return _describe_array(value)


def _describe_array(value: Any) -> str:
    """Describe an array by its shape and a checksum; a loss, or another object, by its repr."""
    try:
        array = np.ascontiguousarray(value, np.float64)
    except (TypeError, ValueError):
        text = repr(value)
        return type(value).__name__ if " object at 0x" in text else text  # addresses differ between ranks
    size = " x ".join(map(str, array.shape)) or "1"
    return f"{size} numbers with the checksum {zlib.crc32((array + 0.0).tobytes()):08x}"
