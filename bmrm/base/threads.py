"""Limits on the number of threads, and the number that the environment asks for."""

from __future__ import annotations

import re
from collections.abc import Mapping

MAX_THREADS = 4096
"""Maximum number of threads of a matrix product (``src_cython``)."""


def requested_threads(environ: Mapping[str, str]) -> int | None:
    """Return the number in ``OMP_NUM_THREADS``, the first of a list; None if it is missing or out of range.

    Examples
    --------
    >>> [requested_threads({"OMP_NUM_THREADS": text}) for text in ("3", "2,1", "", "0", "5000", "²")]
    [3, 2, None, None, None, None]
    """
    found = re.fullmatch(r"\s*([0-9]{1,4})\s*(,.*)?", environ.get("OMP_NUM_THREADS", ""))
    count = int(found[1]) if found else 0
    return count if 1 <= count <= MAX_THREADS else None
