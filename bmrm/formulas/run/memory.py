"""The memory of a pass on the CPU: how many rows run side by side, and what their arrays take."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from bmrm.base.host_memory import require_memory
from bmrm.formulas.cpu import native
from bmrm.formulas.language.plain import size_of
from bmrm.formulas.language.source import FunctionSource
from bmrm.formulas.run.accumulators import output_type
from bmrm.formulas.run.binding import Call

STAGED_BYTES = 1 << 17
"""Maximum size of the staged rows and local arrays of a block: a part of the second cache."""

VECTORS_PER_LANES = 4
"""Vector registers that one local number takes: several, so that sums of one row need not wait."""


def require_room(source: FunctionSource, call: Call, parts: int, threads: int) -> None:
    """Raise `HostMemoryError` if the results and local arrays of a pass do not fit into main memory."""
    outputs = sum(
        np.dtype(output_type(a, call.real)).itemsize * call.rows.here * math.prod(call.shape(a))
        for a in call.program.outputs()
    )
    lanes = choose_lanes(call) if native.can_compile() else 1
    arrays = threads * lanes * sum(array_bytes(call))
    advice = "smaller sizes or order='any' need less" if parts > threads else "smaller sizes need less"
    require_memory(
        8 * parts * call.numbers + outputs + arrays,
        f"the results of {source.name} and its arrays",
        advice,
    )


def choose_lanes(call: Call) -> int:
    """Return the number of rows that run side by side: fewer if a block of them would not fit a cache."""
    if call.rows.sparse:
        return 1
    size = np.dtype(call.real).itemsize
    lanes = VECTORS_PER_LANES * native.vector_bytes() // size
    row_bytes = size * call.rows.shape[1] + sum(array_bytes(call))
    while lanes * row_bytes > STAGED_BYTES and lanes > native.vector_bytes() // size:
        lanes //= 2
    return int(lanes)


def array_bytes(call: Call) -> Iterator[int]:
    """Yield the bytes of the arrays of one row."""
    for array in call.program.own_arrays().values():
        narrow = array.type == "real" and not array.wide
        count = math.prod(size_of(size, call.sizes) for size in array.dims)
        yield count * (np.dtype(call.real).itemsize if narrow else 8)
