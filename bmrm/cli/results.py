"""What commands with a result of their own share: progress, the best result so far, JSON."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Callable, Iterator
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
