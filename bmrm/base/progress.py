"""Progress of long work: a line on the terminal, and notices on stderr."""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import TextIO

from bmrm.base.units import time_text

SHOW_AFTER_SECONDS = 1.0
"""Shorter runs show no progress line."""

SHOW_EVERY_SECONDS = 0.1
"""Minimum time between two updates of the line."""


class ProgressLine:
    """One line on a terminal that is rewritten in place; or, if asked for, one line per step."""

    def __init__(self, stream: TextIO, *, every_step: bool, quiet: bool) -> None:
        self._stream = stream
        self._every_step = every_step
        self._rewrite = not quiet and not every_step and stream.isatty()
        self._started = time.monotonic()
        self._shown_at = 0.0
        self._width = 0

    def update(self, text: Callable[[], str]) -> None:
        """Show a step if enough time has passed."""
        elapsed = time.monotonic() - self._started
        if self._every_step:
            print(text(), file=self._stream)
        elif self._rewrite and elapsed > SHOW_AFTER_SECONDS and elapsed - self._shown_at > SHOW_EVERY_SECONDS:
            self._shown_at = elapsed
            line = text()
            self._stream.write("\r" + line.ljust(self._width))
            self._stream.flush()
            self._width = len(line)

    @contextlib.contextmanager
    def show_during(self, what: Callable[[], str]) -> Iterator[None]:
        """Show what the block does and how long it has been running."""
        if not self._rewrite:
            yield
            return
        began, done = time.monotonic(), threading.Event()

        def show() -> None:
            with contextlib.suppress(OSError):
                while not done.wait(SHOW_EVERY_SECONDS):
                    self.update(lambda: f"{what()}  {time_text(time.monotonic() - began)}")

        thread = threading.Thread(target=show, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
            with contextlib.suppress(OSError):
                self.clear()

    def clear(self) -> None:
        """Erase the line."""
        if self._width:
            self._stream.write("\r" + " " * self._width + "\r")
            self._stream.flush()
            self._width = 0


@contextlib.contextmanager
def print_log(verbose: int) -> Iterator[None]:
    """Print the log messages of the package while the block runs: decisions too if ``verbose`` is above 1."""
    log = logging.getLogger("bmrm")
    wanted = logging.DEBUG if verbose > 1 else logging.INFO
    handler = _NoticeHandler(wanted)
    level = log.level
    if verbose:
        log.setLevel(wanted)
        log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)


class _NoticeHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        print_notice(record.getMessage())


def print_notice(text: str, *, quiet: bool = False) -> None:
    """Print a line on stderr; ignore it if that fails."""
    if not quiet:
        with contextlib.suppress(OSError):
            print(text, file=sys.stderr)
