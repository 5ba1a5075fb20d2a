"""Where the package keeps what it can compute again, and turns of processes that write there."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator


def cache_folder() -> str:
    """Return the folder of all caches, ``$XDG_CACHE_HOME/bmrm`` or ``~/.cache/bmrm``; it need not exist."""
    folder = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(folder, "bmrm")


@contextlib.contextmanager
def lock_file(name: str) -> Iterator[None]:
    """Hold a lock on a file during the block, if it can be written at all; make its folder if needed."""
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError):
            os.makedirs(os.path.dirname(name), exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            fcntl.flock(held.enter_context(os.fdopen(os.open(name, flags, 0o666), "wb")), fcntl.LOCK_EX)
        yield
