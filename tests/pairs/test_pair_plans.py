"""Plans: what is chosen and why, what explain says, and what a machine has been measured to do."""

import subprocess
import sys

import numpy as np
import pytest

from bmrm.base.units import time_text
from bmrm.matrix.gpu import cache
from bmrm.matrix.gpu.placement import Placement
from bmrm.pairs import PairPlan, Points, explain, histogram, rates
from bmrm.pairs.cpu import HostPairs
from bmrm.pairs.plan import near_share
from bmrm.pairs.work import Rate, bins_share, host_bytes, pair_work, point_growth

RNG = np.random.default_rng(0)
FEW, MANY = RNG.random((100, 3)), RNG.random((30_000, 3))


def plan_of(x, edges, **words):
    """The plan of a call; nothing is counted."""
    text = explain(x, edges=edges, device="cpu", **words).splitlines()[1]
    where, kernel = text.removeprefix("plan    ").split(":")[0].split(", ")
    return where, kernel, text


@pytest.mark.parametrize(
    ("x", "edges", "kernel", "why"),
    [
        (FEW, [0, 0.1], "brute", "few points"),
        (MANY, [0, 1.7], "brute", "most pairs are near enough to count"),
        (MANY, [0, 0.02], "cells", "of the pairs are in near cells"),
        (RNG.random((4000, 5)), [0, 0.02], "brute", "most pairs"),
        (MANY * 1e20, [0, 1e18], "float64", "too far for float32"),
        (MANY, [0, 1e-20], "float64", "an edge of 1e-20 is too small for float32"),
        (np.zeros((30_000, 2)), [0, 0.1], "brute", "most pairs"),
    ],
)
def test_choices(x, edges, kernel, why):
    found = plan_of(x, edges)
    assert found[:2] == ("cpu", kernel)
    assert why in found[2]


@pytest.mark.parametrize("plan", ["brute", "cells", "float64"])
def test_a_plan_may_be_forced(plan):
    assert plan_of(MANY, [0, 0.1], plan=plan)[1] == plan
    assert histogram(FEW, edges=[0, 0.1], plan=plan).plan.kernel == plan


def test_all_images_beyond_half_the_box_are_counted_in_float64():
    assert plan_of(Points(FEW, box=1.0), [0, 0.6], images="all")[1] == "float64"
    assert plan_of(Points(FEW, box=1.0), [0, 0.4], images="all")[1] == "brute"


def test_a_plan_says_what_was_done():
    found = histogram(MANY, edges=[0, 0.05], device="cpu")
    assert isinstance(found.plan, PairPlan)
    assert found.plan.candidates == found.candidates
    assert 0 < found.candidates <= found.pairs
    assert found.plan.bytes > MANY.nbytes
    with pytest.raises(AttributeError):
        found.plan.kernel = "other"


def test_explain_says_where_and_what():
    first, plan, pairs = explain(FEW, FEW[:7], edges=[0, 1, 2]).splitlines()
    assert first.startswith("device  cpu: the CPU takes ")
    assert plan.startswith("plan    cpu, brute: 700 candidates, about ")
    assert pairs == "pairs   700 of 107 points, 2 bins from 0 to 2"


@pytest.mark.parametrize("x", [MANY, np.concatenate([0.001 * MANY[:15_000], np.ones((1, 3))])])
def test_both_lines_have_one_prediction(x):
    device, plan, _ = explain(x, edges=[0, 0.1]).splitlines()
    seconds = histogram(x, edges=[0, 0.1]).plan.seconds
    assert device.startswith(f"device  cpu: the CPU takes {1e3 * seconds:.3g} ms, and a GPU ")
    assert f"about {time_text(seconds)}" in plan


def test_a_count_that_is_longer_than_expected_moves_to_a_gpu(monkeypatch):
    class Elsewhere(HostPairs):
        def __init__(self, number):
            self.device = f"cuda:{number}"

    asked = []

    def decide(device, there=None, work=None, group=None):
        asked.append(work.cpu_seconds)
        return Placement(0 if work.cpu_seconds > 0.01 else None, "by time", chosen=True)

    monkeypatch.setattr("bmrm.pairs.gpu.DevicePairs", Elsewhere)
    monkeypatch.setattr("bmrm.pairs.histograms.place", decide)
    spread, cloud = MANY[:15_000], np.concatenate([0.001 * MANY[:15_000], np.ones((1, 3))])
    found = [histogram(x, edges=[0, 0.1], threads=1) for x in (spread, cloud)]
    assert [each.plan.device for each in found] == ["cpu", "cuda:0"]
    assert asked[1] < 0.01
    assert asked[2] < 0.01 < asked[3]
    assert found[1].counts.tolist() == [15_000 * 14_999 // 2]


def test_the_share_of_near_pairs_is_that_of_a_volume():
    from bmrm.pairs.edges import read_bins
    from bmrm.pairs.plan import Question

    bins = read_bins([0, 0.1], "last")
    shares = [near_share(Question(Points(x), None, bins, "nearest")) for x in (MANY, MANY * 10, FEW[:0])]
    assert shares[0] == pytest.approx(0.2**3, rel=0.01)
    assert shares[1] == pytest.approx(0.02**3, rel=0.01)
    assert shares[2] == 1.0


def test_rates_are_measured_once_and_kept(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    passes, calls = HostPairs(), []
    monkeypatch.setattr(cache, "_known_times", {})
    monkeypatch.setattr(rates, "_measure", lambda *words: (calls.append(words[1:]) or 3e-9, 1.0))
    short = rates.rate(passes, "brute", 3, 100, 1000, 1e6)
    assert (short, calls) == (passes.rate("brute", 3, 100, 1000), [])
    for bins in (100, 7, 128):
        assert rates.rate(passes, "brute", 3, bins, 1000, 1e12) == Rate(3e-9, 0.0)
    assert calls == [("brute", 3, 128, 0)]
    monkeypatch.setattr(cache, "_known_times", {})
    assert rates.rate(passes, "brute", 3, 100, 1000, 1e12) == Rate(3e-9, 0.0)
    assert len(calls) == 1  # read from the file
    assert cache.read_record(passes.machine).times == {"pairs brute 3 128": 3e-9}


def test_cells_are_measured_full_and_nearly_empty(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(cache, "_known_times", {})
    passes, times = HostPairs(), {rates.FULL: (2.0, 1e9), rates.SPARSE: (0.5, 1e8)}
    monkeypatch.setattr(rates, "_measure", lambda *words: times[words[-1]])
    few, many = (rates.rate(passes, "cells", 3, 100, points, 1e12) for points in (30_000, 10**7))
    assert few == pytest.approx(Rate(2e-9, 0.3 / 30_000))
    assert many == pytest.approx(Rate(2e-9, few.point * point_growth(3, 10**7)))


@pytest.mark.parametrize("kernel", ["float64", "brute", "cells"])
def test_a_measured_rate_is_a_time(kernel, monkeypatch):
    monkeypatch.setattr(HostPairs, "sample_points", dict.fromkeys(("float64", "brute", "cells"), 2000))
    seconds, candidates = rates._measure(HostPairs(), kernel, 3, 100, 8 if kernel == "cells" else 0)
    assert 1e-12 < seconds / candidates < 1e-5


def test_predictions_grow_with_what_is_counted():
    shares = [bins_share(bins) for bins in (1, 100, 1000, 10_000, 10**6)]
    assert shares == sorted(shares)
    assert host_bytes("brute", 10**6, 3, 100, 8) > 8 * 3 * 10**6
    near, far = (
        pair_work(kernel, n, 3, 100, 10**6, None) for kernel, n in (("cells", 1e10), ("brute", 1e12))
    )
    assert near.cpu_seconds < far.cpu_seconds
    assert near.gpu_seconds < near.cpu_seconds


def test_importing_loads_no_driver_compiler_or_scipy():
    program = (
        "import sys, numpy as np, bmrm.pairs\n"
        "bmrm.pairs.histogram(np.zeros((3, 2)), edges=[0, 1], device='cpu')\n"
        "found = {'scipy', 'llvmlite', 'mpi4py', 'bmrm.formulas', 'bmrm.matrix._cuda'} & set(sys.modules)\n"
        "print(sorted(found))\n"
        "print('libcuda' in open('/proc/self/maps').read())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\nFalse\n"
