"""Where a call of a compiled function runs: `place` with the call's predicted work."""

from __future__ import annotations

from typing import Any

from bmrm.distributed.rows import AnyRows, DeviceRows
from bmrm.errors import BmrmError
from bmrm.formulas.cpu import native
from bmrm.formulas.gpu.nvrtc import load_nvrtc
from bmrm.formulas.run.binding import Call
from bmrm.formulas.run.cost import predict_seconds, reduction_work
from bmrm.formulas.run.parts import part_bounds, result_bytes
from bmrm.matrix.gpu.device_arrays import DeviceArray
from bmrm.matrix.gpu.driver import device as driver_device
from bmrm.matrix.gpu.placement import Placement, place

DATASET_CALLS = 10
"""Number of calls with the same data set that are expected: they share its upload."""


def held_array(rows: AnyRows) -> DeviceArray | None:
    """Return the array of rows that are on a GPU."""
    return rows.array if isinstance(rows, DeviceRows) else None


def predict_place(call: Call, threads: int | None = None) -> Placement:
    """Decide where a call with rows in main memory runs, by its predicted times."""
    if not native.can_compile():
        return Placement(None, "times are predicted for compiled code, and llvmlite is not installed")
    rows = call.rows
    uploaded: float = rows.nbytes
    if not isinstance(rows, DeviceRows) and rows.held is not None:
        uploaded = 0.0 if rows.held else uploaded / DATASET_CALLS
    parts, there = len(part_bounds(call)) - 1, rows.nbytes + result_bytes(call)
    work = reduction_work(predict_seconds(call, 1), parts, uploaded, there, threads)
    if rows.ranks and rows.ranks.group.size > 1:
        return Placement(None, "rows on several ranks have the same bits for any number of them on CPUs")
    return place("auto", None, work, available=_usable_gpu)


def _usable_gpu() -> dict[str, Any] | None:
    """Return what the choice needs of the first GPU; None if there is none, or no compiler for it."""
    try:
        load_nvrtc()
        found = driver_device(0)
        return {"multiprocessors": found.multiprocessors, "free_bytes": found.free_bytes()}
    except BmrmError:
        return None
