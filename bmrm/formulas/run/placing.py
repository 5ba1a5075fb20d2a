"""Where a call of a compiled function runs: `place` with the call's predicted work."""

from __future__ import annotations

from typing import Any

from bmrm.errors import BmrmError
from bmrm.formulas.cpu import native
from bmrm.formulas.gpu.nvrtc import load_nvrtc
from bmrm.formulas.run.binding import Call
from bmrm.formulas.run.cost import predict_seconds, reduction_work, result_seconds, row_numbers
from bmrm.formulas.run.device_blocks import resident_bytes, rows_of_blocks
from bmrm.matrix.gpu.driver import device as driver_device
from bmrm.matrix.gpu.placement import Placement, place

DATASET_CALLS = 10
"""Number of calls with the same data set that are expected: they share its upload."""


def predict_place(call: Call, threads: int | None = None) -> Placement:
    """Decide where a call with rows in main memory runs, by its predicted times."""
    if not native.can_compile():
        return Placement(None, "times are predicted for compiled code, and llvmlite is not installed")
    if call.rows.ranks > 1:
        return Placement(None, "rows on several ranks have the same bits for any number of them on CPUs")
    rows = call.rows.X
    uploaded: float = rows.nbytes
    if rows.held is not None:
        uploaded = 0.0 if rows.held else uploaded / DATASET_CALLS
    parts, each = len(call.part_bounds()) - 1, rows_of_blocks(rows)
    result_bytes = 8 * (call.numbers + call.rows.here * row_numbers(call))
    copied, there = uploaded + result_bytes, resident_bytes(rows, each) + result_bytes
    seconds, alone = predict_seconds(call, 1), result_seconds(call)
    work = reduction_work(seconds, parts, copied, there, threads, alone)
    if rows.held is not None and each < len(rows):
        work = work._replace(copied_passes=1.0)
    return place("auto", None, work, find_gpu=usable_gpu)


def usable_gpu() -> dict[str, Any] | None:
    """Return what the choice needs of the first GPU; None if there is none, or no compiler for it."""
    try:
        load_nvrtc()
        found = driver_device(0)
        return {"multiprocessors": found.multiprocessors, "free_bytes": found.free_bytes()}
    except BmrmError:
        return None
