"""C++ that tests compile: objects and libraries are kept by their content, for other processes and runs.

The key of an object is its text after the preprocessor, with the options and the version of the compiler.
"""

from __future__ import annotations

import functools
import hashlib
import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bmrm.base.caches import cache_folder, lock_file

FOLDER = "BMRM_TEST_COMPILED"
"""Environment variable: the folder, also in the processes that tests start."""
MONTH = 30 * 24 * 3600.0
"""Seconds after which what no run has used is removed."""
ROOT = Path(__file__).parents[1]


def folder() -> Path:
    """Return the folder, one of the user's cache if it can be written; there, remove what is old."""
    if FOLDER in os.environ:
        return Path(os.environ[FOLDER])
    found = Path(cache_folder(), "tests")
    try:
        found.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=found).close()
    except OSError:
        found = Path(tempfile.mkdtemp())
    for path in found.iterdir():
        if path.is_file() and path.stat().st_mtime < time.time() - MONTH:
            path.unlink(missing_ok=True)
    os.environ[FOLDER] = str(found)
    return found


def library(sources: Sequence[Path | str], options: Sequence[str], *, linked: Sequence[str] = ()) -> Path:
    """Return a library of C++ sources; names of files and folders are relative to the checkout."""
    options = ["-std=c++17", "-fPIC", *options]
    with ThreadPoolExecutor(2) as pool:
        objects = list(pool.map(lambda source: _object(source, options), sources))
    words = ["-shared", *map(str, objects), *linked]
    return _made(".so", _digest(*(path.name for path in objects), *linked), words)


def library_of_text(text: str, options: Sequence[str]) -> Path:
    """Return a library of a C++ text."""
    with tempfile.NamedTemporaryFile("w", suffix=".cpp") as file:
        file.write(text)
        file.flush()
        return library([file.name], options)


def _object(source: Path | str, options: Sequence[str]) -> Path:
    words = [*options, "-x", "c++", str(source)]
    text = _compiler("-E", "-P", *words)
    return _made(".o", _digest(text, *options), ["-c", *words])


def _made(suffix: str, digest: str, words: Sequence[str]) -> Path:
    """Return a file of the folder; let the compiler make it if it is not there."""
    path = folder() / (digest + suffix)
    if not path.exists():
        with lock_file(f"{path}.lock"):
            if not path.exists():
                _compiler(*words, "-o", f"{path}.new")
                Path(f"{path}.new").rename(path)
    os.utime(path)
    return path


def _digest(*parts: bytes | str) -> str:
    found = hashlib.sha256(_version())
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        found.update(b"%d:%b" % (len(data), data))
    return found.hexdigest()


@functools.cache
def _version() -> bytes:
    return _compiler("--version")


def _compiler(*words: str) -> bytes:
    return subprocess.run(["g++", *words], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
