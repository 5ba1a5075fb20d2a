"""Plan the device memory of a solve: the bytes of vectors and cuts, what they leave for X, and what streams.

The numbers are upper bounds for vectors and estimates for X, whose formats are chosen only after the upload.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from bmrm.base import host_memory
from bmrm.errors import DeviceMemoryError, ParameterError
from bmrm.matrix._cpu import FREE_SHARE, MAX_ASCENT_ROWS_PER_COLUMN
from bmrm.matrix.gpu.devices import import_cuda

PLANNED_CUTS = 256
"""Number of cuts that memory is reserved for, as far as `CUT_MEMORY_DIVISOR` allows."""

CUT_MEMORY_DIVISOR = 3
"""At most a third of the memory is reserved for cuts."""

CUT_GROWTH_FACTOR = 1.5
"""Memory for cuts grows by copying, so for a moment the old cuts exist besides the new ones."""

STAGING_SHARE = 0.1
"""Share of the memory for X that staging areas take if X streams."""

MIN_RESIDENT_SHARE = 0.5
"""Minimum share of X that must stay on the GPU for ``device="auto"`` to use it.

With less, a new process trains as fast on 16 cores (``benchmarks/gpu/streamed.py``,
``benchmarks/gpu/thesis_ch5.py``).
"""

_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


class MemoryPlan(NamedTuple):
    """How the device memory is divided."""

    # Bytes that may be used; those reserved for vectors, and for cuts
    total: int
    vectors: int
    cuts: int
    X: int  # bytes of the formats of X
    # Bytes of X that stay on the device, and bytes in pinned host memory
    resident: int
    streamed: int
    what: str = "X"  # how a message calls it

    @property
    def spare(self) -> int:
        """Bytes reserved for everything except X."""
        return self.vectors + self.cuts

    @property
    def left(self) -> int:
        """Bytes that X leaves."""
        return self.spare if self.streamed else self.total - self.X


def parse_memory_size(size: int | str | None, what: str = "gpu_mem") -> int | None:
    """Convert a size such as 4096, ``"8G"`` or ``"500 MB"`` to bytes; units are decimal.

    Raise `ParameterError` if it is not a positive size.

    Examples
    --------
    >>> parse_memory_size("8G"), parse_memory_size("1.5k"), parse_memory_size(4096)
    (8000000000, 1500, 4096)
    """
    if size is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?([kMGT]?)B?", str(size))
    count = int(float(found[1]) * _UNITS[found[2]]) if found else 0
    if isinstance(size, bool) or not 0 < count < 2**62:
        raise ParameterError(f"{what}: found {size!r}, expected bytes, or a size like 8G or 500M")
    return count


def vector_bytes(shape: tuple[int, ...], item: int) -> int:
    """Return the bytes of all vectors of a solve; ``item`` is the size of a value.

    Vectors over rows: labels and weights, two derivatives, the state of dual ascent, and those of
    `point_bytes`.

    Examples
    --------
    >>> vector_bytes((1000, 10), 4)
    37040
    """
    rows, columns = shape
    ascent = 6 * 8 + item if rows <= MAX_ASCENT_ROWS_PER_COLUMN * columns else 0
    return rows * (2 * 4 + 2 * item + ascent) + point_bytes(shape, item)


def point_bytes(shape: tuple[int, ...], item: int) -> int:
    """Return the bytes of the points of a solve: margins of 5, weights of 9, gradients of 2 and their sums.

    Examples
    --------
    >>> point_bytes((1000, 10), 4)
    21040
    """
    rows, columns = shape
    return rows * 5 * item + columns * (8 * 11 + 4 * item)


def usable_bytes(device: int, limit: int | None) -> int:
    """Return the bytes of device memory that may be used."""
    free = int(FREE_SHARE * import_cuda().device_info(device)["free_bytes"])
    return free if limit is None else limit


def plan_memory(
    shape: tuple[int, ...], nnz: int | None, value_bytes: int, item: int, limit: int | None, number: int = 0
) -> MemoryPlan:
    """Divide the device memory between X, vectors and cuts.

    - ``nnz``: number of stored values; None if X is dense
    - ``value_bytes``: bytes of a stored value; 0 if all values are 1
    - ``item``: bytes of an element of the vectors on the device
    - ``limit``: bytes of device memory that may be used; None for what is free

    Raise `DeviceMemoryError` if vectors alone need more.
    """
    cuda, total = import_cuda(), usable_bytes(number, limit)
    vectors = vector_bytes(shape, item)
    # A cut is a gradient, or a combination of rows (`bmrm.linear.backends.host.row_space`).
    cut = min(shape[1], 2 * shape[0]) * item
    cuts = min(total // CUT_MEMORY_DIVISOR, int(CUT_GROWTH_FACTOR * PLANNED_CUTS * cut))
    if nnz is None:
        size = shape[0] * shape[1] * value_bytes
    else:
        size = int(cuda.Matrix.predict_format(*shape, nnz, value_bytes))
    return divide_memory(total, vectors, cuts, size)


def divide_memory(total: int, vectors: int, cuts: int, size: int, what: str = "X") -> MemoryPlan:
    """Divide bytes of device memory between vectors, cuts and a matrix; what does not fit streams.

    Raise `DeviceMemoryError` if vectors and cuts alone need more.
    """
    room = total - vectors - cuts
    if room <= 0:
        left = f", and cuts are left {cuts / 1e6:.4g} MB" if cuts else ""
        raise too_little(total, f"vectors take {vectors / 1e6:.4g} MB{left}")
    streamed = 0 if size <= room else size - int((1 - STAGING_SHARE) * room)
    return MemoryPlan(total, vectors, cuts, size, size - streamed, streamed, what)


def too_little(total: int, needed: str) -> DeviceMemoryError:
    """Return the error that some bytes of device memory are too little for what a text says.

    Examples
    --------
    >>> too_little(1_000_000, "vectors take 2 MB")
    DeviceMemoryError('1 MB of device memory are too little: vectors take 2 MB')
    """
    return DeviceMemoryError(f"{total / 1e6:.4g} MB of device memory are too little: {needed}")


def check_resident(plan: MemoryPlan, least: float = MIN_RESIDENT_SHARE) -> None:
    """Raise `DeviceMemoryError` if less than a share of the matrix stays on the device."""
    if plan.resident < least * plan.X:
        raise DeviceMemoryError(f"{plan_text(plan)}, which would be slower than the CPU")


def check_host_memory(plan: MemoryPlan) -> None:
    """Raise `DeviceMemoryError` if main memory has no room for the part of the matrix that streams."""
    available = host_memory.available_bytes()
    if available is not None and plan.streamed > available:
        raise DeviceMemoryError(
            f"{plan.what} takes {plan.X / 1e9:.4g} GB, of which {plan.streamed / 1e9:.4g} GB do not fit "
            f"on the device, and {available / 1e9:.4g} GB of main memory are available to stream them from"
        )


def plan_text(plan: MemoryPlan) -> str:
    """Return a plan as one line of text.

    Examples
    --------
    >>> plan_text(MemoryPlan(10**9, 10**8, 2 * 10**8, 2 * 10**9, 630 * 10**6, 1370 * 10**6))
    'X takes about 2000 MB: 630 MB stay on the device, 1370 MB stream from pinned host memory; ...'
    """
    parts = f"{plan.resident / 1e6:.4g} MB stay on the device, {plan.streamed / 1e6:.4g} MB stream"
    where = f": {parts} from pinned host memory" if plan.streamed else ", all on the device"
    others = "vectors and cuts" if plan.cuts else "vectors"
    return (
        f"{plan.what} takes about {plan.X / 1e6:.4g} MB{where}; {plan.total / 1e6:.4g} MB may be used, "
        f"{plan.spare / 1e6:.4g} MB of them for {others}"
    )


def room_for_cuts(left: int, shape: tuple[int, ...], item: int) -> int:
    """Return the bytes that cuts may use of those that X, labels and derivatives leave.

    Examples
    --------
    >>> room_for_cuts(1_000_000, (1000, 10), 4)
    652640
    """
    return int(max(0, left - point_bytes(shape, item)) / CUT_GROWTH_FACTOR)
