"""Ranks that wait for others nap at once: the tests run side by side, and each needs the cores.

Python imports this file when it starts, if its folder is on the path (mpi.py).
"""

import importlib.util
import sys
import time
from types import ModuleType

FIRST_NAP, LONGEST_NAP = 2e-5, 5e-4  # seconds: each look at the others takes some microseconds of a core


def wait(_: object, request: object) -> None:
    """Wait as `bmrm.distributed.Group` does, with longer naps."""
    nap = FIRST_NAP
    while not request.Test():
        time.sleep(nap)
        nap = min(1.25 * nap, LONGEST_NAP)


class NapAtOnce:
    """Changes the module when a program imports it: to import it here would start MPI."""

    def find_spec(self, name: str, *_: object) -> object:
        if name != "bmrm.distributed.group":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            module.Group._wait = wait

        spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, NapAtOnce())
