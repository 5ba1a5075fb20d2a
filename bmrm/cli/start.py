"""The entry points of the installed commands.

Imports take a while, and a KeyboardInterrupt during an import would print a traceback. So signals are blocked
from here on until the command handles them.
"""

import signal
from functools import partial
from importlib import import_module


def _start(command: str) -> int:
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
    code: int = import_module(f"bmrm.cli.{command}").main()
    return code


front, train, predict, bench, graph, cluster, info, pairs = (
    partial(_start, command)
    for command in ("front", "train", "predict", "bench", "graph", "cluster", "info", "pairs")
)
