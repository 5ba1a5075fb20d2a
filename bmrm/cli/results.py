"""What commands with a result of their own share: progress, the best result so far, JSON, lines."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from bmrm.errors import Interrupted

if TYPE_CHECKING:
    from bmrm.base.progress import ProgressStep


@contextlib.contextmanager
def showing(options: argparse.Namespace, what: Callable[[], ProgressStep] | str) -> Iterator[None]:
    """Show on the terminal what takes long: a text, or what a function returns at each moment."""
    from bmrm.base.progress import ProgressLine, ProgressStep

    line = ProgressLine(sys.stderr, every_step=False, quiet=options.quiet or options.json)
    with line.show_during((lambda: ProgressStep((what,))) if isinstance(what, str) else what):
        yield


@contextlib.contextmanager
def showing_share(options: argparse.Namespace, what: str) -> Iterator[Callable[[float], None]]:
    """Show on the terminal how much of some work is done; what it yields notes the share."""
    from bmrm.base.progress import ProgressStep

    share = 0.0

    def note(done: float) -> None:
        nonlocal share
        share = done

    with showing(options, lambda: ProgressStep((what,), share)):
        yield note


def best_so_far(solve: Callable[[], Any]) -> Any:
    """Return a result, the best so far after an interrupt."""
    try:
        return solve()
    except Interrupted as stop:
        if stop.result is None:
            raise
        return stop.result


def print_json(report: dict[str, Any]) -> None:
    """Print one JSON object."""
    print(json.dumps(report, allow_nan=False))


def write_lines(path: str | None, lines: Iterable[str]) -> None:
    """Write lines, which have their ends, to a file; to stdout for "-" or None."""
    from bmrm.base.atomic import atomic_write

    if path in (None, "-"):
        sys.stdout.writelines(lines)
        return
    with atomic_write(path) as file:
        file.writelines(line.encode() for line in lines)
