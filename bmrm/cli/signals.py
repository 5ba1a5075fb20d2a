"""SIGINT and SIGTERM in a command: however many come, nothing is lost and the exit code is as documented.

They wait from the first line of the command to its last. But they strike while it reads, which may take
long and has nothing to lose, and the solver ends its iteration for the first one.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from importlib import import_module

from bmrm.base import interrupts

LEFT_BEHIND = 1.0  # seconds for imports in a thread of their own to end, once nobody needs them


class Interrupts(interrupts.Interrupts):
    """Signals as a command watches them; see `bmrm.base.interrupts`."""

    def importing(self, *modules: str) -> None:
        """Import modules, with signals held back: raised there they may be lost, or break a module."""
        with self.held_back():
            for module in modules:
                import_module(module)

    @contextlib.contextmanager
    def importing_beside(self, *modules: str) -> Iterator[None]:
        """Import modules beside what mostly waits; what is wrong with them is told by who needs them.

        A `KeyboardInterrupt` that strikes inside an import may leave Python's import lock locked (3.11), for
        which the thread would wait for ever. So nobody waits for it that long, and signals get through.
        """

        def bring() -> None:
            with contextlib.suppress(Exception):
                for module in modules:
                    import_module(module)

        thread = threading.Thread(target=bring, daemon=True)
        thread.start()
        try:
            yield
        except BaseException:
            with self.in_mode(interrupts.HELD):
                thread.join(LEFT_BEHIND)
            raise
        thread.join()

    @contextlib.contextmanager
    def held_back(self) -> Iterator[None]:
        """Let signals wait, and raise behind."""
        with self.in_mode(interrupts.HELD):
            yield
        self.check()

    @contextlib.contextmanager
    def opened(self) -> Iterator[None]:
        """Let signals strike at once, those that have waited too."""
        with self.in_mode(interrupts.OPEN):
            self.check()
            yield
