"""Which rows that do not fit on a GPU stay in main memory, where the CPU computes with them meanwhile.

Of the blocks that stream, the CPU gets a share in eighths, rounded down, and so is the number of blocks. It
follows from two times, of a pass on all cores and of the bus, which are measured once per machine and kept
(`bmrm.matrix.gpu.cache`); the number of threads of a call changes neither the split nor any bit. If the CPU
would save less than an eighth, all blocks stream. Matrices keep their blocks pinned (`share_with_cpu`);
estimators and compiled functions copy theirs through pinned memory (`count_cpu_blocks`), which takes longer.
The rates of their passes depend on many sizes, so they are measured only if that is asked for ("auto"); by
default those that are stored decide, and without them all streams.

Sparse rows of a matrix stream unless a share is asked for: the time of their products on a CPU depends on
where their columns are, and X' r took longer than streaming (benchmarks/results/both_devices.json).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from bmrm.base import arguments
from bmrm.base.host_memory import require_memory
from bmrm.base.threads import usable_cores
from bmrm.errors import ParameterError
from bmrm.io.csr import Csr
from bmrm.matrix import _cpu
from bmrm.matrix.gpu import cache
from bmrm.matrix.gpu.devices import import_cuda

if TYPE_CHECKING:
    from bmrm.matrix import _cuda

log = logging.getLogger("bmrm")

EIGHTHS = 8

Share: TypeAlias = "int | Literal['auto'] | None"
"""In eighths; by rates that are measured now if they are not stored; or by default."""

DENSE_ROWS, DENSE_COLUMNS = 1 << 17, 256
"""The size of dense rows whose products are timed: 128 MiB as float32, more than most caches."""

LEAST_SHARE = 2
"""Eighths from which a pass is shared by its rates: the CPU's work slows the copies, which costs as much as
one eighth saves (benchmarks/results/both_passes.json)."""

BUS_PART = 512
"""The rows whose stream is timed take 1/512 of a device's memory: on one of 80 GB, blocks of 5 MB."""

BUS_RATIO = 4
"""How many times these rows are larger than what they may take."""

BUS_SPARE = 1 << 20
"""Bytes for the vectors of their product."""

VECTOR_BYTES = 2 * 8
"""Of an entry of a vector for sparse rows: pinned, and in the order and width of the CPU's kernels."""

REPEATS = 3


def parse_share(share: Any) -> Share:
    """Return a share of the CPU in eighths; None and "auto" are left to the rates.

    Examples
    --------
    >>> parse_share(0.5), parse_share(0), parse_share(None), parse_share("auto")
    (4, 0, None, 'auto')
    """
    if share is None:
        return None
    if isinstance(share, str) and share == "auto":
        return "auto"
    eighths = EIGHTHS * arguments.number("cpu_share", share)
    if not 0 <= eighths <= EIGHTHS or eighths != int(eighths):
        raise ParameterError(f"cpu_share: found {share!r}, expected eighths from 0 to 1, or auto")
    return int(eighths)


def share_with_cpu(matrix: Any, X: Any, share: Share, columns: int = 1) -> None:
    """Keep rows of a matrix on a GPU for the CPU, if some stream.

    Parameters
    ----------
    matrix : bmrm.matrix._cuda.Matrix
    X : Csr or ndarray
        What it was made of.
    share : Share
        That of `parse_share`.
    columns : int, default 1
        Largest number of vectors of a product.
    """
    if share == 0 or not matrix.host_bytes:
        return
    blocks = [block for block in matrix.row_blocks if block["streams"]]
    if not isinstance(share, int):
        share = measured_share(matrix, blocks) if matrix.is_dense else 0
    count = share * len(blocks) // EIGHTHS
    if not count:
        return
    if isinstance(X, Csr):
        rows, stored = (sum(block[of] for block in blocks[-count:]) for of in ("rows", "nnz"))
        value_bytes = 0 if matrix.dtype is None else matrix.dtype.itemsize
        transpose = None if matrix.has_transpose else False
        needed = _cpu.Matrix.predict_bytes(rows, matrix.shape[1], stored, value_bytes, transpose=transpose)
        needed += columns * VECTOR_BYTES * (rows + matrix.shape[1])
        require_memory(needed, "the rows of the CPU", "cpu_share=0 leaves it none")
    matrix.keep_on_host(count, X.on_host() if isinstance(X, Csr) else None)
    log.info("%s", split_text(matrix))


def split_text(matrix: Any) -> str:
    """Say which rows the CPU computes; empty if none.

    Rows are among those of this process.
    """
    blocks = matrix.row_blocks if matrix.host_bytes else []
    some = [block for block in blocks if block["on_host"]]
    if not some:
        return ""
    first, last = some[0]["first"], some[-1]["first"] + some[-1]["rows"]
    streamed = sum(block["streams"] for block in blocks)
    return cpu_text(len(some), streamed, first, last)


def measured_share(matrix: _cuda.Matrix, blocks: Sequence[Mapping[str, Any]]) -> int:
    """Return the CPU's share of some blocks in eighths, by the times per stored value."""
    copied: int = sum(sum(block["copied"].values()) for block in blocks)
    bus = copied * bus_time(matrix) / 2  # of a product
    stored: int = sum(block["nnz"] for block in blocks)
    return _balanced(bus, stored * cpu_time(matrix))


def _balanced(bus: float, cpu: float) -> int:
    """Return the CPU's share of work that takes so long on either way, if both are to end together."""
    return int(EIGHTHS * bus / (bus + cpu))


class Pass(NamedTuple):
    """A pass of a method over rows that a GPU gets in blocks, and what the CPU may have of them.

    Attributes
    ----------
    share : Share
        That of `parse_share`.
    name : str
        Under which the time of a row is kept; empty if rows stream unless a share is asked for.
    seconds : callable
        Measures the time of a row of a pass on the CPU, by a number of threads.
    """

    share: Share
    name: str
    seconds: Callable[[int], float]


def count_cpu_blocks(work: Pass, streamed: int, gpu: int, row_bytes: float, *, crowded: bool = False) -> int:
    """Return how many of the blocks that do not stay on a GPU are the CPU's, the last ones.

    Parameters
    ----------
    work : Pass
    streamed : int
        Number of these blocks.
    gpu : int
    row_bytes : float
        Bytes of a row that are copied in a pass.
    crowded : bool, default False
        Whether other ranks use the same cores; then all stream unless a share is asked for.
    """
    share = work.share
    if streamed < 1 or share == 0:
        return 0
    if not isinstance(share, int):
        if crowded or not work.name:
            return 0
        cores, measure = usable_cores(), share == "auto"
        name = f"a row of {work.name}, {cores} cores"
        cpu = _time(cache.cpu_name(), name, lambda: work.seconds(cores), measure)
        bus = None if cpu is None else copy_time(gpu, measure=measure)
        if cpu is None or bus is None:
            return 0
        share = _balanced(row_bytes * bus, cpu)
        share = share if share >= LEAST_SHARE else 0
    return share * streamed // EIGHTHS


def _time(device: str, name: str, measure: Callable[[], float], may_measure: bool) -> float | None:
    """Return a time that was stored, or is measured and stored now."""
    return cache.known_time(device, name, measure) if may_measure else cache.stored_time(device, name)


def copy_time(gpu: int, *, measure: bool) -> float | None:
    """Return the seconds per byte of dense rows that are copied through pinned memory, as measured."""
    cuda = import_cuda()

    def seconds() -> float:
        rows = np.ones((DENSE_ROWS, DENSE_COLUMNS), np.float32)
        there = cuda.DenseRows(rows, device=gpu, threads=usable_cores())

        def copy() -> None:
            there.load(rows)
            there.take(np.array([0]))  # waits for the end

        return least_seconds(copy) / rows.nbytes

    name: str = cuda.device_info(gpu)["name"]
    return _time(name, "a byte of rows that are copied in blocks", seconds, measure)


def least_seconds(work: Callable[[], object]) -> float:
    """Return the least time of some work on all cores, after it was done once."""
    seconds = []
    for _ in range(1 + REPEATS):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return min(seconds[1:])


def cpu_text(blocks: int, streamed: int, first: int, last: int) -> str:
    """Say which rows the CPU computes."""
    return f"the CPU computes {blocks} of {streamed} blocks that do not fit, rows {first} to {last - 1}"


def bus_time(matrix: _cuda.Matrix) -> float:
    """Return the seconds per byte of rows that stream, as measured."""
    device = matrix.report()["device"]

    def measure() -> float:
        size = device["total_bytes"] // BUS_PART
        rows = np.zeros((size // (4 * DENSE_COLUMNS), DENSE_COLUMNS), np.float32)
        limit = size // BUS_RATIO + BUS_SPARE
        options = {"device": device["id"], "memory_limit": limit, "spare": BUS_SPARE}
        sample = import_cuda().Matrix.from_dense(rows, **options)
        copied: int = sum(block["copied"]["normal"] for block in sample.row_blocks)
        return float(sample.time("normal", repeats=REPEATS)) / copied

    return cache.known_time(device["name"], "a byte of rows that stream", measure)


def cpu_time(matrix: _cuda.Matrix) -> float:
    """Return the seconds per value of a product of dense rows on all cores, as measured."""
    cores, dtype = usable_cores(), np.dtype(matrix.dtype)

    def measure() -> float:
        values = np.ones((DENSE_ROWS, DENSE_COLUMNS), dtype)
        X = _cpu.Matrix.from_dense(values, threads=cores)
        w, r = np.ones(X.shape[1]), np.ones(X.shape[0])
        return least_seconds(lambda: (X.matvec(w), X.rmatvec(r))) / (2 * X.nnz)

    return cache.known_time(cache.cpu_name(), f"dense rows, {dtype.itemsize} bytes, {cores} cores", measure)
