"""Write files that appear whole or not at all.

A file is written under a temporary name in the folder of the target, flushed to the disk, and renamed to the
target. Rename is atomic within a file system, so a reader sees the old file or the new one but never a part,
even after a crash or on a full disk. The new file has the permissions of the file that it replaces and never
more, not even while it is written. Targets that are not files in a folder (a pipe, ``/dev/full``, or
``/dev/stdout`` wherever it leads) cannot be replaced by a rename and are written directly.

A process that is killed while it writes leaves its temporary file behind. Each writer holds a lock (flock) on
its own, so the next writer in that folder recognises abandoned files and removes them.
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
_file_numbers = itertools.count()  # so that a process uses no temporary name twice
_cleaned_folders: set[str] = set()  # from which this process has removed abandoned files


@contextlib.contextmanager
def atomic_write(
    path: str | os.PathLike[str], *, like: os.stat_result | None = None, follow: bool = True
) -> Iterator[BinaryIO]:
    """Write a file that appears under its name only when it is complete.

    - ``path``: the file to write. The permissions of an existing one are kept.
    - ``like``: status of a file whose permissions the new one gets instead
    - ``follow``: whether to follow a symbolic link. If not, a link is an error, like anything except a
      regular file.

    Leaving the block with an exception removes what was written. Raise `OSError` if the folder cannot be
    written or the disk is full; ``filename`` is ``path``.

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
        status = _status(name, follow)
        if not follow:
            target = os.path.join(os.path.realpath(os.path.dirname(name)), os.path.basename(name))
            with _write_replacement(target, like or status) as file:
                yield file
        elif _is_replaceable(name, status):
            with _write_replacement(os.path.realpath(name), like or status) as file:
                yield file
        else:
            with open(name, "ab") as file:  # append: stdout may be a file that already has lines
                yield file
                file.flush()
    except OSError as error:
        raise _name_target(error, name) from None


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise the `OSError` that `atomic_write` would raise later if the target cannot be written.

    Examples
    --------
    >>> check_writable("no such folder/model")
    Traceback (most recent call last):
    FileNotFoundError: [Errno 2] No such file or directory: 'no such folder/model'
    """
    name = os.fspath(path)
    try:
        status = _status(name)
        if status is None or _is_replaceable(name, status):
            descriptor, temporary = _create_beside(os.path.realpath(name), status)
            os.close(descriptor)
            os.unlink(temporary)
        elif stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
        elif not os.access(name, os.W_OK):  # opening a pipe to find out would wait for its reader
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)
    except OSError as error:
        raise _name_target(error, name) from None


def _name_target(error: OSError, name: str) -> OSError:
    """Put the target into an error: a failed write has no name, a failed open or rename the temporary one."""
    if error.filename is None or str(error.filename).endswith(_SUFFIX):
        return OSError(error.errno, error.strerror, name)
    return error


def _status(name: str, follow: bool = True) -> os.stat_result | None:
    try:
        status = os.stat(name, follow_symlinks=follow)
    except FileNotFoundError:
        if name.endswith("/"):  # `realpath` would drop the slash
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name) from None
        return None
    if not (follow or stat.S_ISREG(status.st_mode)):
        raise FileExistsError(errno.EEXIST, "not a regular file", name)
    return status


def _is_replaceable(name: str, status: os.stat_result | None) -> bool:
    """Return whether a new file may replace the target; names of descriptors mean what is open there."""
    is_descriptor = name in ("/dev/stdout", "/dev/stderr") or name.startswith(("/dev/fd/", "/proc/"))
    return not is_descriptor and (status is None or stat.S_ISREG(status.st_mode))


def _create_beside(target: str, like: os.stat_result | None) -> tuple[int, str]:
    """Create a locked file in the folder of the target; return its descriptor and its path.

    Unlike mkstemp's, its permissions follow the umask. If it will get those of another file, only the owner
    has access until then.
    """
    mode = 0o666 if like is None else like.st_mode & 0o600
    folder = os.path.dirname(target)
    _remove_abandoned(folder)
    for number in _file_numbers:
        temporary = os.path.join(folder, f".{os.getpid()}-{number}{_SUFFIX}")
        with contextlib.suppress(FileExistsError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            descriptor = os.open(temporary, flags, mode)
            # Before the lock, another process may have removed the file as abandoned.
            if _try_lock(descriptor) is not False and os.fstat(descriptor).st_nlink:
                return descriptor, temporary
            os.close(descriptor)
    raise AssertionError("unreachable")


def _try_lock(descriptor: int) -> bool | None:
    """Lock an open file until it is closed; False if another process holds it, None if locks do not work."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # the file system has no locks
        return None
    return True


def _remove_abandoned(folder: str) -> None:
    """Remove files that killed processes left in a folder, once per folder and process."""
    if folder in _cleaned_folders:
        return
    _cleaned_folders.add(folder)
    with contextlib.suppress(OSError):
        for name in filter(_TEMPORARY.fullmatch, os.listdir(folder)):
            with contextlib.suppress(OSError):
                path = os.path.join(folder, name)
                descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
                try:
                    if _try_lock(descriptor):
                        os.unlink(path)
                finally:
                    os.close(descriptor)


@contextlib.contextmanager
def _write_replacement(target: str, like: os.stat_result | None) -> Iterator[BinaryIO]:
    descriptor, temporary = _create_beside(target, like)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            if like is not None:
                _copy_permissions(descriptor, like)
            os.fsync(descriptor)
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    _sync_folder(os.path.dirname(target))


def _copy_permissions(descriptor: int, like: os.stat_result) -> None:
    """Give a file the permissions of another one; no group gets more access than it has to the other."""
    mode = like.st_mode & 0o777
    if os.fstat(descriptor).st_gid != like.st_gid:
        try:
            os.fchown(descriptor, -1, like.st_gid)
        except OSError:  # we are not in that group
            mode &= ~0o070 | (mode & 0o007) << 3  # our own group gets what others have
    os.fchmod(descriptor, mode)


def _sync_folder(folder: str) -> None:
    """Make the rename itself durable, if the file system supports that."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
