"""Why iterations end before they converge."""

import time

from bmrm.base.interrupts import requested


def limit_reached(n_iter: int, max_iter: int, deadline: float) -> str:
    """Return the status of a run that must end now; empty if it may go on.

    - ``deadline``: a value of ``time.monotonic()``
    """
    if requested():
        return "interrupted"
    if time.monotonic() >= deadline:
        return "max_time"
    return "max_iter" if n_iter >= max_iter else ""
