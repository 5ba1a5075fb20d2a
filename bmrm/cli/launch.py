"""Whether this process is one of several that an MPI launcher started; told without loading MPI."""

from __future__ import annotations

import os
from collections.abc import Mapping

LAUNCHERS = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK")
"""What the launchers of MPICH, Open MPI and their kin (also Slurm's) leave in the environment of a rank."""

SIZES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE")
"""Where they say how many ranks there are."""


def launched(environ: Mapping[str, str] = os.environ) -> bool:
    """Tell whether an MPI launcher started this process.

    Examples
    --------
    >>> launched({"PMI_RANK": "0", "PMI_SIZE": "2"}), launched({})
    (True, False)
    """
    return any(name in environ for name in LAUNCHERS)


def rank(environ: Mapping[str, str] = os.environ) -> int:
    """Return the rank as the launcher tells it, also where MPI cannot be loaded.

    Examples
    --------
    >>> rank({"OMPI_COMM_WORLD_RANK": "3"})
    3
    """
    return int(next((environ[name] for name in LAUNCHERS if name in environ), "0"))


def alone(environ: Mapping[str, str] = os.environ) -> bool:
    """Tell whether the launcher says that there is one rank only.

    Examples
    --------
    >>> alone({"PMI_RANK": "0", "PMI_SIZE": "1"}), alone({"PMIX_RANK": "0"})
    (True, False)
    """
    return any(environ.get(name) == "1" for name in SIZES)
