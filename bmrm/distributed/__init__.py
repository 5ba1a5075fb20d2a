"""Training on several ranks of MPI: rows spread over the ranks, the cuts' columns too, the weights on all.

Or the weights' columns are spread likewise (``owned.py``).

Each rank holds a run of rows of X (and X') on its own device. What the ranks exchange in an iteration is told
in docs/scaling.md, with what it costs. All that decides how a solve goes on is the same on every rank, bit
for bit, so that no rank has to tell the others what to do.

The module needs mpi4py (the extra ``petsc``) and is not imported by ``import bmrm``.
"""

try:
    import mpi4py.MPI  # noqa: F401
except ImportError as error:
    raise ImportError(f"bmrm.distributed needs mpi4py, which cannot be imported: {error}") from error

from bmrm.distributed.files import read_rows
from bmrm.distributed.group import Group
from bmrm.distributed.shard import Shard

__all__ = ["Group", "Shard", "read_rows"]
