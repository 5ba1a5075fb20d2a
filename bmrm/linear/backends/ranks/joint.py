"""Losses of margins taken together, on ranks that each hold some of the rows.

Such a risk is a mean over groups of rows, or one group of all of them, and a group is evaluated as a whole
on its *home*, the rank that has most of its rows. The other ranks send their margins there and get the
derivatives back. If the rows of a group are consecutive in the file, nearly all are at home anyway. A loss
without groups has one home, which gets the margins of all other ranks.
"""

from __future__ import annotations

import logging

import numpy as np

from bmrm.base.vectors import Indices, Vector
from bmrm.distributed.group import Group
from bmrm.losses.base import ValuedRisk
from bmrm.losses.joint import BlocksOfRows, JointLoss, LineRisk
from bmrm.losses.offset import joint_with_offset

MAX_CACHED_EXCHANGES = 4
"""Maximum number of exchanged arrays that are cached: both ends of a line, its direction, and a point."""

EXCHANGED_NUMBERS = 3
"""Numbers per row exchanged in a pass: direction, new margin, and derivative."""

log = logging.getLogger("bmrm")


class GroupPlacement:
    """Where the groups of all ranks' rows are worked on.

    Parameters
    ----------
    group : Group
        The ranks.
    rows : int
        Of this rank.
    groups : ndarray of int64, shape (rows,), or None
        The group of each row, numbered alike on all ranks; None if all rows are one group.

    Attributes
    ----------
    rows : int
        That are worked on here.
    away : int
        Rows of all ranks that are worked on elsewhere.
    """

    def __init__(self, group: Group, rows: int, groups: Indices | None) -> None:
        self.group = group
        if groups is None:
            home = np.zeros(rows, np.int64)
        else:
            count = max(group.everyones(int(groups.max(initial=-1)))) + 1
            home = np.argmax(group.everyones(np.bincount(groups, minlength=count)), axis=0)[groups]
        self._order = np.argsort(home, kind="stable")
        sent = group.everyones(np.bincount(home, minlength=group.size).tolist())
        self._out = sent[group.rank]
        self._in = [counts[group.rank] for counts in sent]
        self.rows = sum(self._in)
        self.away = sum(n for rank, counts in enumerate(sent) for to, n in enumerate(counts) if to != rank)

    def there(self, numbers: Vector) -> Vector:
        """Send a number of each row to its home; return those of the rows that are at home here."""
        return self.group.exchanged(numbers[self._order], self._out, self._in)

    def back(self, numbers: Vector, out: Vector) -> None:
        """Undo `there`."""
        out[self._order] = self.group.exchanged(numbers, self._in, self._out)


class RemoteRisk(ValuedRisk):
    """The risk of all ranks' rows, each group's at its home; see `RowRisk`.

    Parameters
    ----------
    homes : GroupPlacement
    risk : LineRisk or None
        Of the rows at home here; None if there are no such rows.
    share : float
        Of that risk in the one of all.
    """

    def __init__(self, homes: GroupPlacement, risk: LineRisk | None, share: float) -> None:
        self.homes, self.risk, self.share, self.size = homes, risk, share, homes.rows
        self._known: list[tuple[Vector, Vector]] = []
        self._blocks = BlocksOfRows(homes.there)

    def _there(self, margins: Vector) -> Vector:
        """Return the margins of the rows at home here; cached, since the solver repeats its arrays."""
        for i, (array, found) in enumerate(self._known):
            if array is margins:
                self._known.append(self._known.pop(i))
                return found
        found = self.homes.there(margins)
        self._known = [*self._known[1 - MAX_CACHED_EXCHANGES :], (margins, found)]
        return found

    def evaluate(self, z: Vector, dz: Vector, t: float, derivatives: Vector) -> float:
        """Risk of all rows; ``derivatives`` are those of the rows at home here."""
        here, along = self._there(z), self._there(dz)
        return self._total(0.0 if self.risk is None else self.risk.evaluate(here, along, t, derivatives))

    def along(self, derivatives: Vector, dz: Vector) -> float:
        """Slope of the risk of all rows."""
        here = self._there(dz)
        return self._total(0.0 if self.risk is None else self.risk.along(derivatives, here))

    def _total(self, here: float) -> float:
        return float(self.homes.group.total(np.array([self.share * here]))[0])

    def slope(self, z: Vector, dz: Vector, t: float, b: float) -> tuple[float, float]:
        """Slopes of the risk of all rows."""
        here, along = self._there(z), self._there(dz)
        found = np.zeros(2)
        if self.risk is not None:
            found[:] = self.risk.slope(here, along, t, b)
        in_t, in_b = self.homes.group.total(self.share * found)
        return float(in_t), float(in_b)

    def cut(
        self, z: Vector, dz: Vector, t: float, b: float, starts: Indices, r: Vector
    ) -> tuple[Vector, Vector]:
        """Risk and slope of each block of all rows; ``r`` is of this rank's."""
        here, along = self._there(z), self._there(dz)
        derivatives, blocks = np.zeros(self.homes.rows), len(starts) - 1
        found, block = np.zeros((2, blocks)), self._blocks.numbers(starts)
        if self.risk is not None:
            found[:] = self.risk.cut_of_blocks(here, along, t, b, blocks, block, derivatives)
        self.homes.back(self.share * derivatives, r)
        values, slopes = self.homes.group.total(self.share * found)
        return values, slopes

    def curvature(self, z: Vector, b: float, r: Vector) -> float:
        """Refuse: a joint loss has no second derivative."""
        raise NotImplementedError("a joint loss has no second derivative")


def remote_risk(
    group: Group,
    loss: JointLoss,
    labels: Vector,
    weights: Vector | None,
    offset: Vector | None,
    groups: Indices | None,
    threads: int,
) -> RemoteRisk:
    """Bind a loss to the labels, weights and offsets of all ranks' rows.

    Raises
    ------
    DataError, ParameterError
        As on one rank, the same on every one.
    """
    homes = GroupPlacement(group, len(labels), groups if loss.needs_groups else None)
    y = homes.there(labels)
    weights, offset = (None if each is None else homes.there(each) for each in (weights, offset))
    if loss.needs_groups and groups is not None:
        grouped = loss.grouped(homes.there(groups.astype(np.float64)).astype(np.int64))
        assert isinstance(grouped, JointLoss)
        loss = grouped
    with group.together():
        mass = loss.total_weight(y, weights)
    total = float(group.total(np.array([mass]))[0])
    with group.together():
        # If no rank has any weight, the ranks with rows raise the error.
        risk = loss.risk(y, weights, 1.0, threads) if mass > 0.0 or (len(y) and not total > 0.0) else None
    if group.rank == 0:
        log.info(
            "loss %s: %d margins are worked on by another rank than holds their rows, %d bytes a pass",
            loss.name,
            homes.away,
            8 * EXCHANGED_NUMBERS * homes.away,
        )
    if risk is not None and offset is not None:
        risk = joint_with_offset(risk, offset)
    return RemoteRisk(homes, risk, mass / total)
