"""k-means++ on a GPU without the host in between, with its kernels run on the CPU (emulated_clusters.py)."""

from __future__ import annotations

import shutil

import emulated_clusters
import numpy as np
import pytest
import seeding_cases as cases

from bmrm.unsupervised.clusters import gpu as clusters
from bmrm.unsupervised.clusters import shared_clusters

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")


@pytest.fixture(scope="module")
def library():
    return emulated_clusters.load()


@pytest.fixture(autouse=True)
def emulated(library, monkeypatch):
    monkeypatch.setattr(clusters, "import_cuda", lambda: emulated_clusters.Module(library))


@pytest.mark.parametrize("case", cases.SMALL, ids=str)
def test_a_walk_chooses_the_rows_of_single_passes(case):
    cases.check(case, seeds=1)


def test_parts_may_have_many_panels(monkeypatch):
    monkeypatch.setattr(shared_clusters, "part_rows", lambda n: 5 * 1024)
    for case in (cases.Seeding(12_000, 2, 6, weighted=True), cases.Seeding(17_500, 17, 4, np.float32)):
        cases.check(case, seeds=1)


@pytest.mark.parametrize(
    "case", [cases.Seeding(20_001, 3, 6, weighted=True), cases.Seeding(16_400, 5, 5)], ids=str
)
def test_more_rows_than_a_draw_adds_up_by_itself(case):
    cases.check(case, seeds=1)


@pytest.mark.parametrize("case", [cases.SMALL[7], cases.SMALL[9], cases.SMALL[12]], ids=str)
def test_a_walk_takes_the_best_candidates(case):
    cases.check_walk(case)


@pytest.mark.parametrize(("n", "d"), [(3000, 3), (1500, 16), (700, 45)])
def test_potentials_have_the_bits_of_the_cpu(n, d):
    cases.check_bits(cases.Seeding(n, d, 1, weighted=True))


def test_a_signal_ends_a_walk(monkeypatch):
    passes = clusters.DeviceClusters(cases.Seeding(300, 2, 1).rows(), 0)
    passes.begin_seeding()
    monkeypatch.setattr(clusters, "WALKED_CENTERS", 5)
    calls = []

    def stop():
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt

    passes.check_signals = stop
    with pytest.raises(KeyboardInterrupt):
        passes.walk(0, np.random.default_rng(0).random((20, 2)))
    assert len(calls) == 3
