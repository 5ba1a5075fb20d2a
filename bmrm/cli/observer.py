"""What happens around each iteration: progress line, log, checkpoint.

`Observer` is the solver's callback. Nothing in here may cost a trained model: an output that fails is
dropped, training goes on, and the failure is raised when the model is safe.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TextIO

from bmrm.base.interrupts import hold_signals
from bmrm.base.progress import ProgressLine
from bmrm.base.units import time_text

if TYPE_CHECKING:
    from bmrm.distributed import Group
    from bmrm.linear.solvers.progress import Progress

CHECKPOINT_EVERY = 5.0
CHECKPOINT_SHARE = 0.05  # of the time, at most, goes into checkpoints


def _line(state: Progress) -> str:
    known = state.gap < abs(state.objective)
    share = f" ({100 * state.gap / abs(state.objective):.2g} %)" if known else ""
    return (
        f"iteration {state.iteration}  objective {state.objective:.6g}  gap {state.gap:.2e}{share}  "
        f"cuts {state.cuts}  {time_text(state.elapsed)}"
    )


def log_record(state: Progress) -> dict[str, Any]:
    """Return what ``--log-jsonl`` writes of an iteration; an unknown bound is null."""
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
            with self.keeping_failure(), hold_signals():
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
