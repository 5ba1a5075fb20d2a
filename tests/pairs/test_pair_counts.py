"""Counts that are known, or that others have got wrong; points of any kind; sums."""

import itertools
import threading

import count_reference as reference
import numpy as np
import pytest

from bmrm import pairs
from bmrm.pairs import Points, count, histogram

TEN = np.arange(10.0)
LATTICE = np.array(list(itertools.product(TEN, TEN, TEN)))
OF_INTEGERS = [0, 10476, 22656, 44240, 53160, 73924, 65484, 75564, 60992, 50376]
OF_TENTHS = [1500, 9876, 25632, 40364, 53160, 74224, 66428, 74320, 60992, 50376]
OF_FAR_TENTHS = [2100, 9576, 23784, 42212, 54900, 73840, 66420, 72672, 62540, 47868]
PLANS = ("auto", "brute", "cells", "float64")


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize(
    ("closed", "expected"),
    [
        ("last", OF_INTEGERS),
        ("left", [*OF_INTEGERS[:-1], 49416]),
        ("right", [2700, 10176, 29268, 37028, 57900, 72040, 67104, 69888, 65924, 44844]),
    ],
)
def test_a_lattice_with_pairs_on_every_edge(plan, closed, expected):
    found = histogram(LATTICE, edges=np.arange(11.0), closed=closed, plan=plan)
    assert found.counts.tolist() == expected
    assert found.ordered.tolist() == [2 * each for each in expected]
    assert found.pairs == 499500


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize(("offset", "expected"), [(0.0, OF_TENTHS), (1e6, OF_FAR_TENTHS)])
def test_a_lattice_counts_as_the_numbers_that_it_has_in_float64(plan, offset, expected):
    edges = np.arange(11) * 0.1
    assert histogram(LATTICE * 0.1 + offset, edges=edges, plan=plan).counts.tolist() == expected


@pytest.mark.parametrize("plan", PLANS)
def test_a_periodic_lattice(plan):
    found = histogram(Points(LATTICE, box=10.0), edges=np.arange(6.0), plan=plan)
    assert found.counts.tolist() == [0, 13000, 33000, 79000, 130500]


def test_a_box_of_unlike_sides():
    rng = np.random.RandomState(42)
    x = np.array([rng.uniform(0.0, side, 100_000) for side in (100.0, 100.0, 50.0)]).T
    found = count(Points(x, box=(100.0, 100.0, 50.0)), radius=[1.0, 3.0, 10.0])
    assert found.tolist() == [41443, 1130195, 41887047]


@pytest.mark.parametrize(("images", "expected"), [("all", [0, 1, 3, 3, 7]), ("one", [0, 1, 0, 0, 0])])
def test_images_of_two_points(images, expected):
    points = Points([[0.0, 0.0, 0.0], [0.6, 0.6, 0.6]], box=1.0)
    assert histogram(points, edges=[0, 0.5, 0.7, 0.9, 1, 1.1], images=images).counts.tolist() == expected


def test_points_outside_of_the_box():
    x = [[-0.1, 0.0, 0.0], [1.15, 0.0, 0.0], [0.5, 0.5, 7.5]]
    points = Points(x, box=1.0)
    radii = [0.2499, 0.2501, 0.78898668, 0.7889867, 0.81240383, 0.81240385]
    assert count(points, radius=radii, images="one").tolist() == [0, 1, 1, 2, 2, 3]


def test_more_pairs_in_one_bin_than_32_bits_hold():
    x = np.zeros((100_000, 2))
    assert histogram(x, edges=[0, 1, 2]).counts.tolist() == [4_999_950_000, 0]


def test_a_copy_of_the_points_is_another_set():
    x = np.random.default_rng(0).random((300, 3))
    found = histogram(x, x.copy(), edges=[0.0, 1e-300, 2.0])
    assert found.counts.tolist() == [300, 300 * 299]
    assert found.pairs == 300 * 300


def test_pairs_of_patches_add_up_to_those_of_the_whole():
    rng = np.random.default_rng(1)
    x, edges = rng.random((700, 3)), np.linspace(0, 1, 30)
    patches = [Points(x[rng_part]) for rng_part in np.array_split(np.arange(700), 4)]
    parts = [histogram(patch, edges=edges) for patch in patches]
    parts += [histogram(a, b, edges=edges) for a, b in itertools.combinations(patches, 2)]
    total, whole = sum(parts[1:], parts[0]), histogram(x, edges=edges)
    assert np.array_equal(total.counts, whole.counts)
    assert (total.pairs, total.candidates, total.share) == (whole.pairs, whole.candidates, 1.0)


def test_edges_of_any_kind_are_those_of_numpy():
    rng = np.random.default_rng(2)
    x = rng.random((200, 2))
    r = np.sqrt(reference.squares(x, x, [0.0, 0.0]))[np.triu_indices(200, 1)]
    for edges in (np.geomspace(1e-3, 2, 7), np.sort(r)[::997], [-3.0, -1.0, 0.5], [0.2, 0.3, np.inf]):
        assert np.array_equal(histogram(x, edges=edges).counts, np.histogram(r, edges)[0])


def test_the_last_bin_may_have_no_end():
    x = np.array([[0.0], [1.0], [1e200], [-1e200], [1e300]])
    assert histogram(x, edges=[0.5, 2.0, np.inf]).counts.tolist() == [1, 9]
    assert histogram(x, edges=[0.5, 2.0, np.inf], closed="left").counts.tolist() == [1, 0]
    assert histogram(x, edges=[0.5, 2.0, 1e301], closed="last").counts.tolist() == [1, 0]
    assert count(x, radius=[0.5, np.inf]).tolist() == [0, 10]


@pytest.mark.parametrize("scale", [1e200, 1e-200])
def test_squares_that_overflow_or_vanish(scale):
    x = np.arange(4.0)[:, None] * scale
    found = histogram(x, edges=np.array([0.0, 0.5, 1.5, 2.5, 3.5]) * scale)
    assert found.plan.kernel == "float64"
    expected = reference.histogram(x, edges=found.edges)
    assert found.counts.tolist() == expected.tolist()


def test_one_far_point_and_points_that_are_all_equal():
    x = np.full((500, 3), 0.25)
    x[7] = 1e9
    found = histogram(x, edges=[0.0, 1.0, 2e9], plan="auto")
    assert found.counts.tolist() == [499 * 249, 499]


@pytest.mark.parametrize("n", [0, 1])
@pytest.mark.parametrize("axes", [0, 1, 3])
def test_no_pairs(n, axes):
    x = np.zeros((n, axes))
    for found in (histogram(x, edges=[0, 1]), histogram(x, np.zeros((0, axes)), edges=[0, 1])):
        assert (found.counts.tolist(), found.pairs, found.rechecked) == ([0], 0, 0.0)
    assert count(x, radius=1.0) == 0


def test_points_without_axes_have_no_distances():
    assert histogram(np.zeros((5, 0)), edges=[0, 1]).counts.tolist() == [0]


@pytest.mark.parametrize("axes", range(1, 12))
def test_any_number_of_axes(axes):
    x = np.random.default_rng(axes).random((90, axes))
    edges = np.linspace(0, 2, 17)
    for box in (None, 1.0):
        found = histogram(Points(x, box=box), edges=edges, images="one")
        assert np.array_equal(found.counts, reference.histogram(x, edges=edges, box=box))


def test_many_bins():
    x = np.random.default_rng(3).random((400, 3))
    edges = np.linspace(0, 2, 200_001)
    assert np.array_equal(histogram(x, edges=edges).counts, reference.histogram(x, edges=edges))


def test_radii():
    x = np.random.default_rng(4).random((300, 3))
    r = np.sqrt(reference.squares(x, x, [0.0] * 3))[np.triu_indices(300, 1)]
    radii = [0.5, 0.0, 0.1, 0.5, r[17]]
    found = count(x, radius=radii)
    assert found.dtype == np.int64
    assert found.tolist() == [int((r <= radius).sum()) for radius in radii]
    one = count(x, radius=0.5)
    assert (type(one), one) == (int, found[0])


@pytest.mark.parametrize("kind", [int, bool, np.float16, np.float32, np.uint8])
def test_numbers_of_any_type_count_as_float64(kind):
    x = np.random.default_rng(5).integers(0, 2, (60, 3)).astype(kind)
    edges = [0.0, 1.0, 1.5, 2.0]
    assert np.array_equal(histogram(x, edges=edges).counts, reference.histogram(x, edges=edges))


def test_layouts_files_and_frames(tmp_path):
    x = np.random.default_rng(6).random((80, 3))
    expected = histogram(x, edges=[0.0, 0.5, 1.0]).counts.tolist()
    np.save(tmp_path / "x.npy", x)
    wide = np.zeros((160, 6))
    wide[::2, ::2] = x
    given = [np.asfortranarray(x), wide[::2, ::2], x.tolist(), np.load(tmp_path / "x.npy", mmap_mode="r")]
    given.append(pytest.importorskip("pandas").DataFrame(x))
    given.append(pytest.importorskip("polars").DataFrame(x))
    for each in given:
        assert histogram(each, edges=[0.0, 0.5, 1.0]).counts.tolist() == expected


def test_arrays_of_other_libraries():
    strict = pytest.importorskip("array_api_strict")
    x = np.random.default_rng(6).random((80, 3))
    assert histogram(strict.asarray(x), edges=[0, 1]).counts == histogram(x, edges=[0, 1]).counts


def test_several_threads_may_count_the_same_points():
    points = Points(np.random.default_rng(7).random((900, 3)))
    edges = np.linspace(0, 1, 20)
    expected, found = histogram(points, edges=edges).counts.tolist(), []
    threads = [
        threading.Thread(target=lambda: found.append(histogram(points, edges=edges).counts.tolist()))
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 6


def test_points_are_placed_once():
    points = Points(np.random.default_rng(8).random((50, 3)), box=1.0)
    histogram(points, edges=[0, 0.5])
    placed = points._placed["cpu"]
    histogram(points, points, edges=[0, 0.3])
    assert points._placed["cpu"] is placed
    assert (len(points), points.shape, points.box.tolist()) == (50, (50, 3), [1.0] * 3)
    assert repr(points) == "<Points: 50 in 3 dimensions>"


def test_an_infinite_length_is_an_open_axis():
    x = np.random.default_rng(9).random((50, 2))
    points = Points(x, box=[np.inf, 1.0])
    assert points.box.tolist() == [0.0, 1.0]
    found = histogram(points, edges=[0, 0.5])
    assert found.counts.tolist() == reference.histogram(x, edges=[0, 0.5], box=[0, 1.0]).tolist()


def test_the_second_set_is_in_the_box_of_the_first():
    x, y = np.random.default_rng(10).random((2, 40, 2))
    expected = reference.histogram(x, y, edges=[0, 0.5], box=1.0).tolist()
    boxed = Points(x, box=1.0), Points(y, box=1.0)
    for a, b in (boxed, (boxed[0], y), (x, boxed[1])):
        assert histogram(a, b, edges=[0, 0.5]).counts.tolist() == expected


def test_shown():
    found = histogram([[0.0], [1.0]], edges=[0, 1, 2])
    assert repr(found).splitlines()[0] == "Histogram: 2 bins from 0 to 2, 1 pairs"
    assert repr(found).splitlines()[-2:] == ["   0   1      0", "   1   2      1"]
    assert {"Histogram", "PairPlan", "Points", "count", "explain", "histogram"} <= set(pairs.__all__)
