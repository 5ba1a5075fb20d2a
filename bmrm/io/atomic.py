"""Files that appear whole or not at all.

A file is written under a temporary name in its own folder, flushed to the disk and renamed over the
target: rename is atomic within a file system, so a reader, a crash or a full disk sees the old file or
the new one, never half of one. Targets that are no files of a folder (a pipe, ``/dev/full``, or
``/dev/stdout``, wherever it leads) cannot be renamed over and are written directly.

A process that is killed while it writes leaves its temporary file. Writers hold a lock on theirs (flock), so
that the next one in that folder knows what nobody is writing any more, and removes it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import itertools
import os
import re
import stat
from collections.abc import Iterator
from typing import BinaryIO

_SUFFIX = ".bmrm-tmp"
_TEMPORARY = re.compile(r"\.\d+-\d+\.bmrm-tmp")
_numbers = itertools.count()  # so that no name comes twice from one process
_swept: set[str] = set()


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Write a file that appears under its name only when it is complete.

    Parameters
    ----------
    path : str or path-like
        The file to write. A symbolic link is followed, and an existing file's permissions are kept.

    Yields
    ------
    file : binary file object
        Open for writing. Leaving the block with an exception removes what was written.

    Raises
    ------
    OSError
        The folder cannot be written or the disk is full; ``filename`` is ``path``.

    Examples
    --------
    >>> import os, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> with atomic_write(os.path.join(folder, "a.txt")) as file:
    ...     _ = file.write(b"whole")
    >>> os.listdir(folder)
    ['a.txt']
    """
    name = os.fspath(path)
    try:
        mode = _mode(name)
        if _is_replaceable(name, mode):
            with _replacing(os.path.realpath(name), mode) as file:
                yield file
        else:
            with open(name, "ab") as file:  # stdout may be a file that has lines already
                yield file
                file.flush()
    except OSError as error:
        raise _named(error, name) from None


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise now the `OSError` that `atomic_write` would raise for a folder that cannot be written.

    Examples
    --------
    >>> check_writable("no such folder/model")
    Traceback (most recent call last):
    FileNotFoundError: [Errno 2] No such file or directory: 'no such folder/model'
    """
    name = os.fspath(path)
    try:
        mode = _mode(name)
        if mode is None or _is_replaceable(name, mode):
            descriptor, temporary = _create_beside(os.path.realpath(name))
            os.close(descriptor)
            os.unlink(temporary)
        elif stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
        elif not os.access(name, os.W_OK):  # opening a pipe to see would wait for its reader
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)
    except OSError as error:
        raise _named(error, name) from None


def _named(error: OSError, name: str) -> OSError:
    """Name the target: a failed write knows no name, a failed open or rename the temporary one."""
    if error.filename is None or str(error.filename).endswith(_SUFFIX):
        return OSError(error.errno, error.strerror, name)
    return error


def _mode(name: str) -> int | None:
    try:
        return os.stat(name).st_mode
    except FileNotFoundError:
        if name.endswith("/"):  # which `realpath` drops
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name) from None
        return None


def _is_replaceable(name: str, mode: int | None) -> bool:
    """Tell whether a new file may take the name; a name of a descriptor stands for what is open there."""
    is_descriptor = name in ("/dev/stdout", "/dev/stderr") or name.startswith(("/dev/fd/", "/proc/"))
    return not is_descriptor and (mode is None or stat.S_ISREG(mode))


def _create_beside(target: str) -> tuple[int, str]:
    """Create a new file in the target's folder; its permissions follow the umask, unlike mkstemp's."""
    folder = os.path.dirname(target)
    _sweep(folder)
    for number in _numbers:
        temporary = os.path.join(folder, f".{os.getpid()}-{number}{_SUFFIX}")
        with contextlib.suppress(FileExistsError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            descriptor = os.open(temporary, flags, 0o666)
            # Another process may have taken the file for a left-over before it was locked.
            if _locks(descriptor) is not False and os.fstat(descriptor).st_nlink:
                return descriptor, temporary
            os.close(descriptor)
    raise AssertionError("unreachable")


def _locks(descriptor: int) -> bool | None:
    """Lock an open file until it is closed; False where another process has it, None without locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # the file system has none
        return None
    return True


def _sweep(folder: str) -> None:
    """Remove what killed processes left in a folder, the first time that this process writes there."""
    if folder in _swept:
        return
    _swept.add(folder)
    with contextlib.suppress(OSError):
        for name in filter(_TEMPORARY.fullmatch, os.listdir(folder)):
            with contextlib.suppress(OSError):
                path = os.path.join(folder, name)
                descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
                try:
                    if _locks(descriptor):
                        os.unlink(path)
                finally:
                    os.close(descriptor)


@contextlib.contextmanager
def _replacing(target: str, mode: int | None) -> Iterator[BinaryIO]:
    descriptor, temporary = _create_beside(target)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            if mode is not None:
                os.fchmod(descriptor, stat.S_IMODE(mode))
            os.fsync(descriptor)
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    _sync_folder(os.path.dirname(target))


def _sync_folder(folder: str) -> None:
    """Make the rename itself durable, where the file system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
