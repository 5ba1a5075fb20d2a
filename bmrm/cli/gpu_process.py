"""Start the GPU driver early.

The driver takes a quarter of a second to start; meanwhile NumPy is imported and data are read.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import threading
from collections.abc import Sequence

LARGE_FILE_BYTES = 64 << 20
"""Size of a file from which ``--device auto`` may choose the GPU, so that the driver is started early."""


def asks_for_gpu(argv: Sequence[str]) -> bool:
    """Return whether a command line asks for the GPU, before the imports of its parser.

    Examples
    --------
    >>> asks_for_gpu(["--device", "cuda", "data"]), asks_for_gpu(["--device=cuda"]), asks_for_gpu(["cuda"])
    (True, True, False)
    """
    return "--device=cuda" in argv or ("--device", "cuda") in itertools.pairwise(argv)


def is_large(path: str) -> bool:
    """Return whether a file is so large that ``--device auto`` may choose the GPU."""
    with contextlib.suppress(OSError):
        return os.path.getsize(path) >= LARGE_FILE_BYTES
    return False


def start_driver() -> threading.Thread:
    """Start the driver in the background; if there is none, the code that needs it reports this."""

    def start() -> None:
        with contextlib.suppress(OSError, AttributeError):
            driver, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
            if driver.cuInit(0) == 0:
                driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)

    thread = threading.Thread(target=start, daemon=True)
    thread.start()
    return thread
