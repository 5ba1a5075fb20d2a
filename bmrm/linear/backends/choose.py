"""Which backend a solve runs on."""

from __future__ import annotations

from bmrm.linear.backends.base import Parts
from bmrm.linear.backends.local import LocalParts
from bmrm.matrix.dataset import Dataset
from bmrm.matrix.examples import Examples


def parts_of(data: Dataset | Examples) -> Parts:
    """Return the pieces of a solve on the data, in one process or on several ranks."""
    if isinstance(data, Examples) or data.group is None:
        return LocalParts(data)
    from bmrm.distributed.shard import Shard
    from bmrm.linear.backends.ranks.assembly import ShardedParts

    assert isinstance(data, Shard)
    return ShardedParts(data)
