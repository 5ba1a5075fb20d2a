"""What a build needs of its machine; a check that fails ends it in one line, before any work."""

import os
import re
import shutil
from collections.abc import Sequence

OLDEST_PYTHON = (3, 11)
OLDEST_NVCC = (12, 0)


def require_platform(platform: str, version: Sequence[int]) -> None:
    """Check the operating system, as `sys.platform` names it, and the version of Python."""
    if tuple(version[:2]) < OLDEST_PYTHON:
        raise SystemExit(
            f"bmrm: found Python {_dotted(version[:2])}, expected {_dotted(OLDEST_PYTHON)} or later"
        )
    if platform != "linux":
        raise SystemExit(f"bmrm: found {platform}, expected linux; on Windows it runs in WSL")


def require_compiler(command: Sequence[str], include: str) -> None:
    """Check that the C++ compiler of a command exists, and Python's headers in the folder ``include``."""
    if shutil.which(command[0]) is None:
        raise SystemExit(
            f"bmrm: found no {command[0]}, expected a C++ compiler (Debian's g++, or CXX names one)"
        )
    if not os.path.exists(os.path.join(include, "Python.h")):
        raise SystemExit(
            f"bmrm: found no Python.h in {include}, expected Python's headers (Debian's python3-dev)"
        )


def require_nvcc(path: str, said: str) -> None:
    """Check the release of an nvcc by what its ``--version`` printed."""
    release = nvcc_release(said)
    if release < OLDEST_NVCC:
        raise SystemExit(
            f"bmrm: found nvcc {_dotted(release)} ({path}), expected {OLDEST_NVCC[0]} or later; "
            "BMRM_CUDA=off builds without it"
        )


def nvcc_release(said: str) -> tuple[int, int]:
    """The release of nvcc in what its ``--version`` printed; (0, 0) if it printed none."""
    found = re.search(r"release (\d+)\.(\d+)", said)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _dotted(version: Sequence[int]) -> str:
    return ".".join(map(str, version))
