"""``bmrm-bench``: how a GPU multiplies by the matrix of a data file, and how fast."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from bmrm.cli.exits import Exit, reading, run_on_first_rank

if TYPE_CHECKING:
    import argparse
    from types import ModuleType

    from bmrm.cli.signals import CommandInterrupts
    from bmrm.matrix import _cuda

PROGRAM = "bmrm-bench"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command as `run_on_first_rank` does."""
    return run_on_first_rank(PROGRAM, bench, argv)


def bench(argv: Sequence[str], interrupts: CommandInterrupts) -> int:
    """Run the command and return the exit code."""
    import json

    from bmrm.cli.commands import BENCH
    from bmrm.cli.parsing import CommandParser

    options = CommandParser(BENCH).parse_words(argv)
    interrupts.importing("bmrm.matrix.gpu.devices", "bmrm.matrix.gpu.explain", "bmrm.io")
    from bmrm.matrix.gpu.explain import complete_report, explain

    with interrupts.opened():
        cuda = _find_gpu(options.device)
        report = complete_report(cuda, _matrix(cuda, options))
    print(json.dumps(report, allow_nan=False) if options.json else explain(report))
    return Exit.OK


def _find_gpu(device: int) -> ModuleType:
    """Return the CUDA module if it has the device, before a large file is read."""
    from bmrm.errors import BmrmError
    from bmrm.matrix.gpu.devices import import_cuda

    try:
        cuda = import_cuda()
    except BmrmError:
        raise BmrmError("found a build without CUDA support, expected one that can use a GPU") from None
    count = cuda.device_count()
    if device >= count:
        raise BmrmError(f"--device {device}: found {count} CUDA devices, expected at least {device + 1}")
    return cuda


def _matrix(cuda: ModuleType, options: argparse.Namespace) -> _cuda.Matrix:
    from bmrm.io import Csr, read_data

    with reading(options.data):
        X: Any = read_data(options.data, dtype=options.dtype, threads=options.threads).X
    place = {"dtype": options.dtype, "device": options.device}
    if isinstance(X, Csr):
        matrix: _cuda.Matrix = cuda.Matrix(*X, **place, tune="all" if options.all else "best")
    else:
        matrix = cuda.Matrix.from_dense(X, **place)
    return matrix


if __name__ == "__main__":
    sys.exit(main())
