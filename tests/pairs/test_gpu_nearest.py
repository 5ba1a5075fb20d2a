"""Neighbours on a GPU or the emulator are those of a float64 lexsort by distance and index."""

import pickle

import numpy as np
import pytest
from devices import cuda, few, gpu, on_device, sized
from neighbour_reference import distances, sorted_neighbours
from test_neighbours import make

from bmrm import NearestNeighbors
from bmrm.base import host_memory
from bmrm.errors import DataError, DeviceMemoryError, HostMemoryError, ParameterError
from bmrm.pairs import Points, nearest, within

pytestmark = gpu

KINDS = ("uniform", "lattice", "far", "equal", "scales", "tiny", "huge")
METRICS = ("euclidean", "sqeuclidean", "cosine", "manhattan", "chebyshev")
N = sized(70, 700)
RNG = np.random.default_rng


def check(k, x, y=None, *, metric="euclidean", box=None, given=None):
    there = (x, y) if given is None else given
    found = nearest(k, *there, metric=metric, box=box if given is None else None, device="cuda")
    expected = sorted_neighbours(k, x, y, metric, box)
    for here, wanted in zip(found, expected, strict=True):
        np.testing.assert_array_equal(here, wanted)
    assert (found[0].dtype, found[1].dtype) == (np.float64, np.int64)
    radius = found[0][: len(x) // 2].max(initial=0.0)
    every = distances(x, y, metric, box)
    graph = within(radius, *there, metric=metric, box=box if given is None else None, device="cuda")
    np.testing.assert_array_equal(graph.toarray(), np.where(every <= radius, every, 0.0))
    assert graph.nnz == (every <= radius).sum()
    assert graph.has_canonical_format


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("metric", METRICS)
def test_neighbours_are_those_of_a_sort(metric, kind):
    for axes in (1, 3, 11, 37):
        x = make(kind, N, axes)
        check(4, x, metric=metric)
        check(N // 2, x[: N // 3], make(kind, N - 5, axes, 1), metric=metric)


@pytest.mark.parametrize("metric", ["euclidean", "manhattan", "chebyshev"])
@pytest.mark.parametrize("kind", ["uniform", "lattice", "scales"])
def test_periodic_axes(metric, kind):
    for axes in (1, 3, 12):
        box = np.where(np.arange(axes) % 2, 0.0, 3.0 if kind == "lattice" else 0.7)
        check(5, make(kind, N, axes), metric=metric, box=box)
        check(2, make(kind, N, axes), make(kind, 50, axes, 1), metric=metric, box=box)


@pytest.mark.parametrize("axes", [2, 20])
def test_any_number_of_neighbours(axes):
    """Lattices have many points at the same distance; more points than a row has candidates at a time."""
    x = RNG(3).integers(0, 4, (sized(700, 3000), axes)).astype(float)
    expected = sorted_neighbours(len(x) - 1, x[:9], x)
    for k in (1, 2, 85, 86, 300, len(x) - 1):
        found = nearest(k, x[:9], x, device="cuda")
        np.testing.assert_array_equal(found[0], expected[0][:, :k])
        np.testing.assert_array_equal(found[1], expected[1][:, :k])
    for k in (1, sized(90, 2999)):
        check(k, x[: k + 1])


def order_of(count):
    """The order in which a search looks at points (`step_of` in src_cuda/pairs/neighbours.cu)."""
    step = max(1, int(0.6180339887498949 * count))
    while np.gcd(step, count) != 1:
        step += 1
    return np.arange(count) * step % count


def test_rows_that_get_too_many_candidates():
    """Points that come nearer and nearer in the order in which they are looked at."""
    n = 1500
    y = np.empty((n, 2))
    y[order_of(n)] = np.column_stack([np.arange(n, 0, -1.0), np.zeros(n)])
    check(5, np.array([[0.0, 0.0], [0.0, 3.0], [2000.0, 0.0]]), y)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_points_that_are_on_the_gpu(dtype):
    x, y = ((make("uniform", N, 5, seed) * 50).astype(dtype) for seed in (0, 1))
    there = Points(on_device(x)), Points(on_device(y), device="cuda")
    for metric in ("euclidean", "cosine", "chebyshev"):
        check(4, x, metric=metric, given=(there[0], None))
        check(4, x, y, metric=metric, given=there)
        check(4, x, y, metric=metric, given=(on_device(x), y))
    assert nearest(1, there[0], there[0])[0].tolist() == [[0.0]] * N
    found = nearest(2, there[0])  # where they are
    np.testing.assert_array_equal(found[1], sorted_neighbours(2, x)[1])


def test_points_of_other_types_on_either_side():
    x, y = make("uniform", N, 4).astype(np.float32), make("uniform", N, 4, 1)
    check(3, x, y, given=(Points(on_device(x)), Points(y, device="cuda")))
    check(3, x, y)
    check(3, y, x, metric="cosine")
    check(3, x[:, ::-1])  # not contiguous
    box = [1.0, 0.0, 0.3, 0.0]
    check(3, x, y, box=box, given=(Points(on_device(x), box=box), Points(y, box=box, device="cuda")))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cosine_distances_of_rows_of_zeros(dtype):
    """Rows are divided by their lengths on the device: also those whose squares overflow, or are 0."""
    for axes in (1, 6, 33):
        x, y = (make("scales", N, axes, seed).astype(dtype) for seed in (0, 1))
        x[3], y[2] = 1e-38, -1e38
        check(4, x, y, metric="cosine")
        y[::9] = 0.0
        check(4, x, y, metric="cosine")
        check(4, y, x, metric="cosine")
        check(4, y, metric="cosine", given=(on_device(y), None))
        check(4, (y * 1e-44).astype(dtype), metric="cosine")


def test_results_do_not_depend_on_rows():
    x = RNG(3).integers(0, 4, (sized(5000, 90_000), 3)).astype(float)
    rows = slice(len(x) - 300, None)
    every = nearest(3, x[:20], device="cuda"), within(1.0, x[rows], x, device="cuda")
    for device in ("cpu", "cuda"):
        found = nearest(3, x[:20], device=device), within(1.0, x[rows], x, device=device)
        for here, there in zip(found[0], every[0], strict=True):
            np.testing.assert_array_equal(here, there)
        assert (found[1] != every[1]).nnz == 0
        assert found[1].nnz == every[1].nnz


def test_a_point_is_left_out_by_its_index():
    x = [[0, 0], [1, 0], [0, 0], [1, 0], [0, 0], [5, 5]]
    expected = [[2, 4, 1], [3, 0, 2], [0, 4, 1], [1, 0, 2], [0, 2, 1], [1, 3, 0]]
    assert nearest(3, x, device="cuda")[1].tolist() == expected
    assert nearest(1, x, x, device="cuda")[1][:, 0].tolist() == [0, 1, 0, 1, 0, 5]
    assert within(0.0, x, device="cuda").nnz == 6 + 2
    assert within(0.0, x, x, device="cuda").nnz == 9 + 4 + 1


def test_distances_that_overflow_are_infinite():
    x = np.array([[1e300], [-1e300], [0.0], [1.7e308]])
    assert nearest(3, x, device="cuda")[1].tolist() == [[1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2]]
    assert within(1e308, x, device="cuda").nnz == 0
    assert within(np.inf, x, device="cuda").nnz == 12


@pytest.mark.parametrize("axes", [2, 20])
def test_few_points(axes):
    none, one = np.zeros((0, axes)), np.zeros((1, axes))
    assert within(1.0, none, device="cuda").shape == (0, 0)
    assert within(1.0, one, device="cuda").nnz == 0
    assert within(1.0, one, none, device="cuda").shape == (1, 0)
    assert nearest(1, none, one, device="cuda")[0].shape == (0, 1)
    assert nearest(1, one, one, device="cuda")[1].tolist() == [[0]]


def test_blocks_are_the_rows_of_all():
    x = RNG(6).random((700, 4))
    whole = within(0.3, x, device="cpu")
    for memory in (1000, "20 kB", "1 GB"):
        last = 0
        for rows, part in within.blocks(0.3, x, memory=memory, device="cuda"):
            assert rows.start == last
            last = rows.stop
            assert (part != whole[rows]).nnz == 0
            assert part.nnz == whole[rows].nnz
            assert part.has_sorted_indices
        assert last == 700


def test_counting_stops_if_the_result_cannot_fit(monkeypatch):
    monkeypatch.setattr(host_memory, "_free_bytes", lambda: iter([10**6]))
    x = RNG(8).random((sized(1200, 180_000), 9)) * 0.1
    with pytest.raises(HostMemoryError, match=r"needs at least .* within\.blocks returns some"):
        within(1.0, x, device="cuda")


def test_memory_of_the_device_is_predicted(monkeypatch):
    import bmrm.pairs.neighbours_gpu as module

    x = RNG(9).random((300, 6))
    asked = []
    monkeypatch.setattr(module.DevicePairs, "require", lambda self, needed, what: asked.append(needed))
    nearest(20, x, device="cuda")
    monkeypatch.undo()
    free = cuda.device_info()["free_bytes"]
    monkeypatch.setattr(module, "neighbour_device_bytes", lambda *_: free + 1)
    with pytest.raises(
        DeviceMemoryError, match="too little: a search for the neighbours of 300 points takes"
    ):
        nearest(20, x, device="cuda")
    assert asked
    assert asked[0] >= 2 * x.nbytes


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x: nearest(20, x), "k: found 20, expected at most 19, the other points of x"),
        (lambda x: nearest(1, np.where(x < 0.1, np.nan, x)), "x: row"),
        (lambda x: nearest(1, x, np.zeros((3, 3))), "y: found 3 columns, expected 2 as in x"),
        (
            lambda x: nearest(1, x, metric="jaccard"),
            "device: found cuda, expected auto or cpu for the metric",
        ),
        (lambda x: within(-1, x), "radius: found -1, expected a number of at least 0"),
    ],
)
def test_wrong_arguments(call, text):
    x = RNG(2).random((20, 2))
    x[7] = 0.01
    with pytest.raises((ParameterError, DataError)) as error:
        call(Points(x, device="cuda") if "row" not in text else x)
    assert str(error.value).startswith(text)


def test_the_estimator():
    x = make("uniform", N, 6)
    found, expected = (NearestNeighbors(4, device=device).fit(x) for device in ("cuda", "cpu"))
    for here, there in zip(found.kneighbors(), expected.kneighbors(), strict=True):
        np.testing.assert_array_equal(here, there)
    assert (found.radius_neighbors_graph(x[:9], 0.4) != expected.radius_neighbors_graph(x[:9], 0.4)).nnz == 0


def test_the_estimator_keeps_its_rows_there(monkeypatch):
    x, uploads, made = make("uniform", N, 4), [], cuda.DenseRows

    def counted(rows, **words):
        uploads.append(len(rows))
        return made(rows, **words)

    monkeypatch.setattr(cuda, "DenseRows", counted)
    NearestNeighbors(4, metric="cosine", device="cuda").fit(x).kneighbors()
    assert uploads.pop() == N
    model = NearestNeighbors(4, device="cuda").fit(x)
    for _ in range(2):
        assert (model.kneighbors()[1] == sorted_neighbours(4, x)[1]).all()
        model.radius_neighbors_graph(radius=0.2)
    assert uploads == [N]
    assert (model.kneighbors(on_device(x[:9]))[1] == sorted_neighbours(4, x[:9], x)[1]).all()
    copy = pickle.loads(pickle.dumps(model))
    assert (copy.kneighbors(x[:9])[1] == sorted_neighbours(4, x[:9], x)[1]).all()
    assert uploads == [N, 9, 9, N]
    assert (model.fit(x + 1.0).kneighbors()[1] == sorted_neighbours(4, x + 1.0)[1]).all()
    assert uploads == [N, 9, 9, N, N]


def check_tree(k, x, y=None, metric="euclidean"):
    found, expected = nearest(k, x, y, metric=metric, device="cuda"), sorted_neighbours(k, x, y, metric)
    for here, wanted in zip(found, expected, strict=True):
        np.testing.assert_array_equal(here, wanted)
    every = distances(x, y, metric)
    for radius in (0.0, float(np.median(expected[0])), np.inf):
        graph = within(radius, x, y, metric=metric, device="cuda")
        near = every <= radius
        np.testing.assert_array_equal(graph.indptr[1:], near.sum(axis=1).cumsum())
        np.testing.assert_array_equal(graph.indices, np.nonzero(near)[1])
        np.testing.assert_array_equal(graph.data, every[near])


TREE = sized(520, 5000)  # points from which a tree is used


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("metric", few(METRICS, 5))
def test_a_tree_of_few_axes(metric, kind):
    for axes in few((3, 6, 1, 2, 5), 2):
        x, y = (make(kind, TREE, axes, seed) for seed in (0, 1))
        check_tree(7, x, metric=metric)
        check_tree(1, x[:130], y, metric=metric)


@pytest.mark.parametrize("k", [1, 2, 128, 129])
def test_a_tree_and_many_neighbours(k):
    """Lattices have many points at the same distance. Above 128 neighbours there is no tree."""
    x = RNG(4).integers(0, 6, (sized(1100, 40_000), 3)).astype(float)
    y = RNG(5).integers(-3, 9, (131, 3)) * 0.5
    check_tree(k, y, x)


def test_all_neighbours_by_a_tree():
    """Fewer points than a tree pays for, and one more."""
    for n in (511, 512, 513):
        x, y = make("uniform", n, 3), make("lattice", n, 2)
        check_tree(min(n - 1, 128), x)
        check_tree(n - 1, y)


def test_rows_outside_of_a_tree():
    y = make("uniform", TREE, 3)
    x = np.concatenate([y[:50] + 1e6, y[:50] - 7.0, y[:50] * 1e200, np.zeros((50, 3))])
    check_tree(3, x, y)
    y[5] = 1e30  # so that all others have one place on the curve
    check_tree(3, y)


def test_rows_of_several_tasks_by_a_tree():
    x = RNG(6).random((sized(4500, 30_000), 3)).astype(np.float32)
    x[::7] = x[0]  # copies
    here, there = nearest(4, Points(on_device(x))), nearest(4, x, device="cpu")
    for found, expected in zip(here, there, strict=True):
        np.testing.assert_array_equal(found, expected)
    graphs = within(0.04, Points(on_device(x))), within(0.04, x, device="cpu")
    for each in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(*(getattr(graph, each) for graph in graphs))
    blocks = within.blocks(0.04, Points(on_device(x)), memory="100 kB")
    for rows, block in blocks:
        assert (block != graphs[0][rows]).nnz == 0


ROUNDED = sized(260, 3000)  # points from which tensor cores are used
SQUARES = ("euclidean", "sqeuclidean", "cosine")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("metric", few(SQUARES, 3))
def test_candidates_of_tensor_cores_are_decided_in_float64(metric, kind):
    for axes, k in ((20, 5), (70, 1), (260, 40)):
        x, y = (make(kind, ROUNDED, axes, seed) for seed in (0, 1))
        check(k, x[: sized(70, 150)], y, metric=metric)
    check(3, make(kind, ROUNDED, sized(20, 260)), metric=metric)


def test_tight_clusters_with_one_point_far_away():
    """What float16 leaves is more than the distances: most rows get too many candidates."""
    rng = RNG(0)
    x = (
        rng.integers(0, 9, (ROUNDED + 200, 30)) * 1e-4
        + np.eye(1, 30) * (np.arange(ROUNDED + 200) == 7)[:, None]
    )
    check(3, x)
    check(3, (x * 1e3).astype(np.float32), given=(on_device((x * 1e3).astype(np.float32)), None))


def test_more_points_than_a_pass_has():
    x = make("uniform", sized(2000, 50_000), 24)
    expected = sorted_neighbours(30, x[:40], x)
    for rows, k in ((17, 30), (40, 1), (40, 30)):
        found = nearest(k, x[:rows], x, device="cuda")
        np.testing.assert_array_equal(found[0], expected[0][:rows, :k])
        np.testing.assert_array_equal(found[1], expected[1][:rows, :k])
