"""One thread of BLAS for small matrices, while the package's own threads work.

NumPy's and SciPy's linear algebra is OpenBLAS in their wheels. A call that wakes its threads leaves them
spinning for 2^26 ticks of the clock: some 40 ms of processor time were measured after eigenvalues of 32 x 32,
singular values of 48 x 48 or QR of 96 x 96. A method that alternates between them and loops of its own has
more threads than cores, and waits for those without a core in time slices of milliseconds: with one thread of
BLAS a fit of PCA on 9000 x 64 took 2.9 ms on two busy cores instead of 60.

The number of threads of OpenBLAS belongs to the process. Several threads of a program may be here at once:
the first one saves the number, and the last one restores it. An OpenBLAS that is built with OpenMP shares its
threads, and is left as it is, like any other BLAS.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

LOADED_LIBRARIES = Path("/proc/self/maps")
"""Where Linux lists the files that the process has mapped."""

MAX_SMALL_COLUMNS = 256
"""Columns of a matrix up to which one thread computes its eigenvalues in some 10 ms."""

POSIX_THREADS = 1
"""What ``openblas_get_parallel`` returns if the library has threads of its own."""

PREFIXES, SUFFIXES = ("scipy_", ""), ("64_", "_64", "")
"""What builds of OpenBLAS put around the names of its functions."""

FUNCTIONS = ("get_num_threads", "set_num_threads", "get_parallel")


class _OpenBlas(NamedTuple):
    get_threads: Callable[[], int]
    set_threads: Callable[[int], object]


_lock = threading.Lock()
_inside = 0
_saved: list[tuple[_OpenBlas, int]] = []


@contextmanager
def small_matrices(columns: int) -> Iterator[None]:
    """Run a block on one thread of each OpenBLAS that is loaded if its matrices are small.

    - ``columns``: maximum number of columns of its matrices

    Examples
    --------
    >>> import numpy as np
    >>> with small_matrices(3):
    ...     np.linalg.eigvalsh(np.eye(3))
    array([1., 1., 1.])
    """
    global _inside
    if columns > MAX_SMALL_COLUMNS:
        yield
        return
    with _lock:
        _inside += 1
        if _inside == 1:
            for library in _libraries("scipy.linalg" in sys.modules):
                _saved.append((library, library.get_threads()))
                library.set_threads(1)
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                while _saved:
                    library, threads = _saved.pop()
                    library.set_threads(threads)


@functools.cache
def _libraries(_with_scipy: bool) -> list[_OpenBlas]:
    """Return the libraries that are loaded; SciPy's comes with ``scipy.linalg``."""
    import ctypes

    try:
        lines = LOADED_LIBRARIES.read_text(errors="replace").splitlines()
    except OSError:
        return []
    paths = {line.partition("/")[2] for line in lines if "openblas" in line.rpartition("/")[2]}
    found = []
    for path in sorted(paths):
        try:
            library = ctypes.CDLL("/" + path)
        except OSError:  # a file that was replaced since
            continue
        for prefix in PREFIXES:
            for suffix in SUFFIXES:
                names = (f"{prefix}openblas_{word}{suffix}" for word in FUNCTIONS)
                get, set_, parallel = (getattr(library, name, None) for name in names)
                if get and set_ and parallel and parallel() == POSIX_THREADS:
                    set_.argtypes, set_.restype = (ctypes.c_int,), None
                    found.append(_OpenBlas(get, set_))
    return found
