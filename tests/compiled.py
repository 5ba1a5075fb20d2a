"""C++ and row functions that tests compile: what is kept, by its content, serves later runs."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import hashlib
import importlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bmrm.base.caches import cache_folder
from bmrm.base.version import __version__

FOLDER = "BMRM_TEST_COMPILED"
"""Environment variable: the folder, also in the processes that tests start."""
MONTH = 30 * 24 * 3600.0
"""Seconds after which a library or machine code goes: it is then made again, a library from the store."""
ROOT = Path(__file__).parents[1]
FOR_EMULATOR = ("-O1", "-w", "-fvisibility=hidden", "-fno-strict-aliasing", "-Isrc_common")
"""Options for text of CUDA with ``tests/emulator/warps.h``, whose state is that of one library."""

sys.path.append(str(ROOT))
steps = importlib.import_module("building.steps")


def folder() -> Path:
    """Return the folder, one of the user's cache if it can be written."""
    if FOLDER in os.environ:
        return Path(os.environ[FOLDER])
    found = Path(cache_folder(), "tests")
    try:
        found.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=found).close()
    except OSError:
        found = Path(tempfile.mkdtemp())
    for path in (*found.glob("libraries/*"), *found.glob("code/*")):
        if path.stat().st_mtime < time.time() - MONTH:
            path.unlink(missing_ok=True)
    steps.Store(found / "objects").trim()
    os.environ[FOLDER] = str(found)
    return found


def lend_code(cache: Path) -> Path:
    """Give a new cache the machine code of row functions that earlier runs have kept; return its folder.

    A file holds the code of one text, and its name is a checksum of that text, the processor and the
    versions: a function that compiles to another text is compiled again.
    """
    lent = cache / "bmrm" / f"code-{__version__}"
    lent.mkdir(mode=0o700, parents=True)
    _share(folder() / "code", lent)
    return lent


def keep_code(lent: Path) -> None:
    """Keep what was compiled since the code was lent."""
    kept = folder() / "code"
    kept.mkdir(exist_ok=True)
    _share(lent, kept)


def _share(source: Path, target: Path) -> None:
    """Let a folder have the files of another one that it lacks; links share the time of the last use."""
    for path in source.glob("*.o"):
        with contextlib.suppress(FileExistsError, FileNotFoundError):
            try:
                os.link(path, target / path.name)
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                shutil.copy2(path, target)


def library(sources: Sequence[str], options: Sequence[str]) -> Path:
    """Return a library of C++ sources, whose names are relative to the checkout."""
    return library_of_text("".join(f'#include "{ROOT / source}"\n' for source in sources), options)


def with_emulator(*texts: str) -> ctypes.CDLL:
    """Return C++ of ``src_cuda`` without launches in angle brackets, and what includes ``runtime.cpp``."""
    folders = ("tests/emulator", "src_cuda", "src_cuda/runtime")
    options = [*FOR_EMULATOR, *(f"-I{each}" for each in folders), "-include", "cuda_runtime.h"]
    return ctypes.CDLL(str(library_of_text("\n".join(texts), options)))


def library_of_text(text: str, options: Sequence[str]) -> Path:
    """Return a library of a C++ text; folders in the options are relative to the checkout."""
    name = hashlib.sha256("\0".join([text, *options]).encode()).hexdigest()
    source, target = (folder() / "libraries" / f"{name}.{ending}" for ending in ("cpp", "so"))
    steps.write(source, text.encode())
    command = ("g++", "-std=c++17", "-fPIC", "-shared", *options)
    step = steps.Step(str(source), str(target), command, _version(), folder=str(ROOT))
    steps.make([[step]], steps.Store(folder() / "objects"))
    return target


@functools.cache
def _version() -> str:
    return subprocess.run(["g++", "--version"], check=True, capture_output=True, text=True).stdout
