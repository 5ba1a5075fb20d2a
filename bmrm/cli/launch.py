"""Detect, without loading MPI, whether an MPI launcher started this process."""

from __future__ import annotations

import os
from collections.abc import Mapping

RANK_VARIABLES = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK")
"""Environment variables with the rank, set by the launchers of MPICH, Open MPI, their relatives and Slurm."""

SIZE_VARIABLES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS")
"""Environment variables with the number of ranks; the first that is set counts.

Slurm's comes last: launchers that start their processes through ``srun`` hand it on with another meaning.
"""


def launched(environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether an MPI launcher started this process.

    Examples
    --------
    >>> launched({"PMI_RANK": "0", "PMI_SIZE": "2"}), launched({})
    (True, False)
    """
    return any(name in environ for name in RANK_VARIABLES)


def rank(environ: Mapping[str, str] = os.environ) -> int:
    """Return the rank according to the launcher, which is known even if MPI cannot be loaded.

    Examples
    --------
    >>> rank({"OMPI_COMM_WORLD_RANK": "3"})
    3
    """
    return int(next((environ[name] for name in RANK_VARIABLES if name in environ), "0"))


def alone(environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether there is only one rank according to the launcher.

    Examples
    --------
    >>> alone({"PMI_RANK": "0", "PMI_SIZE": "1"}), alone({"PMIX_RANK": "0"})
    (True, False)
    >>> alone({"PMIX_RANK": "0", "SLURM_STEP_NUM_TASKS": "1"})
    True
    >>> alone({"OMPI_COMM_WORLD_SIZE": "4", "SLURM_STEP_NUM_TASKS": "1"})
    False
    """
    return next((environ[name] for name in SIZE_VARIABLES if name in environ), None) == "1"
