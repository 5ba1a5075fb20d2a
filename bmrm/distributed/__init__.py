"""Rows on any device or rank: their kinds, parts and blocks, and the MPI ranks that share them.

In a solve on several ranks the rows of X and the columns of the cuts are distributed, and weights are on all
ranks, or their columns are distributed too (`bmrm.linear.backends.ranks.owned`). Each rank stores a run of
rows of X (and X') on its own device. docs/scaling.md describes what the ranks exchange in an iteration, and
what that costs. All numbers that decide how a solve continues are bit-identical
on all ranks, so no rank has to wait for the decision of another.

`Group`, `Shard` and `read_rows` need mpi4py and are loaded on first use.
"""

from bmrm.base.on_use import load_on_use

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from bmrm.distributed.files import read_rows
    from bmrm.distributed.group import Group
    from bmrm.distributed.shard import Shard

__all__ = ["Group", "Shard", "read_rows"]

_HOMES = {"Group": "group", "Shard": "shard", "read_rows": "files"}

_load, __dir__ = load_on_use(__name__, _HOMES)


def __getattr__(name: str) -> "Any":
    if name in _HOMES:
        try:
            import mpi4py.MPI  # noqa: F401
        except ImportError as error:
            raise ImportError(f"bmrm.distributed needs mpi4py, which cannot be imported: {error}") from error
    return _load(name)
