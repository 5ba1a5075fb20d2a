"""Wrong arguments: one line says what was found and what was expected, before anything is counted."""

import numpy as np
import pytest
import scipy.sparse

from bmrm.base import host_memory
from bmrm.errors import DataError, HostMemoryError, ParameterError
from bmrm.pairs import Points, count, explain, histogram

GOOD = np.zeros((20, 2))


def bad(row, value):
    x = GOOD.copy()
    x[row, 1] = value
    return x


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (bad(16, np.nan), "x: row 17, column 2 has nan, expected a finite number"),
        (bad(3, -np.inf), "x: row 4, column 2 has -inf, expected a finite number"),
        (np.full((2, 2), 1e400), "x: row 1, column 1 has inf, expected a finite number"),
        (np.zeros(4), "x: found shape (4,) of float64, expected a matrix of real numbers"),
        (np.zeros((2, 2), complex), "x: found shape (2, 2) of complex128, expected a matrix of real numbers"),
        ([["a", "b"]], "x: found shape (1, 2) of <U1, expected a matrix of real numbers"),
        (np.ma.masked_equal(GOOD, 0), "x: found masked values, expected a number in each place"),
        (scipy.sparse.eye(3, format="csr"), "x: found a sparse matrix, expected a matrix"),
        ({1, 2}, "x: found a set, expected a matrix"),
        ("points.npy", "x: found text, expected a matrix; bmrm.io.read_data reads files"),
    ],
)
def test_points_that_are_none(x, text):
    with pytest.raises(DataError) as error:
        Points(x)
    assert str(error.value) == text
    with pytest.raises(DataError):
        histogram(x, edges=[0, 1])


def test_large_coordinates_are_finite():
    assert Points(np.full((40, 1), 1.7e308)).shape == (40, 1)


@pytest.mark.parametrize(
    ("box", "text"),
    [
        (-1.0, "box: found -1, expected lengths of at least 0 (0: an open axis)"),
        ([1.0, np.nan], "box: found nan, expected lengths of at least 0 (0: an open axis)"),
        ([1.0, 1.0, 1.0], "box: found shape (3,), expected (2,), one length per axis"),
        (np.eye(2), "box: found shape (2, 2), expected (2,), one length per axis"),
        ("big", "box: found text, expected lengths of the axes"),
    ],
)
def test_boxes_that_are_none(box, text):
    with pytest.raises(ParameterError) as error:
        Points(GOOD, box=box)
    assert str(error.value) == text


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ({"plan": "brutal"}, "plan: found 'brutal'; did you mean brute?, expected one of auto, "),
        ({"closed": "both"}, "closed: found 'both', expected one of last, left, right"),
        ({"images": "al"}, "images: found 'al'; did you mean all?, expected one, all or None"),
        ({"device": "gpu"}, "device: found 'gpu', expected one of auto, cpu, cuda, cuda:N"),
        ({"threads": 0}, "threads: found 0, expected an integer of at least 1"),
        ({"threads": 10_000}, "threads: found 10000, expected at most 4096"),
        ({"threads": 1.5}, "threads: found 1.5, expected an integer"),
        ({"comm": 3}, "comm: found 3, expected a communicator of mpi4py or petsc4py"),
    ],
)
@pytest.mark.parametrize("call", [histogram, explain])
def test_words_that_are_none(call, words, text):
    if "comm" in words:
        pytest.importorskip("mpi4py")
    with pytest.raises(ParameterError) as error:
        call(GOOD, edges=[0.0, 1.0], **words)
    assert str(error.value).startswith(text)


def test_sets_that_do_not_fit():
    with pytest.raises(DataError, match=r"y: found 3 columns, expected 2 as in x"):
        histogram(GOOD, np.zeros((4, 3)), edges=[0, 1])
    with pytest.raises(ParameterError, match=r"y: found a box of 1, 2, expected 1, 1 as in x"):
        histogram(Points(GOOD, box=1.0), Points(GOOD, box=(1.0, 2.0)), edges=[0, 1], images="one")
    with pytest.raises(ParameterError, match=r"y: found a box of open axes, expected 1, 1 as in x"):
        histogram(Points(GOOD, box=1.0), Points(GOOD), edges=[0, 1], images="one")
    with pytest.raises(ParameterError, match=r"comm: found with Points, expected it as an argument"):
        histogram(Points(GOOD), edges=[0, 1], comm=object())


@pytest.mark.parametrize("edges", [[0, 0.6], [0, np.inf]])
def test_an_edge_beyond_half_the_box_needs_a_choice(edges):
    points = Points(GOOD, box=(1.0, 3.0))
    with pytest.raises(ParameterError) as error:
        histogram(points, edges=edges)
    assert str(error.value) == (
        f"images: found None for a largest edge of {edges[-1]:g}, beyond half the shortest period, 0.5; "
        "expected images='one' (the nearest image of each pair) or images='all'"
    )
    assert histogram(points, edges=edges, images="one").counts.sum() == 190
    assert histogram(points, edges=[0, 0.5]).counts.sum() == 190


def test_images_without_end():
    points = Points(GOOD, box=1.0)
    with pytest.raises(ParameterError, match="found an infinite edge, expected finite ones for images='all'"):
        histogram(points, edges=[0, np.inf], images="all")
    with pytest.raises(ParameterError, match="images of a point within 1e\\+06, expected at most 1e\\+06"):
        histogram(points, edges=[0, 1e6], images="all")


@pytest.mark.parametrize(
    ("x", "edges", "plan", "text"),
    [
        (np.zeros((2, 4)), [0, 1], "cells", "plan: found 'cells' for 4 axes, expected 1 to 3"),
        (GOOD, [0, np.inf], "cells", "plan: found 'cells' for an infinite edge, expected brute"),
        (
            GOOD * 1 + np.eye(20, 2) * 1e200,
            [0, 1],
            "brute",
            "plan: found 'brute', expected float64 or auto: ",
        ),
        (GOOD, [0, 1e-200], "cells", "plan: found 'cells', expected float64 or auto: an edge of 1e-200"),
    ],
)
def test_plans_that_cannot_count(x, edges, plan, text):
    with pytest.raises(ParameterError) as error:
        histogram(x, edges=edges, plan=plan)
    assert str(error.value).startswith(text)


def test_too_little_memory_is_found_before_work(monkeypatch):
    points = Points(GOOD)
    monkeypatch.setattr(host_memory, "available_bytes", lambda: 1 << 20)
    with pytest.raises(
        HostMemoryError, match=r"out of memory: needs .* GB for counting 20 points in 2000000 bins"
    ):
        histogram(points, edges=np.arange(2_000_001.0), threads=16)
    monkeypatch.setattr(host_memory, "MIN_CHECKED_BYTES", 100)
    monkeypatch.setattr(host_memory, "available_bytes", lambda: 100)
    with pytest.raises(HostMemoryError, match=r"needs 9.6e-07 GB for the points"):
        Points(GOOD)


def test_device_without_one(monkeypatch):
    from bmrm.errors import BmrmError
    from bmrm.matrix.gpu.devices import import_cuda

    try:
        import_cuda()
    except BmrmError:
        with pytest.raises(BmrmError, match="this build has no CUDA support"):
            count(GOOD, radius=1.0, device="cuda")
