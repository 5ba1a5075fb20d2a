"""Which backend a solve runs on."""

from __future__ import annotations

from bmrm.linear.backends.base import Backend
from bmrm.linear.backends.local import LocalBackend
from bmrm.matrix.dataset import Dataset
from bmrm.matrix.examples import Examples


def backend_of(data: Dataset | Examples) -> Backend:
    """Return the pieces of a solve on the data, in one process or on several ranks."""
    if isinstance(data, Examples) or data.group is None:
        return LocalBackend(data)
    from bmrm.distributed.shard import Shard
    from bmrm.linear.backends.ranks.assembly import RanksBackend

    assert isinstance(data, Shard)
    return RanksBackend(data)
