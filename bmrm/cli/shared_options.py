"""The options that several commands have."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence

from bmrm.cli.parsing import Option, device, integer, positive
from bmrm.errors import ParameterError


def _formats() -> Sequence[str]:
    from bmrm.io.formats import FORMATS

    return FORMATS


def names(text: str) -> tuple[str, ...]:
    """Read names with commas between them."""
    return tuple(text.split(","))


def _cpu_share(text: str) -> float | str:
    from bmrm.matrix.gpu.cpu_share import parse_share

    try:
        share = text if text == "auto" else float(text)
        parse_share(share)
    except (ValueError, ParameterError):
        raise argparse.ArgumentTypeError(f"found {text!r}, expected eighths from 0 to 1, or auto") from None
    return share


def _gpu_mem(text: str) -> int | None:
    from bmrm.matrix.gpu.memory import parse_memory_size

    try:
        return parse_memory_size(text)
    except ParameterError:
        raise argparse.ArgumentTypeError(
            f"found {text}, expected bytes, or a size such as 8G or 500M"
        ) from None


COLUMNS = (
    Option("--format", "%(choices)s (default: by the first bytes)", "NAME", choices=_formats, default="auto"),
    Option("--label", "column of the labels in CSV or Parquet", "COLUMN"),
    Option(
        "--drop",
        "columns of CSV or Parquet that are not features",
        "COLUMN,...",
        type=names,
        default=(),
    ),
)
"""In which format DATA is, and what its columns are."""

FORMAT = (
    *COLUMNS,
    Option("--labels", "labels for data without labels (.mtx, .npy): one per line", "FILE"),
)
"""How the rows of DATA and their labels are written."""

THREADS = Option("--threads", "threads (default: all cores)", "N", type=integer(1))

DEVICE = Option(
    "--device", "where to compute (default: auto)", "auto|cpu|cuda|cuda:N", device, default="auto"
)

GPU_MEM = Option(
    "--gpu-mem",
    "GPU memory to use, such as 8G or 500M; other rows are streamed (default: all that is free)",
    "SIZE",
    type=_gpu_mem,
)

CPU_SHARE = Option(
    "--cpu-share",
    "share of the streamed rows that the CPU takes, in eighths, such as 0.5, or auto (default: as measured)",
    "K",
    type=_cpu_share,
)

MACHINE = (
    Option("--max-time", "limit on seconds", "S", type=positive, default=math.inf),
    THREADS,
    DEVICE,
)
"""Where to compute, and for how long."""

TRACEBACK = Option("--verbose", "print the traceback of an unexpected failure", kind="flag")


def json_option(help: str) -> Option:
    """Return ``--json`` with its help."""
    return Option("--json", help, kind="flag")


def quiet_option(help: str) -> Option:
    """Return ``--quiet`` with its help."""
    return Option("-q --quiet", help, kind="flag")


NO_PROGRESS = (json_option("print one JSON object"), quiet_option("print no progress"), TRACEBACK)
