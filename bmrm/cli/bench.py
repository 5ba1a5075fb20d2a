"""``bmrm-bench``: how a GPU multiplies by the matrix of a data file, and how fast."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from bmrm.cli.exits import Exit, reading, run_on_first_rank

if TYPE_CHECKING:
    import argparse

    from bmrm.cli.signals import Interrupts
    from bmrm.matrix import _cuda

PROGRAM = "bmrm-bench"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command as `run_on_first_rank` does."""
    return run_on_first_rank(PROGRAM, bench, argv)


def bench(argv: Sequence[str], interrupts: Interrupts) -> int:
    """Run the command and return the exit code."""
    import json

    from bmrm.cli.commands import BENCH
    from bmrm.cli.parsing import CommandParser

    options = CommandParser(BENCH).parse_words(argv)
    interrupts.importing("bmrm.matrix.gpu.devices", "bmrm.matrix.gpu.explain", "bmrm.io")
    from bmrm.matrix.gpu.explain import explain

    with interrupts.opened():
        report = _matrix(options).report()
    print(json.dumps(report, allow_nan=False) if options.json else explain(report))
    return Exit.OK


def _matrix(options: argparse.Namespace) -> _cuda.Matrix:
    from bmrm.errors import BmrmError, DataError
    from bmrm.io import Csr, read_data
    from bmrm.matrix.gpu.devices import import_cuda

    try:
        cuda = import_cuda()
    except BmrmError:
        raise BmrmError("found a build without CUDA support, expected one that can use a GPU") from None
    count = cuda.device_count()
    if options.device >= count:  # before a large file is read
        raise BmrmError(
            f"--device {options.device}: found {count} CUDA devices, expected at least {options.device + 1}"
        )
    with reading(options.data):
        X: Any = read_data(options.data, dtype=options.dtype, threads=options.threads).X
    if not isinstance(X, Csr):
        raise DataError("found a dense array, which has only one kernel; expected a sparse matrix")
    tune = "all" if options.all else "best"
    matrix: _cuda.Matrix = cuda.Matrix(*X, dtype=options.dtype, device=options.device, tune=tune)
    return matrix


if __name__ == "__main__":
    sys.exit(main())
