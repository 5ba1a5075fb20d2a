"""Functions of two points on a GPU with driver and compiler emulated: they give the bits of the CPU."""

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from random_statistics import double_loop, random_call, random_statistic

from bmrm.pairs import Points, sqrt, squared_distance, statistic

sys.path.append(str(Path(__file__).parents[1] / "reductions"))
import emulated_driver

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")


@statistic
def near(x, y, scale, count: "bins", degree: "rows"):  # noqa: F821
    count[min(int(sqrt(squared_distance(x, y)) * scale), len(count) - 1)] += 1
    degree[x.index] += 1


@pytest.fixture(autouse=True)
def library(monkeypatch):
    found = emulated_driver.install(monkeypatch)
    yield found
    assert found.depth == 0


@pytest.mark.parametrize("seed", range(4))
def test_a_random_function_gives_what_a_double_loop_gives(seed):
    function, text, plain = random_statistic(seed)
    sets, marks, words = random_call(seed, 70, None if seed % 2 else 40)
    ordered = True if seed % 2 else None
    given = {name: tuple(each[name] for each in marks) for name in marks[0]} if len(marks) == 2 else marks[0]
    found = function(*sets, ordered=ordered, device="cuda", **words, **given)
    expected = double_loop(plain, sets, marks, words, ordered)
    for name, mine in zip(found._fields, found, strict=True):
        assert np.array_equal(mine, expected[name]), (name, text)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_counts_are_those_of_the_cpu_in_a_box_and_within_a_reach(kind):
    points = Points(np.random.default_rng(0).random((100, 3)).astype(kind), box=1.0)
    for reach in (None, 0.3):
        one, other = (near(points, scale=50.0, bins=40, reach=reach, device=d) for d in ("cuda", "cpu"))
        assert (one.count == other.count).all()
        assert (one.degree == other.degree).all()


@statistic
def join(x, y, width, found: float, total: float):
    total[x.index, y.index] = x.z * y.z
    if abs(x.z - y.z) <= width:
        found[x.index, y.index] = x.z - y.z


def test_results_of_each_pair_are_those_of_the_cpu():
    x, z = np.zeros((70, 1)), np.random.default_rng(0).integers(0, 9, 70) / 8
    one, other = (join(x, width=0.25, z=z, device=d) for d in ("cuda", "cpu"))
    assert (one.found.toarray() == other.found.toarray()).all()
    assert one.found.nnz == other.found.nnz
    assert (one.total == other.total).all()
