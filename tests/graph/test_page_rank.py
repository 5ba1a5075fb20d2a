"""PageRank against exact arithmetic, and what it says of itself."""

from __future__ import annotations

import math
import signal
from fractions import Fraction

import exact_pagerank as exact
import graph_cases as cases
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmrm.errors import Interrupted, ParameterError
from bmrm.graph import Graph, pagerank
from bmrm.graph.results import Ranking

UNIT = 2.0**-53


def graph_of(case: cases.Case, **options) -> Graph:
    return Graph(case.arrays if case.is_weighted else case.arrays[:2], n_nodes=case.n, **options)


def error_of(found: Ranking, case: cases.Case) -> float:
    return exact.l1_distance(
        found.scores, exact.pagerank(case.edges, case.n, case.damping, case.restart, case.dangling)
    )


@pytest.mark.parametrize("seed", range(10))
def test_the_error_is_never_above_its_bound(seed):
    rng = np.random.default_rng(seed)
    for _ in range(30):
        case = cases.random_case(rng)
        tol, limit = float(rng.choice([1e-2, 1e-8, 1e-12, 0.0])), int(rng.choice([3, 1000]))
        found = pagerank(
            graph_of(case, order=str(rng.choice(["degree", "given"]))),
            case.damping,
            personalization=case.restart,
            dangling=case.dangling,
            tol=tol,
            method=str(rng.choice(["auto", "power", "anderson"])),
            max_iter=limit,
        )
        assert error_of(found, case) <= found.error_bound, case
        assert found.status in ("converged", "precision", "max_iter")
        if found.status == "converged":
            assert found.error_bound <= tol
        if limit == 1000:
            assert found.status != "max_iter" or case.damping > 0.98


@given(st.data())
def test_the_error_is_never_above_its_bound_for_drawn_graphs(data):
    n = data.draw(st.integers(1, 6))
    nodes = st.integers(0, n - 1)
    weight = st.one_of(st.floats(0, 10), st.sampled_from([1e-150, 1e150, 1.0]))
    edges = data.draw(st.lists(st.tuples(nodes, nodes, weight), max_size=15))
    case = cases.Case(edges, n, data.draw(st.floats(0, 0.999)), None, None)
    found = pagerank(Graph(case.arrays, n_nodes=n), case.damping, tol=1e-10)
    assert error_of(found, case) <= found.error_bound


def test_hubs_with_many_links_are_proven_too():
    # x of the hub and of a leaf have closed forms: leaves point to the hub, the hub to one leaf.
    leaves = 120_000
    G = Graph((np.r_[np.arange(1, leaves + 1), 0], np.r_[np.zeros(leaves, int), 1]))
    found = pagerank(G, 0.85, tol=1e-10)
    d, n = Fraction(0.85), leaves + 1
    base = (1 - d) / n
    # hub = base + d ((leaves - 1) base + first), first = base + d hub
    hub = (base + d * ((leaves - 1) * base + base)) / (1 - d * d)
    first = base + d * hub
    error = abs(Fraction(float(found.scores[0])) - hub) + abs(Fraction(float(found.scores[1])) - first)
    error += (leaves - 1) * abs(Fraction(float(found.scores[2])) - base)
    assert np.unique(found.scores[2:]).size == 1
    assert found.status == "converged"
    assert float(error) <= found.error_bound <= 1e-10


@pytest.mark.parametrize("seed", range(8))
def test_hubs_with_weights_of_any_size_are_proven_too(seed):
    case = cases.hub_case(np.random.default_rng(seed), 2000 if seed < 6 else 110_000)
    found = pagerank(Graph((case.source, case.target, case.weight), n_nodes=sum(case.sizes)), case.damping)
    true = exact.pagerank_of_classes(case.sizes, case.shares, case.damping)
    assert error_of_classes(found.scores, case, true) <= found.error_bound
    if found.status == "converged":
        assert found.error_bound <= 1e-8


def error_of_classes(scores, case: cases.HubCase, true) -> float:
    """The l1 error, where nodes of a class may differ only by rounding."""
    total, first = Fraction(0), 0
    for size, score in zip(case.sizes, true, strict=True):
        values, counts = np.unique(scores[first : first + size], return_counts=True)
        for value, count in zip(values.tolist(), counts.tolist(), strict=True):
            total += count * abs(Fraction(value) - score)
        first += size
    return float(np.nextafter(float(total), 0))


def test_what_rounding_hides_is_not_claimed():
    rng = np.random.default_rng(0)
    G = Graph(rng.integers(0, 2000, (20_000, 2)))
    found = pagerank(G, tol=1e-17)
    assert found.status == "precision"
    assert 1e-17 < found.error_bound < 1e-11
    assert found.n_iter < 200


def test_ten_thousand_steps_of_the_definition_agree():
    rng = np.random.default_rng(1)
    n = 300
    source, target = rng.integers(0, n, 1500), rng.integers(0, n // 2, 1500)
    A = np.zeros((n, n))
    A[source, target] = 1.0
    out = A.sum(1)
    P = np.divide(A, out[:, None], out=np.zeros_like(A), where=out[:, None] > 0).astype(np.longdouble)
    x = np.full(n, 1.0 / n, np.longdouble)
    for _ in range(500):
        x = 0.85 * (P.T @ x + x[out == 0].sum() / n) + np.longdouble(1 - 0.85) / n
    found = pagerank(Graph((source, target), n_nodes=n), tol=1e-12)
    assert float(np.abs(found.scores - x).sum()) <= found.error_bound <= 1e-12


@pytest.mark.parametrize("damping", [0.85, 0.99])
def test_anderson_takes_fewer_products_where_plain_steps_are_slow(damping):
    # Two rings with one bridge each way mix slowly.
    n = 400
    ring = np.arange(n)
    source = np.r_[ring, ring + n, 0, n]
    target = np.r_[(ring + 1) % n, (ring + 1) % n + n, n, 0]
    G = Graph((np.r_[source, target], np.r_[target, source]))
    start = {0: 1.0}
    plain = pagerank(G, damping, personalization=start, method="power", max_iter=10_000)
    fast = pagerank(G, damping, personalization=start)
    assert plain.status == fast.status == "converged"
    assert fast.n_products < 0.75 * plain.n_products
    assert np.abs(plain.scores - fast.scores).sum() <= plain.error_bound + fast.error_bound


def test_the_order_of_the_first_is_proven():
    rng = np.random.default_rng(2)
    G = Graph((rng.integers(0, 500, 4000), rng.zipf(1.5, 4000) % 500))
    found = pagerank(G, top=5, tol=1e-12)
    exact_scores = pagerank(G, tol=1e-13)
    assert found.status == "converged"
    assert found.proven >= 5
    assert found.error_bound > 1e-12  # it stopped early
    assert found.n_products < exact_scores.n_products
    assert [label for label, _ in found.top(5)] == [label for label, _ in exact_scores.top(5)]


def test_equal_scores_are_in_no_proven_order():
    found = pagerank(Graph(([0, 1, 2, 2, 3], [2, 2, 0, 1, 2])), top=3)
    assert (found.status, found.proven, found.ties(3)) == ("converged", 1, [(2, 3)])


def test_all_nodes_in_order():
    found = pagerank(Graph(([0, 1, 2], [2, 2, 0])))
    assert found.proven == 3
    assert found.rank_of(2) == 1
    assert list(found.to_dict()) == [0, 1, 2]


def test_an_empty_graph_has_an_empty_ranking():
    found = pagerank(Graph(([], [])))
    assert (found.status, found.scores.size, found.proven, found.top()) == ("converged", 0, 0, [])


def test_a_single_node_has_everything():
    for edges in (([], []), ([0], [0])):
        found = pagerank(Graph(edges, n_nodes=1))
        assert found.scores == pytest.approx([1.0], abs=found.error_bound)


def test_no_edges_leave_the_restart_vector():
    found = pagerank(Graph(([], []), n_nodes=3), personalization=[1, 0, 3])
    assert found.scores == pytest.approx([0.25, 0, 0.75], abs=1e-8)


def test_limits_return_the_best_iterate_with_its_bound():
    rng = np.random.default_rng(3)
    G = Graph(rng.integers(0, 200, (600, 2)))
    true = pagerank(G, tol=1e-13).scores
    for limit in ({"max_iter": 1}, {"max_iter": 4}, {"max_time": 1e-9}):
        found = pagerank(G, **limit)
        assert found.status == next(iter(limit))
        assert np.abs(found.scores - true).sum() <= found.error_bound < 10


def test_a_callback_sees_bounds_and_may_stop():
    seen = []

    def watch(state):
        seen.append(state)
        return state.iteration == 3

    found = pagerank(Graph(([0, 1, 2, 3], [1, 2, 0, 0])), callback=watch, tol=1e-12)
    assert (found.status, found.n_iter) == ("interrupted", 3)
    assert [state.iteration for state in seen] == [1, 2, 3]
    assert seen[0].error_bound >= seen[-1].error_bound > 0


def test_ctrl_c_carries_the_ranking_so_far():
    G = Graph(([0, 1, 2, 3], [1, 2, 0, 0]))
    with pytest.raises(Interrupted) as stop:
        pagerank(G, tol=0, callback=lambda state: state.iteration == 2 and signal.raise_signal(signal.SIGINT))
    assert stop.value.result.status == "interrupted"
    assert stop.value.result.error_bound < 3


def test_equal_calls_give_equal_bits_for_any_number_of_threads():
    rng = np.random.default_rng(4)
    edges = rng.integers(0, 30_000, (300_000, 2))
    found = [pagerank(Graph(edges, threads=threads), method="anderson") for threads in (1, 2, 3, 1)]
    for other in found[1:]:
        assert np.array_equal(found[0].scores, other.scores)
        assert found[0].error_bound == other.error_bound


def test_integer_weights_are_repeated_edges():
    source, target = [0, 0, 1, 2, 2], [1, 2, 0, 0, 1]
    weighted = pagerank(Graph((source, target, [2.0, 1.0, 1.0, 3.0, 1.0])))
    repeated = pagerank(
        Graph((np.repeat(source, [2, 1, 1, 3, 1]), np.repeat(target, [2, 1, 1, 3, 1])), duplicates="sum")
    )
    assert np.array_equal(weighted.scores, repeated.scores)
    plain = pagerank(Graph((source, target, [2.0, 1.0, 1.0, 3.0, 1.0])), weighted=False)
    assert np.array_equal(plain.scores, pagerank(Graph((source, target))).scores)


def test_weights_of_any_size_are_shares():
    for scale in (1e-150, 1.0, 1e150):
        found = pagerank(Graph(([0, 0, 1, 2], [1, 2, 0, 0], np.array([3.0, 1.0, 1.0, 1.0]) * scale)))
        assert found.scores == pytest.approx([0.486486, 0.360135, 0.153378], abs=1e-4)


def test_a_start_changes_the_way_and_not_the_answer():
    rng = np.random.default_rng(5)
    G = Graph(rng.integers(0, 100, (400, 2)), n_nodes=100)
    first = pagerank(G, tol=1e-12)
    again = pagerank(G, tol=1e-10, start=first.scores)
    assert again.n_iter <= 3
    assert np.abs(first.scores - again.scores).sum() <= first.error_bound + again.error_bound


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"damping": 1.0}, "damping: found 1.0, expected at least 0 and below 1"),
        ({"damping": math.nan}, "damping"),
        ({"damping": -0.1}, "damping"),
        ({"tol": -1}, "tol: found -1"),
        ({"tol": math.inf}, "tol"),
        ({"top": 0}, "top: found 0"),
        ({"max_iter": 0}, "max_iter: found 0"),
        ({"max_time": 0}, "max_time: found 0"),
        ({"method": "fast"}, "method: found 'fast'"),
        ({"personalization": {9: 1}}, "personalization: found 9, expected a node of the graph"),
        ({"personalization": {0: -1}}, "personalization: node 0 has -1.0"),
        ({"personalization": {0: math.nan}}, "personalization: node 0 has nan"),
        ({"personalization": {0: math.inf}}, "personalization: node 0 has inf"),
        ({"personalization": {0: 0.0}}, "personalization: found the sum 0"),
        ({"personalization": {}}, "personalization: found the sum 0"),
        ({"personalization": [1, 2]}, "personalization: found shape (2,)"),
        ({"personalization": {9: 1}, "missing": "ignore"}, "personalization: found the sum 0"),
        ({"dangling": {9: 1}}, "dangling: found 9"),
        ({"missing": "skip", "dangling": {0: 1}}, "missing: found 'skip'"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(ParameterError, match=r".") as fault:
        pagerank(Graph(([0, 1, 2], [1, 2, 0])), **options)
    assert str(fault.value).startswith(message)
    assert "\n" not in str(fault.value)


def test_labels_that_are_no_nodes_can_be_skipped():
    G = Graph(([0, 1, 2], [1, 2, 0]))
    found = pagerank(G, personalization={0: 1, 9: 5}, missing="ignore")
    assert np.array_equal(found.scores, pagerank(G, personalization={0: 1}).scores)


def test_huge_shares_do_not_overflow():
    found = pagerank(Graph(([], []), n_nodes=2), personalization=[1e308, 1e308])
    assert found.scores == pytest.approx([0.5, 0.5])


@pytest.mark.parametrize("suffix", ["tsv", "npz", "parquet"])
def test_scores_are_saved_in_order(tmp_path, suffix):
    found = pagerank(Graph((["a", "b", "c"], ["b", "c", "b"])))
    path = tmp_path / f"scores.{suffix}"
    found.save(path)
    if suffix == "tsv":
        rows = [line.split("\t") for line in path.read_text().splitlines()]
        nodes, scores = [row[0] for row in rows[1:]], [float(row[1]) for row in rows[1:]]
    elif suffix == "npz":
        with np.load(path) as arrays:
            nodes, scores = arrays["node"].tolist(), arrays["score"].tolist()
            assert arrays["error_bound"] == found.error_bound
    else:
        parquet = pytest.importorskip("pyarrow.parquet")
        table = parquet.read_table(path).to_pydict()
        nodes, scores = table["node"], table["score"]
    assert list(zip(nodes, scores, strict=True)) == found.top(3)


def test_other_suffixes_are_refused(tmp_path):
    with pytest.raises(ParameterError, match=r"expected \.tsv, \.npz or \.parquet"):
        pagerank(Graph(([0], [1]))).save(tmp_path / "scores.csv")
