"""Puts the rows of an estimator where it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from bmrm.base.notices import warn
from bmrm.distributed.row_set import RowSet
from bmrm.errors import DeviceMemoryError, ParameterError
from bmrm.matrix.gpu.placement import Placement

Passes = TypeVar("Passes")


def open_rows(
    rows: RowSet,
    placement: Placement,
    device: str,
    on_host: Callable[[], Passes],
    on_gpu: Callable[[int], tuple[Passes, str]],
    *,
    sparse: bool = False,
) -> tuple[Passes, Placement]:
    """Put rows on a GPU or leave them; an error of one rank is one of all, so that all are in the same place.

    - ``on_gpu``: returns a note for the placement too
    - ``sparse``: sparse rows may be on a GPU
    """
    if placement.gpu is None:
        return on_host(), placement
    if rows.sparse and not sparse:
        raise ParameterError(f"device: found {device!r} for sparse rows, expected auto or cpu")
    try:
        passes, note = on_gpu(placement.gpu)
    except DeviceMemoryError as error:
        if device != "auto" or rows.on_gpu:
            raise
        warn(f"device='auto': {error}; using the CPU")
        return on_host(), Placement(None, str(error))
    return passes, replace(placement, reason=f"{placement.reason}; {note}") if note else placement
