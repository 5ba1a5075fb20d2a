"""k-means++ on a GPU or the emulator, without the host in between, against single passes."""

from __future__ import annotations

import numpy as np
import pytest
import seeding_cases as cases
from devices import few, gpu, large, on_device, sized

from bmrm.distributed.row_set import RowSet
from bmrm.matrix.gpu.device_arrays import DeviceArray
from bmrm.unsupervised.clusters import gpu as on_gpus
from bmrm.unsupervised.clusters.gpu import DeviceClusters
from bmrm.unsupervised.clusters.seeding import choose_plus_plus

pytestmark = gpu

LARGE = [
    cases.Seeding(100_003, 2, 70, np.float32),
    cases.Seeding(300_000, 16, 40, weighted=True),
    cases.Seeding(70_001, 7, 1100, np.float32),
    cases.Seeding(40_000, 128, 50, np.float32, weighted=True),
    cases.Seeding(5000, 784, 30),
    cases.Seeding(3000, 2, 3000, weighted=False),
    cases.Seeding(20_000_000, 1, 3, np.float32),  # parts of many panels
]
LONG = [cases.Seeding(20_001, 3, 6, weighted=True), cases.Seeding(16_400, 5, 5)]
"""More rows than a draw adds up by itself."""


@pytest.mark.parametrize(
    "case", [*cases.SMALL, *LONG, *(pytest.param(case, marks=large) for case in LARGE)], ids=str
)
def test_a_walk_chooses_the_rows_of_single_passes(case):
    cases.check(case, seeds=sized(1, 2) if case.n < 1e6 else 1)


def test_parts_may_have_many_panels(monkeypatch):
    panels = RowSet.part_rows
    monkeypatch.setattr(RowSet, "part_rows", lambda rows, n=1: 5 * 1024 if n == 1 else panels(rows, n))
    for case in (cases.Seeding(12_000, 2, 6, weighted=True), cases.Seeding(17_500, 17, 4, np.float32)):
        cases.check(case, seeds=1)


@pytest.mark.parametrize("case", [cases.SMALL[7], cases.SMALL[9], cases.SMALL[12]], ids=str)
def test_a_walk_takes_the_best_candidates(case):
    cases.check_walk(case)


SIZES = [(3000, 3), (1500, 16), (700, 45), (300_000, 3), (50_000, 16), (20_000, 45), (3000, 784)]


@pytest.mark.parametrize(("n", "d"), few(SIZES, 3))
def test_potentials_have_the_bits_of_the_cpu(n, d):
    cases.check_bits(cases.Seeding(n, d, 1, weighted=True))


def test_walks_repeat_their_bits_and_allow_other_passes_between():
    k = sized(20, 200)
    case = cases.Seeding(sized(2000, 50_000), 16, k, np.float32, weighted=True)
    rows = case.rows()
    passes = DeviceClusters(rows, 0)
    first = choose_plus_plus(passes, k, np.random.default_rng(0))
    passes.assign(passes.take(first))
    for some in (7, k):
        again = choose_plus_plus(passes, some, np.random.default_rng(0))
    np.testing.assert_array_equal(first, again)


@pytest.mark.parametrize("d", [4, 16, 48])
def test_rows_in_place_need_no_alignment(d):
    rows = cases.Seeding(sized(1000, 20_000), d, 1, np.float32, weighted=True).rows()
    there = on_device(np.append(np.float32(0), rows.X))[1:].reshape(rows.X.shape)
    k = sized(9, 50)
    chosen = [
        choose_plus_plus(DeviceClusters(RowSet(X, rows.weights), 0), k, np.random.default_rng(0))
        for X in (rows.X, DeviceArray("X", there, 2, (np.float32,)))
    ]
    np.testing.assert_array_equal(*chosen)


def test_a_signal_ends_a_walk(monkeypatch):
    passes = DeviceClusters(cases.Seeding(300, 2, 1).rows(), 0)
    passes.begin_seeding()
    monkeypatch.setattr(on_gpus, "CENTERS_PER_WAIT", 5)
    calls = []

    def stop():
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt

    passes.check_signals = stop
    with pytest.raises(KeyboardInterrupt):
        passes.choose_centers(0, np.random.default_rng(0).random((20, 2)))
    assert len(calls) == 3
