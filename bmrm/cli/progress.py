"""What happens around each iteration: progress line, log, checkpoint.

`Observer` is the solver's callback. Nothing in here may cost a trained model: an output that fails is
dropped, training goes on, and the failure is raised when the model is safe.
"""

from __future__ import annotations

import contextlib
import json
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TextIO

from bmrm.cli.units import time_text
from bmrm.interrupts import held

if TYPE_CHECKING:
    from bmrm.distributed import Group
    from bmrm.result import Progress

SHOW_AFTER = 1.0  # seconds; shorter runs need no progress line
SHOW_EVERY = 0.1
CHECKPOINT_EVERY = 5.0
CHECKPOINT_SHARE = 0.05  # of the time, at most, goes into checkpoints


class ProgressLine:
    """One line on a terminal, rewritten in place; or, when asked for, a line per step."""

    def __init__(self, stream: TextIO, *, every_step: bool, quiet: bool) -> None:
        self._stream = stream
        self._every_step = every_step
        self._rewrite = not quiet and not every_step and stream.isatty()
        self._started = time.monotonic()
        self._shown_at = 0.0
        self._width = 0

    def update(self, text: Callable[[], str]) -> None:
        """Show a step, if it is time to."""
        elapsed = time.monotonic() - self._started
        if self._every_step:
            print(text(), file=self._stream)
        elif self._rewrite and elapsed > SHOW_AFTER and elapsed - self._shown_at > SHOW_EVERY:
            self._shown_at = elapsed
            line = text()
            self._stream.write("\r" + line.ljust(self._width))
            self._stream.flush()
            self._width = len(line)

    @contextlib.contextmanager
    def during(self, what: Callable[[], str]) -> Iterator[None]:
        """Show what runs, and for how long already, while it does."""
        if not self._rewrite:
            yield
            return
        began, done = time.monotonic(), threading.Event()

        def show() -> None:
            with contextlib.suppress(OSError):
                while not done.wait(SHOW_EVERY):
                    self.update(lambda: f"{what()}  {time_text(time.monotonic() - began)}")

        beside = threading.Thread(target=show, daemon=True)
        beside.start()
        try:
            yield
        finally:
            done.set()
            beside.join()
            with contextlib.suppress(OSError):
                self.clear()

    def clear(self) -> None:
        """Leave the terminal as it was."""
        if self._width:
            self._stream.write("\r" + " " * self._width + "\r")
            self._stream.flush()
            self._width = 0


def _line(state: Progress) -> str:
    known = state.gap < abs(state.objective)
    share = f" ({100 * state.gap / abs(state.objective):.2g} %)" if known else ""
    return (
        f"iteration {state.iteration}  objective {state.objective:.6g}  gap {state.gap:.2e}{share}  "
        f"cuts {state.cuts}  {time_text(state.elapsed)}"
    )


def log_record(state: Progress) -> dict[str, Any]:
    """Return what ``--log-jsonl`` writes of an iteration; an unknown bound is null."""
    from bmrm.io.model_file import finite_or_none

    return {
        "iteration": int(state.iteration),
        "objective": finite_or_none(state.objective),
        "lower_bound": finite_or_none(state.lower_bound),
        "gap": finite_or_none(state.gap),
        "cuts": int(state.cuts),
        "elapsed": float(state.elapsed),
        "seconds": {part: float(value) for part, value in state.seconds.items()},
    }


class Observer:
    """The solver's callback: shows, logs and checkpoints an iteration.

    Parameters
    ----------
    line : ProgressLine
    log : text file, or None
        Gets a JSON line per iteration.
    checkpoint : callable, or None
        Gets the solver's state every few seconds, to write the best model so far.
    """

    def __init__(
        self,
        line: ProgressLine,
        *,
        log: TextIO | None = None,
        checkpoint: Callable[[Progress], None] | None = None,
        group: Group | None = None,
    ) -> None:
        self._line = line
        self._log_file = log
        self._log_works = log is not None
        self._checkpoint = checkpoint
        self._group = group
        self._save_next = -float("inf")
        self.failure: OSError | None = None

    def __call__(self, state: Progress) -> None:
        """Observe one iteration."""
        with self.keeping_failure():
            self._line.update(lambda: _line(state))
        with self.keeping_failure():
            self._write_log(state)
        if self._checkpoint is not None and self._is_due():
            began = time.monotonic()
            with self.keeping_failure(), held():
                self._checkpoint(state)
            took = time.monotonic() - began
            self._save_next = began + max(CHECKPOINT_EVERY, took / CHECKPOINT_SHARE)

    def _is_due(self) -> bool:
        """Whether it is time to write; all ranks have parts of a checkpoint, so the first decides."""
        due = time.monotonic() >= self._save_next
        return due if self._group is None else bool(self._group.everyones(due)[0])

    def close(self) -> None:
        """Leave the terminal and the log as they should be when training is over."""
        with contextlib.suppress(OSError):  # known already, from the iteration that it struck
            self._line.clear()
        with contextlib.suppress(OSError):
            if self._log_file is not None:
                self._log_file.close()

    def _write_log(self, state: Progress) -> None:
        log = self._log_file
        if log is None or not self._log_works:
            return
        try:
            log.write(json.dumps(log_record(state), allow_nan=False) + "\n")
            log.flush()
        except OSError as error:
            self._log_works = False
            error.filename = log.name
            raise

    @contextlib.contextmanager
    def keeping_failure(self) -> Iterator[None]:
        """Keep an output's failure in ``failure``, to be raised once the model is safe."""
        try:
            yield
        except OSError as error:
            self.failure = self.failure or error


@contextlib.contextmanager
def logged(verbose: bool) -> Iterator[None]:
    """Print what the library has to say of the devices that it uses."""
    log = logging.getLogger("bmrm")
    handler = _Notices(logging.INFO)
    level = log.level
    if verbose:
        log.setLevel(logging.INFO)
        log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)


class _Notices(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        notice(record.getMessage())


def notice(text: str, *, quiet: bool = False) -> None:
    """Print a line for people on stderr; one that cannot be printed is not worth a failure."""
    if not quiet:
        with contextlib.suppress(OSError):
            print(text, file=sys.stderr)
