"""Functions of two points on a GPU with driver and compiler emulated: they give the bits of the CPU."""

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from random_statistics import double_loop, random_call, random_statistic

from bmrm.errors import DeviceMemoryError, ReductionError
from bmrm.formulas.analysis import counters
from bmrm.formulas.run import gpu
from bmrm.matrix.gpu import driver
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


@pytest.mark.parametrize(("limit", "most"), [(40 * 32, 32), (40 * 32 - 1, None)])
def test_counters_are_emptied_before_they_overflow(monkeypatch, limit, most):
    asked, chunk_rows = [], gpu.chunk_rows
    monkeypatch.setattr(counters, "COUNTER_LIMIT", limit)
    monkeypatch.setattr(gpu, "chunk_rows", lambda *a, **b: asked.append(a[2]) or chunk_rows(*a, **b))
    x, y = np.zeros((200, 1)), np.zeros((40, 1))
    found = near(x, y, scale=1.0, bins=3, device="cuda")
    assert asked == [most]
    assert found.count.tolist() == [8000, 0, 0]


@statistic
def weighed(x, y, scale, count: "bins", weight: "rows"):  # noqa: F821
    b = min(int(sqrt(squared_distance(x, y)) * scale), len(count) - 1)
    count[b] += 1
    weight[x.index] += y.w


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("m", [5216, 5217, 5247])
def test_tiles_and_what_remains_of_the_last_one(monkeypatch, kind, m):
    monkeypatch.setattr(gpu, "SHARED_BYTES", 20 * 1024)  # less than the points, room for tiles
    written, compile_cuda = [], gpu.compile_cuda
    monkeypatch.setattr(
        gpu,
        "compile_cuda",
        lambda text, *words, **named: written.append(text) or compile_cuda(text, *words, **named),
    )
    rng = np.random.default_rng(m)
    x, y = rng.random((33, 3)).astype(kind), rng.random((m, 3)).astype(kind)
    numbers = rng.integers(0, 9, 33) / 8.0, rng.integers(0, 9, m) / 8.0
    words = {"scale": 8.0, "bins": 12, "w": numbers}
    one, other = (weighed(x, y, device=d, **words) for d in ("cuda", "cpu"))
    assert (one.count == other.count).all()
    assert one.count.sum() == 33 * m
    assert "_tiles[WARPS]" in written[0]
    assert (one.weight == other.weight).all()


@statistic
def levels(x, y, width, count: "bins", total: "rows"):  # noqa: F821
    d = sqrt(squared_distance(x, y)) / width
    count[min(int(d), len(count) - 1)] += 1
    total[x.index] += d


@pytest.mark.parametrize("width", [0.25, 1e-30, 1e30, -0.25, 0.0])
def test_what_is_unusual_is_computed_on_its_own(monkeypatch, width):
    monkeypatch.setattr(gpu, "SHARED_BYTES", 12 * 1024)  # less than the points, room for a tile
    written, compile_cuda = [], gpu.compile_cuda
    monkeypatch.setattr(
        gpu,
        "compile_cuda",
        lambda text, *words, **named: written.append(text) or compile_cuda(text, *words, **named),
    )
    rng = np.random.default_rng(3)
    x, y = (rng.integers(0, 3, (n, 2)).astype(np.float32) for n in (40, 1603))
    y[40:60] *= np.float32(1e-30)
    y[100:120] *= np.float32(1e18)
    words = {"width": np.float32(width), "bins": 7}
    if width > 0:
        one, other = (levels(x, y, device=d, **words) for d in ("cuda", "cpu"))
        assert all((mine == theirs).all() for mine, theirs in zip(one, other, strict=True))
    else:
        with pytest.raises(ReductionError, match=r"row 0: index -\d+ is below 0"):
            levels(x, y, device="cuda", **words)
    assert "quotient(" in written[0]
    assert "root(" in written[0]


@statistic
def join(x, y, width, found: float, total: float):
    total[x.index, y.index] = x.z * y.z
    if abs(x.z - y.z) <= width:
        found[x.index, y.index] = x.z - y.z


def test_results_of_each_pair_are_those_of_the_cpu():
    x, z = np.zeros((170, 1)), np.random.default_rng(0).integers(0, 9, 170) / 8
    one, other = (join(x, width=0.25, z=z, device=d) for d in ("cuda", "cpu"))
    assert (one.found.toarray() == other.found.toarray()).all()
    assert one.found.nnz == other.found.nnz
    assert (one.total == other.total).all()
    blocks = list(join(x, width=0.25, z=z, device="cuda", blocks=300_000))
    assert len(blocks) > 2
    for rows, part in blocks:
        assert (part.found.toarray() == other.found[rows].toarray()).all()
        assert (part.total == other.total[rows]).all()


def test_a_matrix_that_does_not_fit_is_one_line(monkeypatch, library):
    x = np.zeros((1000, 1))
    monkeypatch.setattr(library, "limit", 4_000_000)
    with pytest.raises(DeviceMemoryError, match=r"the matrix of join needs 0.008 GB, blocks='1 GB' gives it"):
        join(x, width=0.0, z=np.arange(1000.0), device="cuda")
    blocks = join(x, width=0.0, z=np.arange(1000.0), device="cuda", blocks="2 MB")
    assert sum(len(part.total) for _, part in blocks) == 1000


def test_points_are_uploaded_once(monkeypatch, library):
    copy, sizes = library.cuMemcpyHtoD_v2, []
    monkeypatch.setattr(
        library, "cuMemcpyHtoD_v2", lambda *words: sizes.append(words[2].value) or copy(*words)
    )
    x, y = (Points(np.random.default_rng(seed).random((70, 3)), device="cuda") for seed in (0, 1))
    for sets in ((x,), (x,), (x, y), (y, x)):
        assert (near(*sets, scale=50.0, bins=40).degree == 69 + (len(sets) == 2)).all()
    assert sizes.count(70 * 3 * 8) == 2


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_points_on_a_gpu_are_read_there(monkeypatch, kind):
    given = np.random.default_rng(0).random((50, 3)).astype(kind)
    monkeypatch.setattr(Points, "_place_resident", lambda self, x: setattr(self, "_gpu", x.device))
    there = Points(driver.device(0).upload(given))
    expected = near(given, scale=50.0, bins=40, device="cpu")
    for words in ({}, {"reach": 0.5}):
        expected = near(given, scale=50.0, bins=40, device="cpu", **words)
        for sets in ((there,), (there, given), (Points(given), there)):
            found = near(*sets, scale=50.0, bins=40, device="cuda", **words)
            assert (found.count == expected.count).all() == (len(sets) == 1)
            assert (found.degree == expected.degree + (len(sets) == 2)).all()
    assert there._coordinates is not None  # a reach needs float64
    gram = join(there, width=0.25, z=np.arange(50.0), blocks="1 GB")
    assert [part.total.shape for _, part in gram] == [(50, 50)]


@pytest.mark.parametrize("sizes", [(0, None), (1, None), (0, 3), (3, 0), (2, 3)])
def test_few_points_and_those_without_coordinates(sizes):
    sets = [np.ones((each, 0)) for each in sizes if each is not None]
    found = near(*sets, scale=1.0, bins=2, device="cuda")
    assert found.count.tolist() == [0 if len(sets) == 1 else sizes[0] * sizes[1], 0]
    assert (found.degree == (0 if len(sets) == 1 else sizes[1])).all()
