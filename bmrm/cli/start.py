"""Where the commands start, as they are installed.

A command imports for a while, and a KeyboardInterrupt in there is a traceback. So signals wait from here on
until the command watches them.
"""

import signal


def train() -> int:
    """Run ``bmrm-train``."""
    _hold_signals()
    from bmrm.cli.train import main

    return main()


def predict() -> int:
    """Run ``bmrm-predict``."""
    _hold_signals()
    from bmrm.cli.predict import main

    return main()


def bench() -> int:
    """Run ``bmrm-bench``."""
    _hold_signals()
    from bmrm.cli.bench import main

    return main()


def _hold_signals() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
