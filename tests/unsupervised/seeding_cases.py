"""Rows for k-means++, and the rows that different passes over them must choose alike."""

from __future__ import annotations

import platform
from typing import NamedTuple

import numpy as np
import pytest

from bmrm.distributed.row_set import RowSet
from bmrm.matrix._cpu import instruction_set
from bmrm.unsupervised.clusters.cpu import HostClusters
from bmrm.unsupervised.clusters.gpu import DeviceClusters
from bmrm.unsupervised.clusters.seeding import choose_plus_plus

FUSES = instruction_set() != "baseline" or platform.machine() == "aarch64"
"""Whether distances on the CPU are added up by fused multiply-adds, as on a GPU."""


class Seeding(NamedTuple):
    n: int
    d: int
    k: int
    dtype: type = np.float64
    weighted: bool = False
    distinct: int | None = None
    """Number of distinct rows; None: all."""

    def rows(self) -> RowSet:
        rng = np.random.default_rng(self.n + self.d)
        X = rng.normal(size=(self.distinct or self.n, self.d)) + 3 * rng.integers(0, 4, (1, self.d))
        if self.distinct:
            X = X[rng.integers(0, self.distinct, self.n)]
        weights = None
        if self.weighted:
            weights = rng.random(self.n)
            weights[rng.random(self.n) < 0.2] = 0.0
            weights[-1] = 1.0
        return RowSet(X.astype(self.dtype), weights, 1)


SMALL = [
    Seeding(1, 1, 1),
    Seeding(3, 2, 3),
    Seeding(63, 1, 9, np.float32),
    Seeding(64, 4, 8, np.float32, weighted=True),
    Seeding(65, 16, 65),
    Seeding(1024, 3, 5, weighted=True),
    Seeding(1025, 8, 12, np.float32, weighted=True),
    Seeding(2100, 5, 30, weighted=True),
    Seeding(2048, 17, 6, np.float32),
    Seeding(1300, 40, 9, weighted=True),
    Seeding(300, 200, 7, np.float32),
    Seeding(130, 200, 20, weighted=True),
    Seeding(500, 3, 12, distinct=5, weighted=True),
    Seeding(500, 33, 12, np.float32, distinct=1),
    Seeding(200, 12, 200, distinct=150),
]


def check(case: Seeding, *, seeds: int = 3) -> None:
    """Check that a choice on the device chooses what single passes do, there and on the CPU."""
    for seed in range(seeds):
        rows = case.rows()
        on_device, by_passes = DeviceClusters(rows, 0), DeviceClusters(rows, 0)
        by_passes.choose_centers = lambda first, uniform: None
        found = choose_plus_plus(on_device, case.k, np.random.default_rng(seed))
        expected = choose_plus_plus(by_passes, case.k, np.random.default_rng(seed))
        np.testing.assert_array_equal(found, expected)
        assert len(found) == case.k
        assert found.dtype == np.int64
        if case.dtype is np.float64 and FUSES:  # float32 is shifted in float32 on a GPU, in float64 here
            on_cpu = choose_plus_plus(HostClusters(rows), case.k, np.random.default_rng(seed))
            np.testing.assert_array_equal(found, on_cpu)
        distinct = len(np.unique(rows.X[found], axis=0))
        positive = rows.X if rows.weights is None else rows.X[rows.weights > 0]
        assert distinct == min(case.k, len(np.unique(positive, axis=0)))


def check_walk(case: Seeding) -> None:
    """Check that the device chooses, and that a step of it is the best of its candidates."""
    rows = case.rows()
    uniform = np.random.default_rng(0).random((case.k - 1, 2))
    passes, steps = DeviceClusters(rows, 0), DeviceClusters(rows, 0)
    passes.begin_seeding()
    steps.begin_seeding()
    chosen = passes.choose_centers(0, uniform)
    assert chosen is not None
    potential = steps.take_center(0)
    for row, numbers in zip(chosen[1:], uniform, strict=False):
        candidates = steps.draw(numbers)
        potentials = steps.potentials(candidates)
        assert row == candidates[potentials.argmin()]
        assert potentials.min() <= potential
        potential = steps.take_center(row)
    assert len(chosen) == case.k or potential == 0.0


def check_bits(case: Seeding) -> None:
    """Check that potentials of a device have the bits of the CPU, if that has fused multiply-adds."""
    if not FUSES:
        pytest.skip("the instruction set has no fused multiply-adds")
    rows = case.rows()
    found = []
    for passes in (DeviceClusters(rows, 0), HostClusters(rows)):
        passes.begin_seeding()
        taken = [passes.take_center(3), passes.take_center(case.n // 2)]
        candidates = passes.draw(np.linspace(0.0, 0.999, 20))
        found.append((taken, candidates.tolist(), passes.potentials(candidates).tobytes()))
    assert found[0] == found[1]
