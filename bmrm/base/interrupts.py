"""Signals that ask for an end: where they strike, where they wait, and what is handed out then.

Python raises KeyboardInterrupt wherever the main thread happens to be, in the middle of a `finally` too,
and a second one strikes what cleans up behind the first. Here a signal strikes once, and only where nothing
is lost by it. Everywhere else it is noted, and whoever comes to a good place looks (`check`).

The commands watch SIGINT and SIGTERM from their first line to their last. A function of the package that
may run for long (`interruptible`) watches SIGINT while it runs in the main thread, unless someone else has
a handler there already. What it raises is an `Interrupted`.
"""

from __future__ import annotations

import functools
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from types import FrameType
from typing import Any, ParamSpec, Self, TypeVar

from bmrm.errors import Interrupted

P = ParamSpec("P")
Found = TypeVar("Found")

OPEN = "open"
AWAITED = "awaited"
HELD = "held"
"""A signal strikes at once; the first is noted and the second strikes; all are only noted."""

REPEAT_SECONDS = 5.0
"""Seconds after which a signal may strike once more, where the first was swallowed and has ended nothing."""

_watching: list[Interrupts] = []


class Interrupts:
    """Handlers of signals, for as long as the block runs.

    Parameters
    ----------
    numbers : sequence of signal
    mode : {"open", "awaited", "held"}
        Where signals strike at first.
    last : bool, default False
        The process ends with the block: signals are ignored behind it.

    Attributes
    ----------
    requested : bool
        Whether a signal has come.
    """

    def __init__(
        self,
        numbers: Sequence[signal.Signals] = (signal.SIGINT, signal.SIGTERM),
        mode: str = OPEN,
        *,
        last: bool = False,
    ) -> None:
        self._numbers, self.mode, self._last = numbers, mode, last
        self.requested = False
        self._struck = -REPEAT_SECONDS
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        with suppress(ValueError):  # only the main thread can set handlers
            for number in self._numbers:
                if signal.getsignal(number) != signal.SIG_IGN:  # nohup and background jobs stay so
                    self._previous[number] = signal.signal(number, self._handle)
        _watching.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        self.mode = HELD
        _watching.remove(self)
        for number, handler in self._previous.items():
            signal.signal(number, signal.SIG_IGN if self._last else handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        first, self.requested = not self.requested, True
        if (
            self.mode == HELD
            or (self.mode == AWAITED and first)
            or time.monotonic() < self._struck + REPEAT_SECONDS
        ):
            return
        self.raise_interrupt()

    def raise_interrupt(self) -> None:
        """Raise `KeyboardInterrupt`; what comes soon after waits."""
        self._struck = time.monotonic()
        if self.mode == AWAITED:
            self.mode = HELD
        raise KeyboardInterrupt

    def check(self) -> None:
        """Raise `KeyboardInterrupt` if a signal has come."""
        if self.requested:
            self.raise_interrupt()

    def in_mode(self, mode: str) -> AbstractContextManager[None]:
        """Let signals strike by other rules in a block."""
        return _ModeBlock(self, mode)


class _ModeBlock:
    """A class, since the solver has some in each pass: a generator as context manager takes longer."""

    __slots__ = ("_before", "_mode", "_ours")

    def __init__(self, ours: Interrupts, mode: str) -> None:
        self._ours, self._mode = ours, mode

    def __enter__(self) -> None:
        self._before, self._ours.mode = self._ours.mode, self._mode

    def __exit__(self, *_: object) -> None:
        self._ours.mode = self._before


def active_interrupts() -> Interrupts | None:
    """Return who watches signals; None where nobody does, or in a thread that no signal reaches."""
    here = threading.current_thread() is threading.main_thread()
    return _watching[-1] if _watching and here else None


def requested() -> bool:
    """Whether a signal has come that asks for an end."""
    found = active_interrupts()
    return found is not None and found.requested


def check_signals() -> None:
    """Raise `KeyboardInterrupt` if a signal has come that asks for an end."""
    if (found := active_interrupts()) is not None:
        found.check()


def hold_signals() -> AbstractContextManager[None]:
    """Let signals wait in a block."""
    found = active_interrupts()
    return nullcontext() if found is None else found.in_mode(HELD)


def set_signal_mode(mode: str) -> None:
    """Let signals strike by other rules from here to the end of the function that watches them."""
    if (found := active_interrupts()) is not None:
        found.mode = mode


def interruptible(function: Callable[P, Found]) -> Callable[P, Found]:
    """Make a function raise `Interrupted` for Ctrl-C, with what it would have returned if it came to that.

    Its own `Interrupted`, with the best that it has so far, passes.
    """

    @functools.wraps(function)
    def watched(*words: P.args, **keywords: P.kwargs) -> Found:
        outer = active_interrupts()
        with nullcontext(outer) if outer is not None else _watch_sigint() as ours:
            before = HELD if ours is None else ours.mode
            try:
                if ours is not None and ours is not outer:
                    ours.mode = OPEN
                found = function(*words, **keywords)
            except Interrupted:
                raise
            except KeyboardInterrupt:
                raise Interrupted from None
            finally:
                if ours is not None:
                    ours.mode = before
        if ours is not None and ours.requested:
            raise Interrupted(found)
        return found

    return watched


@contextmanager
def _watch_sigint() -> Iterator[Interrupts | None]:
    """Watch SIGINT where that is ours to do."""
    ours = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    if not ours:
        yield None
        return
    with Interrupts([signal.SIGINT], HELD) as found:
        yield found
