"""Machine code on disk, so that a machine compiles a row function once.

A file holds the object code of one text. Its name is a checksum of everything that the code depends on: the
text, the processor, and the versions of the compiler and of this package. Machine code is run without
further checks, so a file is used only if this user alone could have written it (the folder and the file
belong to the user, and nobody else has access to the folder) and its own checksum is right. A file that is
missing, damaged or not to be trusted is compiled again; a folder that cannot be used only costs time.
Processes that compile at the same time, such as the ranks of a job, take turns, and all but the first find
the code of the first.
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
"""Maximum number of files; one has some ten kilobytes. Those written first are removed first."""

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
    return code if is_good else None


def _checksum(path: str, code: bytes) -> bytes:
    """Return a checksum of a file's name and code: those of another file do not fit."""
    return hashlib.sha256(os.path.basename(path).encode() + code).digest()


def _store(folder: str, path: str, code: bytes) -> None:
    with contextlib.suppress(OSError):
        others = [entry for entry in os.scandir(folder) if entry.name.endswith(".o")]
        others.sort(key=lambda entry: entry.stat().st_mtime_ns)
        for entry in others[: max(0, len(others) + 1 - MAX_OBJECTS)]:
            os.unlink(entry.path)
        with atomic_write(path, follow=False) as file:
            file.write(_MAGIC + _checksum(path, code) + code)
