"""`NearestNeighbors` is scikit-learn's, and exact."""

import numpy as np
import pytest

from bmrm import NearestNeighbors, pairs
from bmrm.errors import DataError, ParameterError

neighbors = pytest.importorskip("sklearn.neighbors")

X = np.random.default_rng(0).normal(size=(300, 5))
NEW = np.random.default_rng(1).normal(size=(20, 5))


@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean", "cosine", "manhattan", "chebyshev"])
@pytest.mark.parametrize("new", [None, NEW])
def test_results_are_those_of_scikit_learn(metric, new):
    ours = NearestNeighbors(4, 0.7, metric=metric, n_jobs=1).fit(X)
    theirs = neighbors.NearestNeighbors(n_neighbors=4, radius=0.7, metric=metric).fit(X)
    for here, there in zip(ours.kneighbors(new), theirs.kneighbors(new), strict=True):
        np.testing.assert_allclose(here, there, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(ours.kneighbors(new, 2, False), theirs.kneighbors(new, 2, False))
    words = {"X": new, "radius": 0.5, "sort_results": True}
    for lists in zip(ours.radius_neighbors(**words), theirs.radius_neighbors(**words), strict=True):
        for here, there in zip(*lists, strict=True):
            np.testing.assert_allclose(here, there, rtol=1e-9, atol=1e-12)
    for mode in ("connectivity", "distance"):
        for call in ("kneighbors_graph", "radius_neighbors_graph"):
            here, there = (getattr(each, call)(new, mode=mode).toarray() for each in (ours, theirs))
            np.testing.assert_allclose(here, there, rtol=1e-9, atol=1e-12)


def test_graphs_are_what_scikit_learn_takes():
    y = X[:, 0] > 0
    graph = NearestNeighbors(5).fit(X).kneighbors_graph(X, mode="distance")
    classifier = neighbors.KNeighborsClassifier(3, metric="precomputed").fit(graph, y)
    expected = neighbors.KNeighborsClassifier(3).fit(X, y).predict(X)
    assert (classifier.predict(graph) == expected).all()
    sorted_by_distance = (
        NearestNeighbors(radius=0.9).fit(X).radius_neighbors_graph(mode="distance", sort_results=True)
    )
    parts = np.split(sorted_by_distance.data, sorted_by_distance.indptr[1:-1])
    assert all((np.diff(part) >= 0).all() for part in parts)


def test_periodic_boxes():
    found = NearestNeighbors(3, box=1.0).fit(X).kneighbors()
    for here, there in zip(found, pairs.nearest(3, X, box=1.0), strict=True):
        np.testing.assert_array_equal(here, there)


def test_rows_of_fit_are_a_copy():
    x = X.copy()
    model = NearestNeighbors(3).fit(x)
    before = model.kneighbors()[0]
    x[:] = 0.0
    np.testing.assert_array_equal(model.kneighbors()[0], before)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: NearestNeighbors(metric="minkovski").fit(X), "metric: found 'minkovski', expected one of"),
        (lambda: NearestNeighbors(301).fit(X).kneighbors(), "k: found 301, expected at most 299"),
        (lambda: NearestNeighbors(box=[1, 2]).fit(X), "box: found shape (2,), expected (5,)"),
        (
            lambda: NearestNeighbors().fit(X).kneighbors(NEW[:, :3]),
            "X: found 3 columns, expected 5 as in",
        ),
        (
            lambda: NearestNeighbors().fit(X).kneighbors_graph(mode="all"),
            "mode: found 'all', expected one of",
        ),
        (
            lambda: NearestNeighbors().fit(X).radius_neighbors(sort_results=True, return_distance=False),
            "sort_results: found True without return_distance",
        ),
        (
            lambda: NearestNeighbors(metric="jaccard", device="cuda").fit(X).kneighbors(),
            "device: found cuda, expected auto or cpu for the metric jaccard",
        ),
    ],
)
def test_wrong_arguments(call, text):
    with pytest.raises((ParameterError, DataError)) as error:
        call()
    assert str(error.value).startswith(text)
