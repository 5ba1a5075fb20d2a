"""Regular files that others may cut, replace or write to while they are read.

No file is mapped: a page that the file has lost would end the process by a signal, and bytes that have been
checked could still change. Bytes are read into memory of our own, and checked there.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from bmrm.errors import DataError
from bmrm.io import _svmlight

UNCHANGED_FILE = "a file that nobody writes to while it is read"


@contextlib.contextmanager
def check_unchanged(descriptor: int, before: os.stat_result, name: str) -> Iterator[None]:
    """Raise where a file has changed by the end of the block, in place of any fault that came of it.

    Raises
    ------
    DataError
    """
    try:
        yield
    except (DataError, _svmlight.ChangedError) as error:
        _check_status(descriptor, before, name)
        if isinstance(error, DataError):
            raise
        raise DataError(f"{name}: found its end too early, expected {UNCHANGED_FILE}") from None
    _check_status(descriptor, before, name)


def _check_status(descriptor: int, before: os.stat_result, name: str) -> None:
    now = os.fstat(descriptor)
    if now.st_size != before.st_size:
        found = f"{now.st_size} bytes of {before.st_size}"
    elif now.st_mtime_ns != before.st_mtime_ns:
        found = "other content than before"
    else:
        return
    raise DataError(f"{name}: found {found}, expected {UNCHANGED_FILE}") from None


def read_array(file: BinaryIO, dtype: Any, shape: tuple[int, ...], offset: int) -> NDArray[Any]:
    """Read an array in C order that a file is known to be long enough for.

    Raises
    ------
    _svmlight.ChangedError
        The file is shorter than it was.
    """
    found = np.empty(shape, dtype)
    _svmlight.read_into(file.fileno(), found.reshape(-1).view(np.uint8), offset)
    return found


@contextlib.contextmanager
def open_own_file(path: str) -> Iterator[tuple[BinaryIO, os.stat_result]]:
    """Open a file that the package itself has put somewhere, if it is one and no link to one.

    Raises
    ------
    OSError
        There is none, or what has its name is no regular file.
    """
    # Without O_NONBLOCK opening a pipe would wait for its writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise FileExistsError(errno.EEXIST, "not a regular file", path)
        yield cast(BinaryIO, file), status
