"""The entry points of the installed commands.

Imports take a while, and a KeyboardInterrupt during an import would print a traceback. So signals are blocked
from here on until the command handles them.
"""

import signal


def train() -> int:
    """Run ``bmrm-train``."""
    _block_signals()
    from bmrm.cli.train import main

    return main()


def predict() -> int:
    """Run ``bmrm-predict``."""
    _block_signals()
    from bmrm.cli.predict import main

    return main()


def bench() -> int:
    """Run ``bmrm-bench``."""
    _block_signals()
    from bmrm.cli.bench import main

    return main()


def graph() -> int:
    """Run ``bmrm-graph``."""
    _block_signals()
    from bmrm.cli.graph import main

    return main()


def _block_signals() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
