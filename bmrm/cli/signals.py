"""SIGINT and SIGTERM in a command: however many arrive, no output is lost and the exit code is as documented.

Signals wait from the first line of the command to its last, with two exceptions. Reading may take long and
has nothing to lose, so there a signal is raised at once. And the solver ends after the iteration in which the
first signal arrives.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from importlib import import_module

from bmrm.base import interrupts

MAX_IMPORT_WAIT_SECONDS = 1.0
"""How long a failing command waits for imports in the background, which it no longer needs."""


class CommandInterrupts(interrupts.Interrupts):
    """The signal handler of a command; see `bmrm.base.interrupts`."""

    def importing(self, *modules: str) -> None:
        """Import modules while signals wait: an exception in an import may be lost, or break a module."""
        with self.held_back():
            for module in modules:
                import_module(module)

    @contextlib.contextmanager
    def importing_in_background(self, *modules: str) -> Iterator[None]:
        """Import modules in the background; a failed import shows again where the module is needed.

        A `KeyboardInterrupt` inside an import may leave Python's import lock locked (3.11), for which the
        background thread would wait forever. So the command waits for that thread only for a limited time.
        """

        def import_all() -> None:
            with contextlib.suppress(Exception):
                for module in modules:
                    import_module(module)

        thread = threading.Thread(target=import_all, daemon=True)
        thread.start()
        try:
            yield
        except BaseException:
            with self.in_mode(interrupts.HELD):
                thread.join(MAX_IMPORT_WAIT_SECONDS)
            raise
        thread.join()

    @contextlib.contextmanager
    def held_back(self) -> Iterator[None]:
        """Let signals wait inside the block, and raise afterwards."""
        with self.in_mode(interrupts.HELD):
            yield
        self.check()

    @contextlib.contextmanager
    def opened(self) -> Iterator[None]:
        """Raise signals at once inside the block, including those that have waited."""
        with self.in_mode(interrupts.OPEN):
            self.check()
            yield
