"""The choice of the backend of a solve."""

from __future__ import annotations

from bmrm.linear.backends.base import Backend
from bmrm.linear.backends.local import LocalBackend
from bmrm.matrix.dataset import Dataset
from bmrm.matrix.examples import Examples


def backend_of(data: Dataset | Examples) -> Backend:
    """Return the backend of the data: of one process or of several ranks."""
    if isinstance(data, Examples) or data.group is None:
        return LocalBackend(data)
    from bmrm.distributed.shard import Shard
    from bmrm.linear.backends.ranks.assembly import RanksBackend

    assert isinstance(data, Shard)
    return RanksBackend(data)
