"""k-means++ on a GPU without the host in between, against single passes."""

from __future__ import annotations

import numpy as np
import pytest
import seeding_cases as cases

from bmrm.distributed.row_set import RowSet
from bmrm.matrix.gpu.device_arrays import DeviceArray
from bmrm.unsupervised.clusters.gpu import DeviceClusters
from bmrm.unsupervised.clusters.seeding import choose_plus_plus

cuda = pytest.importorskip("bmrm.matrix._cuda", reason="the package was built without CUDA")
pytestmark = pytest.mark.skipif(not cuda.device_count(), reason="there is no CUDA device")

LARGE = [
    cases.Seeding(100_003, 2, 70, np.float32),
    cases.Seeding(300_000, 16, 40, weighted=True),
    cases.Seeding(70_001, 7, 1100, np.float32),
    cases.Seeding(40_000, 128, 50, np.float32, weighted=True),
    cases.Seeding(5000, 784, 30),
    cases.Seeding(3000, 2, 3000, weighted=False),
    cases.Seeding(20_000_000, 1, 3, np.float32),  # parts of many panels
]


@pytest.mark.parametrize("case", [*cases.SMALL, *LARGE], ids=str)
def test_a_walk_chooses_the_rows_of_single_passes(case):
    cases.check(case, seeds=2 if case.n < 1e6 else 1)


@pytest.mark.parametrize(("n", "d"), [(300_000, 3), (50_000, 16), (20_000, 45), (3000, 784)])
def test_potentials_have_the_bits_of_the_cpu(n, d):
    cases.check_bits(cases.Seeding(n, d, 1, weighted=True))


def test_walks_repeat_their_bits_and_allow_other_passes_between():
    case = cases.Seeding(50_000, 16, 200, np.float32, weighted=True)
    rows = case.rows()
    passes = DeviceClusters(rows, 0)
    first = choose_plus_plus(passes, 200, np.random.default_rng(0))
    passes.assign(passes.take(first))
    for k in (7, 200):
        again = choose_plus_plus(passes, k, np.random.default_rng(0))
    np.testing.assert_array_equal(first, again)


@pytest.mark.parametrize("d", [4, 16, 48])
def test_rows_in_place_need_no_alignment(d):
    cp = pytest.importorskip("cupy")
    rows = cases.Seeding(20_000, d, 1, np.float32, weighted=True).rows()
    there = cp.empty(rows.X.size + 1, np.float32)[1:].reshape(rows.X.shape)
    there[:] = cp.asarray(rows.X)
    chosen = [
        choose_plus_plus(DeviceClusters(RowSet(X, rows.weights), 0), 50, np.random.default_rng(0))
        for X in (rows.X, DeviceArray("X", there, 2, (np.float32,)))
    ]
    np.testing.assert_array_equal(*chosen)
