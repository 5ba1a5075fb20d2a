"""The rows of a call on a GPU that are the CPU's: the last blocks, computed during the pass over the others.

Which blocks follows from `bmrm.matrix.gpu.cpu_share`. Parts of these rows come after the blocks of the GPU,
and all are combined in that order, as those of ranks are.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from bmrm.base import interrupts
from bmrm.distributed.blocks import block_parts, blocks_of_cpu
from bmrm.errors import BmrmError, ParameterError
from bmrm.formulas.cpu import native
from bmrm.formulas.run.accumulators import Pass, Results
from bmrm.formulas.run.binding import Call
from bmrm.formulas.run.cost import predict_seconds
from bmrm.formulas.run.cpu import CpuRunner
from bmrm.formulas.run.device_blocks import resident_blocks, rows_of_blocks
from bmrm.matrix.gpu.cpu_share import Pass as SharedPass
from bmrm.matrix.gpu.cpu_share import Share, cpu_text, least_seconds
from bmrm.matrix.gpu.devices import import_cuda
from bmrm.matrix.gpu.driver import device

MEASURED_SECONDS = 0.25
"""Predicted time on one core of the rows whose pass is timed."""

MIN_MEASURED_ROWS = 1024

PARTS_PER_CORE = 4
"""Parts of these rows for each core at least."""


class CpuSide:
    """The CPU beside a GPU.

    Parameters
    ----------
    host : CpuRunner
    share : Share
        That of `bmrm.matrix.gpu.cpu_share.parse_share`.
    threads : int, optional
    contract : bool
        As for the runners.
    """

    def __init__(self, host: CpuRunner, share: Share, threads: int | None, contract: bool) -> None:
        self._host, self._share, self._threads, self._contract = host, share, threads, contract

    def first_row(self, call: Call, gpu: int) -> int:
        """Return the first of the CPU's rows; that after the last if it has none."""
        return self._split(call, gpu)[0]

    def text(self, call: Call, gpu: int) -> str:
        """Say which rows are the CPU's; empty if none."""
        first, count, streamed = self._split(call, gpu)
        return cpu_text(count, streamed, first, call.rows.here) if count else ""

    def run(self, call: Call, first: int, on_gpu: Callable[[], Pass]) -> Pass:
        """Run a pass over the rows from ``first`` on, and at the same time that over the others on a GPU.

        The earliest row with an error is named: so one of the CPU waits for the GPU, and one of the GPU, or
        Ctrl-C, ends the pass of the CPU.
        """
        leave = np.zeros(1, np.uint8)
        bounds = call.part_bounds("fixed", first)
        with ThreadPoolExecutor(1, "bmrm-cpu") as pool:
            run = self._host.run_here
            theirs = pool.submit(run, call, self._threads, "fixed", self._contract, bounds, leave)
            try:
                mine = on_gpu()
                return _joined(call, mine, interrupts.wait_for(theirs.result, lambda: leave.fill(1)), first)
            except BaseException:
                leave.fill(1)
                raise

    def _split(self, call: Call, gpu: int) -> tuple[int, int, int]:
        """Return the first row of the CPU, the number of its blocks, and of those that do not stay."""
        rows, each = call.rows, rows_of_blocks(call.rows.X)
        parts = block_parts(rows.here, each)
        if self._share == 0 or rows.on_gpu or len(parts) == 1:
            return rows.here, 0, 0
        resident = resident_blocks(device(gpu), rows, each)
        count = blocks_of_cpu(rows, gpu, each, resident, self._pass(call))
        first: int = parts[len(parts) - count - 1].stop
        return first, count, len(parts) - resident

    def _pass(self, call: Call) -> SharedPass:
        """Return the pass of a call; all stream without a compiler for the CPU; or what times copies."""
        share, name = self._share, ""
        if not native.can_compile():
            if share is not None:
                raise ParameterError(f"cpu_share: found {share!r} without llvmlite, expected 0")
            return SharedPass(0, "", lambda cores: 0.0)
        if not isinstance(share, int) and _is_built():
            text = self._host.code_of(call, contract=self._contract).text
            name = f"compiled function {zlib.crc32(f'{text}{sorted(call.sizes.items())}'.encode()):08x}"
        return SharedPass(share, name, lambda cores: self._measure(call, cores))

    def _measure(self, call: Call, cores: int) -> float:
        """Return the time of a row of a pass on all cores, by the first rows."""
        here = call.rows.here
        some = int(MEASURED_SECONDS * here / max(1e-9, predict_seconds(call, 1)))
        some = min(here, max(MIN_MEASURED_ROWS, some))
        each = max(1, min(call.rows.part_rows(), some // (PARTS_PER_CORE * cores)))
        bounds = [0, *range(each, some, each), some]
        run = self._host.run_here
        return least_seconds(lambda: run(call, cores, "fixed", self._contract, bounds)) / some


def _is_built() -> bool:
    try:
        return bool(import_cuda().device_count())
    except BmrmError:
        return False


def _joined(call: Call, mine: Pass, theirs: Pass, first: int) -> Pass:
    """Return the parts of both devices, the GPU's before those of the CPU, and values of all rows."""
    (on_gpu, before), (on_cpu, outputs) = mine, theirs
    results = Results(call, len(on_gpu.matrix) + len(on_cpu.matrix))
    results.matrix[...] = np.concatenate([on_gpu.matrix, on_cpu.matrix])
    for name, values in before.items():
        outputs[name][:first] = values
    return results, outputs
