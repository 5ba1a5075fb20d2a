"""The kernels that count pairs on the CPU, each asked directly, against the one in float64."""

from pathlib import Path

import numpy as np
import pytest
from instruction_sets import output_on

from bmrm.matrix._cpu import instruction_set
from bmrm.pairs._pairs import PairCounter, PlacedPoints, near_order

KERNELS = ("brute", "cells")


def placed(x, box=0.0):
    x = np.asarray(x, float)
    return PlacedPoints(np.ascontiguousarray(x.T), np.broadcast_to(np.asarray(box, float), x.shape[1]).copy())


def count(a, b, edges, kernel, threads=1, step=None):
    """Count all tasks, in ranges of `step`."""
    counter = PairCounter(a, b, np.square(edges), kernel, threads=threads)
    step = step or max(1, counter.tasks)
    counts, candidates, rechecked = np.zeros(len(edges) - 1, np.int64), 0.0, 0.0
    for first in range(0, counter.tasks, step):
        found = counter.count(first, min(counter.tasks, first + step), threads)
        counts += found[0]
        candidates += found[1]
        rechecked += found[2]
    assert candidates == counter.candidates
    assert 0.0 <= rechecked <= candidates
    return counts, candidates, rechecked


def edges_of_all_kinds():
    """Edges for each kind of table, and for slots of which some have several bounds."""
    rng = np.random.default_rng(7)
    return {
        "one": np.array([0.0, 0.3]),
        "a square per lane": np.linspace(0.0, 0.4, 21),
        "squares": np.linspace(0.0, 1.2, 151),
        "places": np.linspace(0.05, 0.7, 1001),
        "many places": np.linspace(0.0, 1.8, 9001),
        "far from 0": np.linspace(0.5, 0.501, 12),
        "a tiny first edge": np.linspace(1e-9, 0.3, 8),
        "logarithmic": np.geomspace(1e-4, 0.5, 41),
        "from almost 0": np.geomspace(1e-30, 0.5, 41),
        "close together": np.sort(np.concatenate([[0.0, 0.1, 0.1 + 1e-12, 0.1 + 1e-9], rng.random(30)])),
        "random": np.sort(rng.random(700)),
        "twice the same": np.array([0.0, 0.1, 0.1, 0.2, 0.2, 0.2, 0.35]),
        "beyond all": np.linspace(0.0, 1e6, 11),
    }


def point_sets():
    rng = np.random.default_rng(3)
    x = rng.random((1300, 3))
    lattice = rng.integers(0, 8, (1300, 3)) * 0.05
    outlier = x.copy()
    outlier[700] = 1e9
    clusters = rng.integers(0, 3, (1300, 3)) * 0.3 + 1e-3 * rng.normal(size=(1300, 3))
    return {
        "uniform": x,
        "lattice": lattice,
        "far": np.round(x * 64) / 64 + 1e6,
        "outlier": outlier,
        "clusters": clusters,
        "equal": np.repeat(x[:1], 1300, axis=0),
        "outside": 5.0 * x - 2.0,
        "plane": x[:, :2],
        "line": x[:, :1],
        "five axes": rng.random((900, 5)),
        "many axes": 0.1 * rng.random((300, 90)),
    }


def check(name, kernels=KERNELS):
    """Compare all kinds of edges for a set of points."""
    x = point_sets()[name]
    y = x[::3] + 0.01
    for box in (0.0, 1.0, np.arange(1, x.shape[1] + 1) % 3 * 0.45):
        a, b = placed(x, box), placed(y, box)
        for kind, edges in edges_of_all_kinds().items():
            for other in (None, b):
                expected = count(a, other, edges, "float64")[0]
                for kernel in kernels if x.shape[1] <= 3 else ("brute",):
                    found = count(a, other, edges, kernel)[0]
                    np.testing.assert_array_equal(found, expected, err_msg=f"{name} {box} {kind} {kernel}")


@pytest.mark.parametrize("name", point_sets())
def test_kernels_count_as_float64_does(name):
    check(name)


@pytest.mark.parametrize("isa", [isa for isa in ("baseline", "avx2") if isa != instruction_set()])
def test_other_instruction_sets_count_the_same(isa):
    program = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from test_pair_kernels import check\n"
        "for name in ('uniform', 'lattice', 'outlier', 'five axes'): check(name)\n"
    )
    output_on(isa, program)


@pytest.mark.parametrize("kernel", KERNELS)
def test_counts_do_not_depend_on_threads_and_ranges_of_tasks(kernel):
    a, edges = placed(np.random.default_rng(1).random((12000, 3)), 1.0), np.linspace(0.0, 0.2, 33)
    counter = PairCounter(a, None, np.square(edges), kernel)
    assert counter.tasks > 3
    expected = count(a, None, edges, kernel)
    for threads in (1, 2, 3):
        found = count(a, None, edges, kernel, threads, step=2)
        np.testing.assert_array_equal(found[0], expected[0])
        assert found[1:] == expected[1:]


def test_cells_find_few_candidates():
    a = placed(np.random.default_rng(1).random((20000, 3)), 1.0)
    counts, candidates, rechecked = count(a, None, np.linspace(0.0, 0.1, 21), "cells")
    assert counts.sum() < candidates < 20000 * 19999 / 2 * 0.05
    assert rechecked < 1e-4 * candidates


def test_one_cell_with_all_points_is_counted_in_parts():
    n = 40_000
    x = np.concatenate([np.full((n, 3), 0.25), [[0.25, 0.25, 0.35], [9e8, 0.0, 0.0]]])
    counter = PairCounter(placed(x), None, np.square([0.0, 0.05, 0.2]), "cells")
    assert counter.tasks > 50
    counts, candidates, rechecked = counter.count(0, counter.tasks, 2)
    assert counts.tolist() == [n * (n - 1) // 2, n]
    assert candidates == counter.candidates
    assert rechecked < 0.01 * candidates


def test_points_with_few_bits_are_decided_in_float64():
    x = np.stack(np.meshgrid(*[np.arange(12) * 0.05] * 3), axis=-1).reshape(-1, 3)
    _, candidates, rechecked = count(placed(x), None, np.arange(9) * 0.05, "brute")
    assert 0.005 < rechecked / candidates < 0.2


@pytest.mark.parametrize("leaf", [1, 64, 300])
def test_an_order_by_nearness_does_not_depend_on_threads(leaf):
    rng = np.random.default_rng(1)
    for x in (rng.random((5000, 3)), rng.integers(0, 3, (2000, 2)), np.ones((700, 1)), np.empty((0, 2))):
        order = near_order(placed(x), leaf, 1)
        assert np.array_equal(np.sort(order), np.arange(len(x)))
        for threads in (2, 3, 8):
            assert np.array_equal(near_order(placed(x), leaf, threads), order)
