"""Counts of pairs on a GPU or the emulator: every kernel against plain NumPy, bit by bit."""

import itertools

import count_reference as reference
import numpy as np
import pytest
from count_problems import count_problem
from devices import IS_EMULATED, cuda, few, gpu, large, on_device, sized

from bmrm.errors import DataError, DeviceMemoryError, ParameterError
from bmrm.pairs import Points, dot, histogram, sqrt, squared_distance, statistic
from bmrm.pairs.edges import read_bins
from bmrm.pairs.gpu import DevicePairs
from bmrm.pairs.work import device_bytes

pytestmark = gpu

KERNELS = ("float64", "brute", "cells")
MAX_AXES = {"float64": 99, "brute": 7, "cells": 3}
RNG = np.random.default_rng(0)
LATTICE = np.array(list(itertools.product(np.arange(10.0), repeat=3)))
CUBE = RNG.random((2300, 3))
PROBLEMS = sized(60, 300)
GROUP = 20

# Several tiles, one that is not full; points on edges, outside of the box, at one place, far from the others.
CASES = {
    "one point": (CUBE[:1], None, np.linspace(0, 1, 5), None),
    "a full tile": (CUBE[:1024], None, np.linspace(0, np.sqrt(3), 101), None),
    "three tiles": (CUBE, None, np.linspace(0, np.sqrt(3), 101), None),
    "two sets": (CUBE[:900], CUBE[900:] + 0.2, np.linspace(0.1, 1, 51), None),
    "periodic": (CUBE[:1100] * [1, 2, 0.5], None, np.linspace(0, 0.25, 21), [1, 2, 0.5]),
    "outside of the box": (CUBE[:1100] * 5 - 2, None, np.linspace(0, 0.45, 21), [1, 0, 1.3]),
    "lattice": (LATTICE, None, np.arange(11.0), None),
    "periodic lattice": (LATTICE, None, np.arange(6.0), [10] * 3),
    "tenths": (LATTICE * 0.1, None, np.arange(11) * 0.1, None),
    "far": (LATTICE * 0.1 + 1e6, None, np.arange(11) * 0.1, None),
    "logarithmic": (CUBE[:1100], None, np.geomspace(0.001, 2, 31), None),
    "few edges": (CUBE[:1200], CUBE[800:], [0, 0.1, 0.101, 0.5], None),
    "equal edges": (CUBE[:1100], None, [0, 0.1, np.nextafter(0.1, 1), 0.3, 0.7], None),
    "radius": (CUBE[:1100], None, [0, 0.3], None),
    "radius of a lattice": (LATTICE, None, [0, 3.0], None),
    "radius in a box": (CUBE[:1100], None, [0, 0.4], [1, 1, 1]),
    "1 axis": (CUBE[:1100, :1], None, np.linspace(0, 1, 51), None),
    "2 periodic axes": (CUBE[:1100, :2], None, np.linspace(0, 0.5, 51), [1, 1]),
    "5 axes": (RNG.random((1100, 5)), None, np.linspace(0, 2, 51), None),
    "7 periodic axes": (RNG.random((1100, 7)), None, np.linspace(0, 0.5, 11), [1] * 7),
    "9 axes": (RNG.random((1100, 9)), None, np.linspace(0, 3, 51), None),
    "one place": (np.ones((1100, 3)), None, np.linspace(0, 1, 11), None),
    "a full cell": (np.concatenate([CUBE[:600], 1e-6 * CUBE[:600]]), None, np.linspace(0, 0.1, 11), None),
    "an outlier": (np.concatenate([CUBE[:1100], [[1e9] * 3]]), None, np.linspace(0, 1, 11), None),
    "1,000 bins": (CUBE[:1100], None, np.linspace(0, np.sqrt(3), 1001), None),
    "beyond shared memory": (CUBE[:1100], None, np.linspace(0, np.sqrt(3), 100_001), None),
    "squares overflow": (CUBE[:1100] * 1e200, None, np.linspace(0, 1e200, 11), None),
    "squares are tiny": (CUBE[:1100] * 1e-200, None, np.linspace(0, 1e-200, 11), None),
}


def placed(x, box, **words):
    lengths = np.zeros(x.shape[1]) if box is None else np.array(box, float)
    return cuda.PlacedPoints(np.ascontiguousarray(x.T, float), lengths, **words)


def counted(counter):
    counts, candidates, rechecked = counter.count(0, counter.tasks)
    assert 0 <= rechecked <= candidates == counter.candidates
    return counts


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", CASES)
def test_counts_are_those_of_numpy(name, kernel):
    x, y, edges, box = CASES[name]
    if x.shape[1] > MAX_AXES[kernel]:
        pytest.skip("the kernel has fewer axes")
    a, b = placed(x, box), None if y is None else placed(y, box)
    both = ("last", "right")[:: (-1) ** (list(CASES).index(name) + KERNELS.index(kernel))]
    for closed in few(both):
        counter = cuda.PairCounter(a, b, read_bins(edges, closed).bounds, kernel)
        expected = reference.histogram(x, y, edges=edges, box=box, images="one", closed=closed)
        np.testing.assert_array_equal(counted(counter), expected)


@pytest.mark.parametrize("first", range(0, PROBLEMS, GROUP))
def test_random_problems_have_the_counts_of_the_reference(first):
    for seed in range(first, first + GROUP):
        problem = count_problem(seed)
        expected, points = problem.expected(), problem.points(device="cuda")
        for plan in problem.plans():
            found = histogram(*points, plan=plan, **problem.words)
            np.testing.assert_array_equal(found.counts, expected, err_msg=str((seed, plan, problem.words)))


def test_images_beyond_the_nearest():
    x, edges, box = CUBE[:40] * 3 - 1, np.linspace(0, 1.6, 9), [1.0, 0.0, 0.7]
    for y in (None, CUBE[40:70]):
        found = histogram(
            *(Points(each, box=box, device="cuda") for each in (x, y) if each is not None),
            edges=edges,
            images="all",
        )
        expected = reference.histogram(x, y, edges=edges, box=box, images="all")
        np.testing.assert_array_equal(found.counts, expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_points_on_the_device_are_read_there(dtype):
    x, edges = CUBE[:1200].astype(dtype), np.linspace(0, 1, 11)
    expected = reference.histogram(x, edges=edges)
    bounds = read_bins(edges, "last").bounds
    for given, by_points in ((x, True), (np.ascontiguousarray(x.T), False)):
        points = cuda.PlacedPoints(on_device(given), np.zeros(3), by_points=by_points)
        assert (points.n, points.axes) == (1200, 3)
        np.testing.assert_array_equal(counted(cuda.PairCounter(points, None, bounds, "brute")), expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_arrays_on_the_device_are_points(dtype):
    x = (CUBE[:300] * 50).astype(dtype)
    edges, expected = [0, 10, 30.0], reference.histogram(x, edges=[0, 10, 30.0])
    for device in ("auto", "cuda"):
        points = Points(on_device(x), device=device)
        assert points.shape == (300, 3)
        assert points.gpu == 0
        np.testing.assert_array_equal(histogram(points, edges=edges).counts, expected)
        low, high = points.extents
        assert (low.tolist(), high.tolist()) == (x.min(axis=0).tolist(), x.max(axis=0).tolist())
    with pytest.raises(DataError, match="row 18, column 2 has nan"):
        Points(on_device(np.where(np.arange(900).reshape(300, 3) == 52, np.nan, x)))


@pytest.mark.parametrize("kernel", KERNELS)
def test_other_shapes_of_the_device_count_the_same(kernel):
    """Little shared memory: tables and cells of bins leave room for one block, or for none."""
    if not IS_EMULATED:
        pytest.skip("there is one GPU")
    import emulated

    edges = np.linspace(0, 1.5, 151)
    bounds = read_bins(edges, "last").bounds
    expected = reference.histogram(CUBE[:1500], edges=edges)
    try:
        for shared in (96 << 10, 48 << 10, 36 << 10):
            emulated.configure(1, shared=shared)
            counter = cuda.PairCounter(placed(CUBE[:1500], None), None, bounds, kernel)
            np.testing.assert_array_equal(counted(counter), expected)
    finally:
        emulated.configure(1)


@pytest.mark.parametrize("axes", [1, 3, 5])
@pytest.mark.parametrize("kernel", KERNELS)
def test_memory_is_predicted(kernel, axes):
    if axes > MAX_AXES[kernel]:
        pytest.skip("the kernel has fewer axes")
    points = placed(RNG.random((20_000, axes)), None)
    counter = cuda.PairCounter(points, None, np.linspace(0, 1e-3, 11), kernel)
    assert points.bytes + counter.bytes <= device_bytes(kernel, 20_000, axes, 10)


def test_what_a_kernel_lacks_is_said():
    wide, flat = placed(RNG.random((5, 9)), None), placed(CUBE[:5], None)
    for points, kernel, images in (
        (wide, "brute", "nearest"),
        (wide, "cells", "nearest"),
        (flat, "brute", "all"),
    ):
        with pytest.raises(ParameterError, match="plan: expected nearest images and at most"):
            cuda.PairCounter(points, None, np.array([0.0, 1.0]), kernel, images)
    with pytest.raises(ParameterError, match="the same box"):
        cuda.PairCounter(flat, placed(CUBE[:5], [1, 1, 1]), np.array([0.0, 1.0]), "brute")
    with pytest.raises(ParameterError, match="do not decrease"):
        cuda.PairCounter(flat, None, np.array([1.0, 0.5]), "brute")
    with pytest.raises(ParameterError, match="tasks: out of range"):
        cuda.PairCounter(flat, None, np.array([0.0, 1.0]), "brute").count(0, 2)


def test_counts_that_need_more_than_the_device_has_are_refused():
    passes = DevicePairs(0)
    passes.require(1000, "counting 2 points in 3 bins")
    with pytest.raises(DeviceMemoryError, match=r"too little: counting 2 points in 3 bins takes 1e\+12 MB"):
        passes.require(10**18, "counting 2 points in 3 bins")


@large
@pytest.mark.parametrize("plan", few(("brute", "cells"), 2))
def test_many_points_have_the_counts_of_the_cpu(plan):
    x, edges = np.random.default_rng(1).random((400_000, 3)), np.linspace(0, 0.05, 21)
    for box in (None, 1.0):
        found = [
            histogram(Points(x, box=box, device=device), edges=edges, plan=name).counts
            for device, name in (("cuda", plan), ("cuda", "float64"), ("cpu", "cells"))
        ]
        np.testing.assert_array_equal(found[0], found[1])
        np.testing.assert_array_equal(found[0], found[2])


@large
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_bin_has_more_than_32_bits(kernel):
    bounds = np.linspace(0, 1, 11)
    counter = cuda.PairCounter(placed(np.ones((100_000, 3)), None), None, bounds, kernel)
    assert counted(counter).tolist() == [4_999_950_000] + [0] * 9


@large
def test_tasks_add_up():
    counter = cuda.PairCounter(placed(RNG.random((300_000, 3)), None), None, np.linspace(0, 3, 101), "brute")
    assert counter.tasks > 1
    parts = [counter.count(task, task + 1) for task in range(counter.tasks)]
    whole = counter.count(0, counter.tasks)
    np.testing.assert_array_equal(sum(counts for counts, _, _ in parts), whole[0])
    assert sum(candidates for _, candidates, _ in parts) == whole[1] == counter.candidates


@statistic
def close(x, y, square, degree: "rows", product: float):  # noqa: F821
    product[x.index, y.index] = dot(x, y)
    if squared_distance(x, y) < square:
        degree[x.index] += 1


@large
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_functions_of_two_points_read_those_on_the_gpu_where_they_are(kind):
    x = CUBE.astype(kind)
    there, here = Points(on_device(x)), Points(x, device="cpu")
    for words in ({}, {"reach": 0.2}):
        found, expected = (close(each, square=0.01, **words) for each in (there, here))
        assert (found.degree == expected.degree).all()
        assert (found.product == expected.product).all()
        for rows, part in close(there, square=0.01, blocks="4 MB", **words):
            assert (part.product == expected.product[rows]).all()
            assert (part.degree == expected.degree[rows]).all()


@statistic
def rounded(x, y, by, roots: "two", ratios: "two"):  # noqa: F821
    roots[int(sqrt(x.v * y.v) == y.root)] += 1
    ratios[int(x.v * y.v / by == y.ratio)] += 1


@large
@pytest.mark.parametrize("by", [3.0, -0.1, 1e-30, 1e30])
def test_roots_and_ratios_of_points_are_rounded_correctly(by):
    by = np.float32(by)
    v = RNG.integers(0, 0x7F800000, 2_000_000).astype(np.uint32).view(np.float32)
    with np.errstate(over="ignore", under="ignore"):
        v = np.concatenate([v[np.isfinite(v / by)], np.float32([0.0, 1e-45, 1e-38])])
        given = {"v": v, "root": np.sqrt(v), "ratio": v / by}
    sets = np.zeros((32, 1), np.float32), np.zeros((len(v), 1), np.float32)
    words = {name: (np.ones(32, np.float32), each) for name, each in given.items()}
    text = rounded.source("cuda", *sets, by=by, two=2, **words)
    assert "root(" in text
    assert "quotient(" in text
    found = rounded(*sets, by=by, two=2, device="cuda", **words)
    assert found.roots.tolist() == found.ratios.tolist() == [0, 32 * len(v)]
