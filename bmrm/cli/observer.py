"""The output of each iteration: progress line, log, checkpoint.

`Observer` is the solver's callback. No failure in here may lose a trained model: an output that fails is
dropped, training continues, and the failure is raised when the model is saved.
"""

from __future__ import annotations

import contextlib
import json
import math
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TextIO

from bmrm.base.interrupts import hold_signals
from bmrm.base.progress import ProgressLine, ProgressStep, logarithmic_share

if TYPE_CHECKING:
    from bmrm.distributed import Group
    from bmrm.linear.solvers.progress import Progress

CHECKPOINT_INTERVAL_SECONDS = 5.0
"""Minimum time from the start of a checkpoint to the start of the next."""

MAX_CHECKPOINT_SHARE = 0.05
"""Maximum share of the time that is spent on checkpoints."""


def words_of(state: Progress) -> tuple[str, ...]:
    """Return the words of the progress line."""
    known = state.gap < abs(state.objective)
    share = f" ({100 * state.gap / abs(state.objective):.2g} %)" if known else ""
    return (
        f"iteration {state.iteration}",
        f"gap {state.gap:.2e}{share}",
        f"objective {state.objective:.6g}",
        f"cuts {state.cuts}",
    )


def log_record(state: Progress) -> dict[str, Any]:
    """Return the ``--log-jsonl`` record of an iteration; an unknown bound is null."""
    from bmrm.base.units import finite_or_none

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

    - ``log``: gets a JSON line per iteration
    - ``checkpoint``: gets the solver's state every few seconds, to write the best model so far
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
        self._save_next = -math.inf
        self._first_gap = math.inf
        self.failure: OSError | None = None

    def __call__(self, state: Progress) -> None:
        """Observe one iteration."""
        with self.keeping_failure():
            if not math.isfinite(self._first_gap):
                self._first_gap = state.gap
            self._line.update(
                lambda: ProgressStep(
                    words_of(state), logarithmic_share(self._first_gap, state.gap, state.tol)
                )
            )
        with self.keeping_failure():
            self._write_log(state)
        if self._checkpoint is not None and self._is_due():
            began = time.monotonic()
            with self.keeping_failure(), hold_signals():
                self._checkpoint(state)
            took = time.monotonic() - began
            self._save_next = began + max(CHECKPOINT_INTERVAL_SECONDS, took / MAX_CHECKPOINT_SHARE)

    def _is_due(self) -> bool:
        """Return whether a checkpoint is due; the first rank decides, since all ranks write it together."""
        due = time.monotonic() >= self._save_next
        return due if self._group is None else bool(self._group.everyones(due)[0])

    def close(self) -> None:
        """Clear the progress line and close the log."""
        with contextlib.suppress(OSError):  # a failure is already known from an iteration
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
        """Keep the first failure of an output in ``failure``, to be raised when the model is saved."""
        try:
            yield
        except OSError as error:
            self.failure = self.failure or error
