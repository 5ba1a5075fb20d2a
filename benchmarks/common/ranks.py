"""Programs on several ranks of MPI."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path


def mpi_words(ranks: int | str) -> list[str]:
    """Return what starts a program on some ranks: the mpiexec next to this Python, or that of the path."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    found = shutil.which("mpiexec", path=path)
    if found is None:
        raise SystemExit("found no mpiexec")
    return [found, "-n", str(ranks)]
