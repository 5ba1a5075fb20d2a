"""Neighbours are those of a float64 lexsort by distance and index, whatever the way, rows, k and threads."""

import signal
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse
from instruction_sets import output_on
from neighbour_reference import distances, sorted_neighbours

from bmrm import pairs
from bmrm.base import host_memory
from bmrm.errors import DataError, HostMemoryError, Interrupted, ParameterError
from bmrm.pairs import Points, nearest, neighbours, neighbours_cpu, passes, within

KINDS = ("uniform", "lattice", "far", "equal", "scales", "tiny", "huge")
SQUARES = ("euclidean", "sqeuclidean", "cosine")
METRICS = (*SQUARES, "manhattan", "chebyshev", "jaccard")
RNG = np.random.default_rng


def make(kind, n, axes, seed=0):
    rng = RNG(seed)
    x = rng.random((n, axes))
    if kind == "lattice":
        return rng.integers(0, 3, (n, axes)).astype(float)
    if kind == "equal":
        return np.repeat(x[:1], n, axis=0)
    if kind == "scales":
        return (x - 0.5) * 10.0 ** rng.integers(-8, 8, (n, 1))
    return x * {"uniform": 1.0, "far": 1.0, "tiny": 1e-200, "huge": 1e200}[kind] + 1e6 * (kind == "far")


def check(k, x, y=None, *, metric="euclidean", box=None):
    found = nearest(k, x, y, metric=metric, box=box, threads=2)
    expected = sorted_neighbours(k, x, y, metric, box)
    for here, there in zip(found, expected, strict=True):
        np.testing.assert_array_equal(here, there)
    assert (found[0].dtype, found[1].dtype) == (np.float64, np.int64)
    radius = found[0].max(initial=0.0)
    every = distances(x, y, metric, box)
    graph = within(radius, x, y, metric=metric, box=box)
    np.testing.assert_array_equal(graph.toarray(), np.where(every <= radius, every, 0.0))
    assert graph.nnz == (every <= radius).sum()
    assert graph.has_canonical_format


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("most", [0.0, np.inf])
def test_neighbours_are_those_of_a_sort(metric, kind, most, monkeypatch):
    monkeypatch.setattr(neighbours_cpu, "MAX_PRODUCT_POINTS", most)
    monkeypatch.setattr(neighbours_cpu, "MAX_NEAR_SHARE", 1.0)
    for axes in (1, 3, 11, 37) if metric in SQUARES or most == 0.0 else ():
        x = make(kind, 150, axes)
        check(4, x, metric=metric)
        check(70, x[:90], make(kind, 91, axes, 1), metric=metric)


@pytest.mark.parametrize("metric", ["euclidean", "manhattan", "chebyshev"])
@pytest.mark.parametrize("kind", ["uniform", "lattice", "scales"])
def test_periodic_axes(metric, kind):
    for axes in (1, 3, 12):
        box = np.where(np.arange(axes) % 2, 0.0, 3.0 if kind == "lattice" else 0.7)
        check(5, make(kind, 120, axes), metric=metric, box=box)
        y = Points(make(kind, 50, axes, 1), box=box)
        expected = sorted_neighbours(2, make(kind, 120, axes), make(kind, 50, axes, 1), "euclidean", box)
        np.testing.assert_array_equal(nearest(2, Points(make(kind, 120, axes), box=box), y)[1], expected[1])


@pytest.mark.parametrize("axes", [2, 6, 30])
def test_results_do_not_depend_on_rows_k_or_threads(axes):
    x = RNG(3).integers(0, 4, (900, axes)).astype(float)
    whole = nearest(400, x, x, threads=1)
    for rows, k in ((5, 10), (700, 10), (900, 400)):
        for threads in (1, 3):
            found = nearest(k, x[:rows], x, threads=threads)
            np.testing.assert_array_equal(found[0], whole[0][:rows, :k])
            np.testing.assert_array_equal(found[1], whole[1][:rows, :k])


@pytest.mark.parametrize("isa", ["avx512", "avx2", "baseline"])
def test_instruction_sets_find_the_same(isa):
    """Also if bytes leave too many candidates: tight clusters with one point far away."""
    program = (
        "import numpy as np\n"
        "from bmrm.pairs import nearest, within\n"
        "rng = np.random.default_rng(0)\n"
        "x = rng.integers(0, 9, (500, 300)) * 1e-4 + np.eye(1, 300) * (np.arange(500) == 7)[:, None]\n"
        "for rows in (x, x[:, :30], rng.random((500, 20))):\n"
        "    found = nearest(3, rows, threads=1)\n"
        "    counts = np.diff(within(np.median(found[0]) * 1.5, rows, threads=1).indptr)\n"
        "    print(*map(float.hex, found[0].ravel().tolist()), *found[1].ravel(), *counts)\n"
    )
    printed = output_on(isa, program)
    rng = RNG(0)
    x = rng.integers(0, 9, (500, 300)) * 1e-4 + np.eye(1, 300) * (np.arange(500) == 7)[:, None]
    for rows, line in zip((x, x[:, :30], rng.random((500, 20))), printed.splitlines(), strict=True):
        found = sorted_neighbours(3, rows)
        counts = (distances(rows) <= np.median(found[0]) * 1.5).sum(axis=1)
        wanted = [*map(float.hex, found[0].ravel().tolist()), *map(str, found[1].ravel()), *map(str, counts)]
        assert line.split() == wanted


@pytest.mark.parametrize("kind", ["uniform", "lattice", "scales", "far"])
def test_pairs_that_are_surely_near_are_only_counted(kind):
    """Most pairs are near, on lattices many are exactly as far as the radius; one point is far away."""
    x, y = (make(kind, 1501, 9, seed) for seed in (0, 1))
    x[3] = y[5] = 1e3 * x[3] + 1.0
    for others in (None, y):
        every = distances(x, others)
        for radius in (*np.quantile(every[~np.isnan(every)], [0.5, 0.9]), np.inf):
            np.testing.assert_array_equal(
                np.diff(within(radius, x, others).indptr), (every <= radius).sum(axis=1)
            )


def test_a_signal_ends_a_search(monkeypatch):
    monkeypatch.setattr(passes, "requested", iter([False, False, True]).__next__)
    monkeypatch.setattr(neighbours, "check_signals", lambda: signal.raise_signal(signal.SIGINT))
    with pytest.raises(Interrupted) as stop:
        nearest(2, np.zeros((3000, 2)), threads=1)
    assert stop.value.result is None


def test_digits():
    digits = pytest.importorskip("sklearn.datasets").load_digits().data[:400]
    for metric in METRICS:
        check(9, digits, metric=metric)


def test_a_point_is_left_out_by_its_index():
    x = [[0, 0], [1, 0], [0, 0], [1, 0], [0, 0], [5, 5]]
    expected = [[2, 4, 1], [3, 0, 2], [0, 4, 1], [1, 0, 2], [0, 2, 1], [1, 3, 0]]
    assert nearest(3, x)[1].tolist() == expected
    assert nearest(1, x, x)[1][:, 0].tolist() == [0, 1, 0, 1, 0, 5]
    assert within(0.0, x).nnz == 6 + 2  # zeros are stored
    assert within(0.0, x, x).nnz == 9 + 4 + 1


def test_near_numbers_of_float32_keep_their_digits():
    x = np.array([[0.7125930], [0.7123166]], np.float32)
    assert nearest(1, x)[0].tolist() == [[0.0002764463424682617]] * 2


def test_the_radius_of_a_neighbour_has_it():
    x = RNG(5).normal(size=(300, 14))
    found, index = nearest(7, x)
    for row in range(0, 300, 50):
        graph = within(found[row, 6], x)
        assert graph.indices[graph.indptr[row] : graph.indptr[row + 1]].tolist() == sorted(index[row])


def test_the_cosine_distance_keeps_its_digits():
    x = np.array([[1.0, 0.0], [1.0, 1e-9], [0.0, 0.0], [-2.0, 0.0], [0.0, 0.0]])
    found, index = nearest(4, x, metric="cosine")
    np.testing.assert_allclose(found[0], [5e-19, 1.0, 1.0, 2.0], rtol=1e-15)
    assert index[2].tolist() == [4, 0, 1, 3]
    assert found[2].tolist() == [0.0, 1.0, 1.0, 1.0]


def test_distances_that_overflow_are_infinite():
    x = np.array([[1e300], [-1e300], [0.0], [1.7e308]])
    found, index = nearest(3, x)
    assert (np.isinf(found).all(), index.tolist()) == (True, [[1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2]])
    assert within(1e308, x).nnz == 0
    assert within(np.inf, x).nnz == 12
    assert nearest(3, x, metric="manhattan")[0][2].tolist() == [1e300, 1e300, 1.7e308]
    check(3, np.full((40, 12), 1.7e308) * np.sign(RNG(0).normal(size=(40, 1))), metric="sqeuclidean")


@pytest.mark.parametrize("axes", [2, 20])
def test_few_points(axes):
    none, one = np.zeros((0, axes)), np.zeros((1, axes))
    assert within(1.0, none).shape == (0, 0)
    assert within(1.0, one).nnz == 0
    assert within(1.0, one, none).shape == (1, 0)
    assert within(1.0, none, one).shape == (0, 1)
    assert nearest(1, none, one)[0].shape == (0, 1)
    assert nearest(1, one, one)[1].tolist() == [[0]]
    assert within(0.0, one, one).toarray().tolist() == [[0.0]]


def test_blocks_are_the_rows_of_all():
    x = RNG(6).random((700, 4))
    whole = within(0.3, x)
    for memory in (1, "20 kB", "1 GB"):
        parts = list(within.blocks(0.3, x, memory=memory))
        ends = [0, *(rows.stop for rows, _ in parts)]
        assert [(rows.start, rows.stop) for rows, _ in parts] == list(pairwise(ends))
        assert (scipy.sparse.vstack([part for _, part in parts]) != whole).nnz == 0
        if memory != 1:
            assert len(parts) == (1 if memory == "1 GB" else len(parts))
            assert all(16 * part.nnz <= 20_000 or memory == "1 GB" for _, part in parts)
    found = list(within.blocks(0.3, x[:100], x, memory="5 kB"))
    assert sum(part.nnz for _, part in found) == within(0.3, x[:100], x).nnz


def test_pairs_of_a_bin_are_those_of_two_radii():
    x = RNG(7).random((400, 3))
    ring = within(0.3, x).nnz - within(0.2, x).nnz
    assert ring == 2 * pairs.histogram(x, edges=[0.2, 0.3], closed="right").counts.sum()


def test_counting_stops_if_the_result_cannot_fit(monkeypatch):
    monkeypatch.setattr(host_memory, "_free_bytes", lambda: iter([10**8]))
    x = RNG(8).random((30_000, 9)) * 0.1
    with pytest.raises(
        HostMemoryError, match=r"out of memory: needs at least .* within\.blocks returns some"
    ):
        within(1.0, x)
    rows, part = next(within.blocks(1.0, x[:3000], memory="20 MB"))
    assert (rows.start, part.nnz) == (0, rows.stop * 2999)
    monkeypatch.setattr(host_memory, "_free_bytes", lambda: iter([7 * 10**7]))
    with pytest.raises(HostMemoryError, match="for 1000 neighbours of 30000 points"):
        nearest(1000, x)


GOOD = np.zeros((20, 2))
BAD = GOOD.copy()
BAD[16, 1] = np.nan


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: nearest(20, GOOD), "k: found 20, expected at most 19, the other points of x"),
        (lambda: nearest(3, GOOD, GOOD[:2]), "k: found 3, expected at most 2, the points of y"),
        (lambda: nearest(1, GOOD[:1]), "k: found 1, expected at most 0, the other points of x"),
        (lambda: nearest(0, GOOD), "k: found 0, expected an integer of at least 1"),
        (lambda: nearest(1.5, GOOD), "k: found 1.5, expected an integer"),
        (lambda: within(-1, GOOD), "radius: found -1, expected a number of at least 0"),
        (lambda: within(np.nan, GOOD), "radius: found nan, expected a number"),
        (
            lambda: nearest(1, GOOD, metric="euclid"),
            "metric: found 'euclid'; did you mean euclidean?, expected one of ",
        ),
        (lambda: nearest(1, BAD), "x: row 17, column 2 has nan, expected a finite number"),
        (lambda: nearest(1, GOOD, np.zeros((3, 3))), "y: found 3 columns, expected 2 as in x"),
        (lambda: nearest(1, np.zeros((4, 0))), "x: found 0 columns, expected at least 1"),
        (lambda: nearest(1, GOOD, box=[1, 1], metric="cosine"), "box: found with the metric cosine, which"),
        (lambda: nearest(1, Points(GOOD), box=1.0), "box: found with Points, expected it as an argument of"),
        (
            lambda: nearest(1, GOOD, metric="jaccard", device="cuda"),
            "device: found cuda, expected auto or cpu",
        ),
        (lambda: nearest(1, GOOD, device="gpu"), "device: found 'gpu', expected one of auto, cpu"),
        (lambda: nearest(1, GOOD, threads=0), "threads: found 0, expected an integer of at least 1"),
        (lambda: within.blocks(1, GOOD, memory="much"), "memory: found 'much', expected bytes"),
        (lambda: within.blocks(-1, GOOD), "radius: found -1, expected a number of at least 0"),
    ],
)
def test_wrong_arguments(call, text):
    with pytest.raises((ParameterError, DataError)) as error:
        call()
    assert str(error.value).startswith(text)
