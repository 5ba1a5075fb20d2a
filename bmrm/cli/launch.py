"""Whether this process is one of several that an MPI launcher started; told without loading MPI."""

from __future__ import annotations

import os
from collections.abc import Mapping

LAUNCHERS = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK")
"""What the launchers of MPICH, Open MPI and their kin (also Slurm's) leave in the environment of a rank."""


def launched(environ: Mapping[str, str] = os.environ) -> bool:
    """Tell whether an MPI launcher started this process.

    Examples
    --------
    >>> launched({"PMI_RANK": "0", "PMI_SIZE": "2"}), launched({})
    (True, False)
    """
    return any(name in environ for name in LAUNCHERS)
