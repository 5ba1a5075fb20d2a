"""Progress of long work: a line on the terminal, and notices on stderr.

A line that is longer than the terminal would wrap, and each update would then leave a line that nothing
erases.  So a line is cut to the width of the terminal, which is read at each update since people resize
windows.  The words of a step come in the order of their importance, so that what is cut matters least.

With the package rich (extra ``cli``) the line starts with a bar.  It is imported only when a line is first
shown, since that takes some 50 ms.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import sys
import threading
import time
import unicodedata
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TextIO

from bmrm.base import arguments
from bmrm.base.units import time_text
from bmrm.errors import ParameterError

if TYPE_CHECKING:
    from rich.live import Live

SHOW_AFTER_SECONDS = 1.0
"""Shorter runs show no progress line."""

SHOW_EVERY_SECONDS = 0.1
"""Minimum time between two updates of the line."""

MIN_SHARE_FOR_ESTIMATE = 0.05
"""Share of the work from which the remaining time is estimated from the time that the share took."""

BAR_COLUMNS = 16
"""Width of the bar that rich draws."""


class ProgressStep(NamedTuple):
    """What a progress line shows.

    Attributes
    ----------
    words : tuple of str
        The most important first.
    share : float or None
        The share of the work that is done; None if it is not known.
    """

    words: tuple[str, ...]
    share: float | None = None


def logarithmic_share(first: float, now: float, goal: float) -> float | None:
    """Return how far an error has come from its first value to the goal, on a logarithmic scale.

    Examples
    --------
    >>> logarithmic_share(1.0, 0.01, 1e-4)
    0.5
    """
    if not 0.0 < goal < first < math.inf:
        return None
    return min(1.0, math.log(first / max(now, goal)) / math.log(first / goal))


class _Display(Protocol):
    """How a line is drawn."""

    def draw(self, words: list[str], share: float | None) -> None:
        """Replace the line."""

    def clear(self) -> None:
        """Erase the line."""


class ProgressLine:
    """One line on a terminal that is rewritten in place; or, if asked for, one line per step."""

    def __init__(self, stream: TextIO, *, every_step: bool, quiet: bool) -> None:
        self._stream = stream
        self._every_step = every_step
        self._rewrite = not quiet and not every_step and stream.isatty()
        self._started = time.monotonic()
        self._shown_at = 0.0
        self._display: _Display | None = None

    def update(self, step: Callable[[], ProgressStep]) -> None:
        """Show a step if enough time has passed."""
        elapsed = time.monotonic() - self._started
        if self._every_step:
            print("  ".join((*step().words, time_text(elapsed))), file=self._stream)
        elif self._rewrite and elapsed > SHOW_AFTER_SECONDS and elapsed - self._shown_at > SHOW_EVERY_SECONDS:
            self._shown_at = elapsed
            self._draw(step(), elapsed)

    def _draw(self, step: ProgressStep, elapsed: float) -> None:
        words = [*step.words, time_text(elapsed)]
        if step.share is not None and step.share >= MIN_SHARE_FOR_ESTIMATE:
            left = elapsed * (1.0 - step.share) / step.share
            words.insert(1, f"about {time_text(max(left, 1.0))} left")
        if self._display is None:
            self._display = _display(self._stream)
        self._display.draw(words, step.share)

    @contextlib.contextmanager
    def show_during(self, what: Callable[[], ProgressStep]) -> Iterator[None]:
        """Show what the block does and how long it has been running."""
        if not self._rewrite:
            yield
            return
        self._started, done = time.monotonic(), threading.Event()
        self._shown_at = 0.0

        def show() -> None:
            with contextlib.suppress(OSError):
                while not done.wait(SHOW_EVERY_SECONDS):
                    self.update(what)

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
        if self._display is not None:
            display, self._display = self._display, None
            display.clear()


def _display(stream: TextIO) -> _Display:
    if os.environ.get("TERM") not in ("dumb", "", None):
        with contextlib.suppress(ImportError):
            return _RichDisplay(stream)
    return _PlainDisplay(stream)


def terminal_columns(stream: TextIO) -> int:
    """Return the width of the terminal of a stream; 80 if it does not say."""
    try:
        columns = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        columns = 0
    return columns or 80


def fit_words(words: list[str], columns: int) -> str:
    """Join words by two blanks: as many of the first as fit, and at least a part of the first.

    Examples
    --------
    >>> fit_words(["gap 0.1", "cuts 12", "3 s"], 16)
    'gap 0.1  cuts 12'
    >>> fit_words(["gap 0.1", "cuts 12", "3 s"], 15)
    'gap 0.1'
    >>> fit_words(["gap 0.1"], 5)
    'gap 0'
    """
    line = words[0]
    for word in words[1:]:
        if text_columns(line) + 2 + text_columns(word) > columns:
            break
        line += f"  {word}"
    while text_columns(line) > columns:
        line = line[:-1]
    return line


def text_columns(text: str) -> int:
    """Return the number of columns that a text takes on a terminal; some characters of file names take two.

    Examples
    --------
    >>> text_columns("abc"), text_columns("数据")
    (3, 4)
    """
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return len(text) + wide - sum(map(bool, map(unicodedata.combining, text)))


class _PlainDisplay:
    """A line without control sequences, for any terminal."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._width = 0

    def draw(self, words: list[str], share: float | None) -> None:
        shown = words if share is None else [f"{100.0 * share:3.0f} %", *words]
        columns = terminal_columns(self._stream) - 1  # a full line would move the cursor to the next
        line = fit_words(shown, columns)
        width = text_columns(line)
        self._stream.write("\r" + line + " " * (min(self._width, columns) - width))
        self._stream.flush()
        self._width = width

    def clear(self) -> None:
        self._stream.write("\r" + " " * min(self._width, terminal_columns(self._stream) - 1) + "\r")
        self._stream.flush()


class _RichDisplay:
    """A line with a bar, by the package rich."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console
        from rich.live import Live

        console = Console(file=stream, highlight=False)
        self._live: Live = Live(console=console, transient=True, auto_refresh=False)
        self._stream = stream
        self._live.start()

    def draw(self, words: list[str], share: float | None) -> None:
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        columns = terminal_columns(self._stream) - 1
        shown = words if share is None else [f"{100.0 * share:3.0f} %", *words]
        room = columns - BAR_COLUMNS - 1
        grid = Table.grid(padding=(0, 1))
        if share is None or room < len("  ".join(shown[:2])):  # on a narrow terminal words matter more
            grid.add_row(Text(fit_words(shown, columns), no_wrap=True))
        else:
            bar = ProgressBar(total=1.0, completed=share, width=BAR_COLUMNS)
            grid.add_row(bar, Text(fit_words(shown, room), no_wrap=True))
        self._live.update(grid, refresh=True)

    def clear(self) -> None:
        self._live.stop()


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


def progress_line(verbose: Any) -> ProgressLine:
    """Return the line of progress that ``verbose`` asks for: 0 none, 1 on a terminal, 2 one line per step."""
    level = arguments.integer("verbose", verbose)
    if level < 0:
        raise ParameterError(f"verbose: found {verbose}, expected at least 0")
    return ProgressLine(sys.stderr, every_step=level > 1, quiet=level == 0)
