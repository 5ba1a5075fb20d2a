"""What a process that uses a GPU does first.

The driver takes a quarter of a second to start, which passes while NumPy is imported and data are read.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import threading
from collections.abc import Sequence

LARGE = 64 << 20  # bytes of a file that may be worth a GPU


def asks_for_gpu(argv: Sequence[str]) -> bool:
    """Whether the words of a command line ask for one, before anything is imported that could parse them.

    Examples
    --------
    >>> asks_for_gpu(["--device", "cuda", "data"]), asks_for_gpu(["--device=cuda"]), asks_for_gpu(["cuda"])
    (True, True, False)
    """
    return "--device=cuda" in argv or ("--device", "cuda") in itertools.pairwise(argv)


def is_large(path: str) -> bool:
    """Whether a file is so large that ``--device auto`` may take the GPU."""
    with contextlib.suppress(OSError):
        return os.path.getsize(path) >= LARGE
    return False


def start_driver() -> threading.Thread:
    """Start the driver beside what comes next; where there is none, whoever needs it will say so."""

    def start() -> None:
        with contextlib.suppress(OSError, AttributeError):
            driver, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
            if driver.cuInit(0) == 0:
                driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)

    thread = threading.Thread(target=start, daemon=True)
    thread.start()
    return thread
