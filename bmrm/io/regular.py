"""Regular files that others may truncate, replace or write to while they are read.

No file is mapped: accessing a page that the file has lost would kill the process by a signal, and bytes could
change after they were checked. Bytes are read into our own memory and checked there.
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
from bmrm.io import _text

UNCHANGED_FILE = "a file that does not change while it is read"
"""What messages say is expected."""


@contextlib.contextmanager
def check_unchanged(descriptor: int, before: os.stat_result, name: str) -> Iterator[None]:
    """Raise `DataError` if a file has changed by the end of a block, instead of an error that this caused."""
    try:
        yield
    except (DataError, _text.ChangedError) as error:
        _check_status(descriptor, before, name)
        if isinstance(error, DataError):
            raise
        raise DataError(f"{name}: found an early end, expected {UNCHANGED_FILE}") from None
    _check_status(descriptor, before, name)


def _check_status(descriptor: int, before: os.stat_result, name: str) -> None:
    now = os.fstat(descriptor)
    if now.st_size != before.st_size:
        found = f"{now.st_size} bytes instead of {before.st_size}"
    elif now.st_mtime_ns != before.st_mtime_ns:
        found = "other content than before"
    else:
        return
    raise DataError(f"{name}: found {found}, expected {UNCHANGED_FILE}") from None


def read_array(file: BinaryIO, dtype: Any, shape: tuple[int, ...], offset: int) -> NDArray[Any]:
    """Read an array in C order from a file that was long enough for it when it was opened.

    Raise `_text.ChangedError` if the file is shorter than it was.
    """
    found = np.empty(shape, dtype)
    _text.read_into(file.fileno(), found.reshape(-1).view(np.uint8), offset)
    return found


@contextlib.contextmanager
def open_own_file(path: str) -> Iterator[tuple[BinaryIO, os.stat_result]]:
    """Open a file that the package itself has written, if it is a regular file and not a link.

    Raise `OSError` if the file is missing, or is not a regular file.
    """
    # Without O_NONBLOCK opening a pipe would wait for its writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise FileExistsError(errno.EEXIST, "not a regular file", path)
        yield cast(BinaryIO, file), status
