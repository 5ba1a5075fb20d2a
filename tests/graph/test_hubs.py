"""Hubs and authorities against singular vectors of dense matrices."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmrm.errors import ParameterError
from bmrm.graph import Graph, hits


def dense(source, target, weight, n):
    A = np.zeros((n, n))
    np.add.at(A, (source, target), weight)
    return A


@pytest.mark.parametrize("seed", range(20))
def test_the_vectors_are_the_leading_singular_ones(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 40))
    pairs = rng.integers(0, n, (int(rng.integers(1, 5 * n)), 2))
    weight = rng.uniform(0.1, 3, len(pairs)) if seed % 2 else np.ones(len(pairs))
    G = Graph((pairs[:, 0], pairs[:, 1], weight), n_nodes=n)
    A = dense(pairs[:, 0], pairs[:, 1], weight, n)
    left, values, right = np.linalg.svd(A)
    found = hits(G, tol=1e-10)
    assert found.status in ("converged", "precision")
    assert found.singular_value == pytest.approx(values[0])
    assert found.residual <= 1e-8
    assert (found.hubs >= 0).all()
    assert (found.authorities >= 0).all()
    assert found.hubs.sum() == pytest.approx(1)
    assert found.authorities.sum() == pytest.approx(1)
    alone = values[1] < values[0] * (1 - 1e-6)
    assert found.unique == alone
    if alone:
        for vector, exact in ((found.hubs, left[:, 0]), (found.authorities, right[0])):
            assert vector == pytest.approx(np.abs(exact) / np.abs(exact).sum(), abs=1e-6)


def test_a_long_run_restarts_its_basis():
    # Authorities in a chain of overlapping pairs have close singular values.
    n = 300
    source = np.r_[np.arange(n - 1), np.arange(n - 1)]
    target = np.r_[np.arange(n - 1), np.arange(1, n)]
    found = hits(Graph((source, target)), tol=1e-9, max_iter=2000)
    A = dense(source, target, np.ones(len(source)), n)
    assert found.n_iter > 40
    assert found.status == "converged"
    assert found.singular_value == pytest.approx(np.linalg.norm(A, 2), rel=1e-12)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=20))
def test_any_graph_has_nonnegative_scores_and_a_small_residual(pairs):
    found = hits(Graph(np.array(pairs), n_nodes=6))
    assert found.hubs.min() >= 0
    assert found.authorities.min() >= 0
    assert found.residual <= 1e-6
    assert 0 <= found.gap <= 1


def test_two_equal_components_are_not_unique():
    assert not hits(Graph(([0, 2], [1, 3]))).unique
    assert hits(Graph(([0, 2, 2], [1, 3, 4]))).unique
    assert not hits(Graph(([0, 0, 3, 3], [1, 2, 4, 5]))).unique


def test_weights_of_any_size_do_not_overflow():
    plain = hits(Graph(([0, 0, 1], [1, 2, 1], [1.0, 2.0, 3.0])))
    for scale in (1e-150, 1e150):
        found = hits(Graph(([0, 0, 1], [1, 2, 1], np.array([1.0, 2.0, 3.0]) * scale)))
        assert found.singular_value == pytest.approx(plain.singular_value * scale)
        assert found.hubs == pytest.approx(plain.hubs)
        assert found.unique


@pytest.mark.parametrize("edges", [([], []), ([0], [1], [0.0])])
def test_graphs_without_edges_have_equal_scores(edges):
    found = hits(Graph(edges, n_nodes=4))
    assert found.hubs == pytest.approx([0.25] * 4)
    assert (found.singular_value, found.unique) == (0.0, False)


def test_an_empty_graph_is_empty():
    assert hits(Graph(([], []))).hubs.size == 0


def test_a_limit_says_so():
    rng = np.random.default_rng(0)
    G = Graph(rng.integers(0, 100, (500, 2)))
    assert hits(G, max_iter=1, tol=1e-14).status == "max_iter"
    assert hits(G, max_time=1e-9, tol=1e-14).status == "max_time"


@pytest.mark.parametrize("options", [{"tol": -1}, {"max_iter": 0}, {"max_time": -1}])
def test_bad_options_are_named(options):
    with pytest.raises(ParameterError, match=next(iter(options))):
        hits(Graph(([0], [1])), **options)


def test_scores_are_saved(tmp_path):
    hits(Graph((["a", "a"], ["b", "c"]))).save(tmp_path / "hits.tsv")
    assert (tmp_path / "hits.tsv").read_text().splitlines()[0] == "node\tauthority\thub"
