"""Blocks of rows with a cut of their own: where they may begin, and where they do.

A sum over rows can be split anywhere; a mean over groups of rows between two groups, if the rows of each
group are together.
"""

from __future__ import annotations

import numpy as np

from bmrm.base.distinct import distinct_values
from bmrm.base.vectors import Indices


def group_borders(groups: Indices, firsts: Indices, rows: int) -> Indices:
    """Return where groups begin, and the number of rows; only 0 and it if a group's rows are not together.

    ``groups`` and ``firsts`` are the group of each run of rows, and the first row of the run, in order. Runs
    of the same group may follow each other.

    Examples
    --------
    >>> group_borders(np.array([2, 0, 0, 1]), np.array([0, 3, 4, 9]), 12)
    array([ 0,  3,  9, 12])
    >>> group_borders(np.array([2, 0, 2]), np.array([0, 3, 5]), 12)
    array([ 0, 12])
    """
    opens = np.append(True, groups[1:] != groups[:-1]) if len(groups) else np.empty(0, bool)
    if np.count_nonzero(opens) > len(distinct_values(groups)):
        return np.array([0, rows])
    return np.append(firsts[opens], rows)


def runs(groups: Indices) -> tuple[Indices, Indices]:
    """Return the group of each run of rows of one group, and the first row of the run.

    Examples
    --------
    >>> runs(np.array([4, 4, 1, 1, 1]))
    (array([4, 1]), array([0, 2]))
    """
    firsts = np.flatnonzero(np.append(True, np.diff(groups) != 0)) if len(groups) else np.empty(0, np.int64)
    return groups[firsts], firsts


def block_starts(rows: int, blocks: int, borders: Indices | None = None) -> Indices:
    """Return where blocks of about equal size begin, and the number of rows.

    A block may begin at the ``borders``, by default anywhere. They go from 0 to ``rows``, in order, and are
    more than the blocks.

    Examples
    --------
    >>> block_starts(10, 3)
    array([ 0,  3,  6, 10])
    >>> block_starts(10, 3, np.array([0, 1, 2, 3, 10]))
    array([ 0,  2,  3, 10])
    """
    wanted = np.linspace(0, rows, blocks + 1).astype(np.int64)
    if borders is None:
        return wanted
    # The border nearest to each place wanted, but none twice, and with one left for each block that follows.
    number = np.arange(blocks + 1)
    at = np.searchsorted(0.5 * (borders[1:] + borders[:-1]), wanted)
    at = np.maximum.accumulate(at - number) + number
    at = np.minimum(at, len(borders) - 1 - blocks + number)
    at[0], at[-1] = 0, len(borders) - 1
    return borders[np.maximum(at, number)]
