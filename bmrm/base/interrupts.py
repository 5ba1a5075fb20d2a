"""Signals that ask the program to stop: where they interrupt, where they wait, and what is returned then.

Python raises KeyboardInterrupt wherever the main thread happens to be, even inside a `finally`, and a second
signal interrupts the cleaning up after the first. Here a signal interrupts once, and only where nothing is
lost. Everywhere else it is noted, and the code checks for it at the next safe place (`check_signals`).

The commands handle SIGINT and SIGTERM from their first line to their last. A long function of the package
(`interruptible`) handles SIGINT while it runs in the main thread, unless another handler is already
installed. It raises `Interrupted`.
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
"""Mode in which a signal interrupts at once."""

AWAITED = "awaited"
"""Mode in which the first signal is noted and the second interrupts."""

HELD = "held"
"""Mode in which signals are only noted."""

REPEAT_SECONDS = 5.0
"""Time after which a signal may interrupt once more, in case something swallowed the first exception."""

SIGNAL_SECONDS = 0.1
"""Time between two looks at signals that are only noted."""

_watching: list[Interrupts] = []


class Interrupts:
    """Signal handlers that are installed while the block runs.

    - ``mode``: that at the start of the block
    - ``last``: the process ends with the block, so signals are ignored after it
    - ``requested``: whether a signal has arrived
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
                if signal.getsignal(number) != signal.SIG_IGN:  # nohup and background jobs keep ignoring it
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
        """Raise `KeyboardInterrupt`; signals that follow soon are only noted."""
        self._struck = time.monotonic()
        if self.mode == AWAITED:
            self.mode = HELD
        raise KeyboardInterrupt

    def check(self) -> None:
        """Raise `KeyboardInterrupt` if a signal has arrived."""
        if self.requested:
            self.raise_interrupt()

    def in_mode(self, mode: str) -> AbstractContextManager[None]:
        """Use another mode within a block."""
        return _ModeBlock(self, mode)


class _ModeBlock:
    """Context manager of a mode; a class, since the solver enters some per pass and generators are slower."""

    __slots__ = ("_before", "_mode", "_ours")

    def __init__(self, ours: Interrupts, mode: str) -> None:
        self._ours, self._mode = ours, mode

    def __enter__(self) -> None:
        self._before, self._ours.mode = self._ours.mode, self._mode

    def __exit__(self, *_: object) -> None:
        self._ours.mode = self._before


def active_interrupts() -> Interrupts | None:
    """Return the installed handlers; None if there are none, or outside the main thread."""
    here = threading.current_thread() is threading.main_thread()
    return _watching[-1] if _watching and here else None


def requested() -> bool:
    """Return whether a signal has asked the program to stop."""
    found = active_interrupts()
    return found is not None and found.requested


def check_signals() -> None:
    """Raise `KeyboardInterrupt` if a signal has asked the program to stop."""
    if (found := active_interrupts()) is not None:
        found.check()


def hold_signals() -> AbstractContextManager[None]:
    """Make signals wait until the end of a block."""
    found = active_interrupts()
    return nullcontext() if found is None else found.in_mode(HELD)


def set_signal_mode(mode: str) -> None:
    """Use another mode from here to the end of the function that handles the signals."""
    if (found := active_interrupts()) is not None:
        found.mode = mode


def wait_for(work: Callable[[], Found], leave: Callable[[], None] | None = None) -> Found:
    """Run compiled work, which looks for no signals, in a thread of its own: Ctrl-C ends the wait for it.

    ``leave`` makes the work end soon; it is called after Ctrl-C, and the end is waited for. Without it the
    work goes on, as a compiler's does, and the process ends after it.

    Examples
    --------
    >>> wait_for(lambda: 3)
    3
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    found: list[Found] = []
    failures: list[BaseException] = []
    done = threading.Event()  # a signal during join() makes Python 3.11 and 3.12 take a thread for ended

    def run() -> None:
        try:
            found.append(work())
        except BaseException as failure:
            failures.append(failure)
        finally:
            done.set()

    thread = threading.Thread(target=run)
    try:
        thread.start()
        while not done.wait(SIGNAL_SECONDS):
            check_signals()
        thread.join()
        check_signals()
    except BaseException:
        if leave is not None:
            leave()
            if thread.ident is not None:
                done.wait()
                thread.join()
        raise
    if failures:
        raise failures[0]
    return found[0]


def interruptible(function: Callable[P, Found]) -> Callable[P, Found]:
    """Make a function raise `Interrupted` for Ctrl-C, with its result if it finished nevertheless.

    An `Interrupted` that the function raises itself, with its best result so far, passes through.
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
    """Handle SIGINT in a block, unless a handler of the user's is installed or this is another thread."""
    ours = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    if not ours:
        yield None
        return
    with Interrupts([signal.SIGINT], HELD) as found:
        yield found
