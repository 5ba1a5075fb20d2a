"""Machine code on disk, so that a machine compiles a row function once.

A file holds the object code of one text. Its name is a checksum of everything that the code depends on: the
text, the processor, and the versions of the compiler and of this package. Machine code is run without
further checks, so a file is used only if this user alone could have written it (the folder and the file
belong to the user, and nobody else has access to the folder) and its own checksum is right. A file that is
missing, damaged or not to be trusted is compiled again; a folder that cannot be used only costs time.
Processes that compile at the same time, such as the ranks of a job, take turns, and all but the first find
the code of the first. If there are too many files or bytes, those used longest ago go; a process that has
opened one of them reads it to its end.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Callable

from bmrm.base.atomic import atomic_write
from bmrm.base.caches import cache_folder, lock_file
from bmrm.base.version import __version__
from bmrm.io.regular import open_own_file

MAX_OBJECTS = 1024
"""Maximum number of files; one has 10 to 100 kB."""

MAX_BYTES = 1 << 28
"""Maximum size of all files."""

MAX_OBJECT_BYTES = 1 << 24
"""Maximum size of a file that is read."""

_MAGIC = b"bmrm object 1\n"
_DIGEST_BYTES = hashlib.sha256().digest_size


def load_or_make(key: str, make: Callable[[], bytes]) -> bytes:
    """Return the object code of a key from the disk, or make it and keep it there.

    Parameters
    ----------
    key : str
        Everything that the code depends on.
    make : callable
        Compiles; what it raises is passed on.
    """
    folder = os.path.join(cache_folder(), f"code-{__version__}")
    path = os.path.join(folder, hashlib.sha256(key.encode()).hexdigest() + ".o")
    found = _load(folder, path)
    if found is not None:
        return found
    if not _is_private(folder, make=True):
        return make()
    with lock_file(os.path.join(folder, "lock")):
        found = _load(folder, path)  # another process may have been faster
        if found is None:
            found = make()
            _store(folder, path, found)
    return found


def _is_private(folder: str, *, make: bool = False) -> bool:
    """Return whether a folder belongs to this user, and nobody else has access to it."""
    with contextlib.suppress(OSError):
        if make and not os.path.lexists(folder):
            os.makedirs(os.path.dirname(folder), exist_ok=True)
            with contextlib.suppress(FileExistsError):
                os.mkdir(folder, 0o700)
        status = os.lstat(folder)
        return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077
    return False


def _load(folder: str, path: str) -> bytes | None:
    if not _is_private(folder):
        return None
    try:
        with open_own_file(path) as (file, status):
            content = file.read(MAX_OBJECT_BYTES + 1)
    except OSError:
        return None
    code = content[len(_MAGIC) + _DIGEST_BYTES :]
    is_good = (
        status.st_uid == os.geteuid()
        and len(content) <= MAX_OBJECT_BYTES
        and content.startswith(_MAGIC + _checksum(path, code))
    )
    if not is_good:
        return None
    with contextlib.suppress(OSError):
        os.utime(path)  # the time of its last use
    return code


def _checksum(path: str, code: bytes) -> bytes:
    """Return a checksum of a file's name and code: those of another file do not fit."""
    return hashlib.sha256(os.path.basename(path).encode() + code).digest()


def _store(folder: str, path: str, code: bytes) -> None:
    content = _MAGIC + _checksum(path, code) + code
    with contextlib.suppress(OSError):
        _make_room(folder, len(content))
        with atomic_write(path, follow=False) as file:
            file.write(content)


def _make_room(folder: str, size: int) -> None:
    """Remove the files used longest ago until one of a size fits."""
    found = []
    for entry in os.scandir(folder):
        with contextlib.suppress(FileNotFoundError):  # by a process without the lock
            if entry.name.endswith(".o"):
                status = entry.stat(follow_symlinks=False)
                found.append((status.st_mtime_ns, status.st_size, entry.path))
    count, total = len(found), sum(each for _, each, _ in found)
    for _, each, path in sorted(found):
        if count < MAX_OBJECTS and total + size <= MAX_BYTES:
            break
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        count, total = count - 1, total - each
