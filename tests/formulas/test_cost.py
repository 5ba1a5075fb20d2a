# ruff: noqa: F821 (annotations name sizes; results are assigned and not read)
"""Predicted times, compared with times that were measured once: nothing is timed here."""

import numpy as np
import pytest

from benchmarks.reductions.predictions import grouped, lookup, membership
from benchmarks.reductions.programs import kmeans_step, member_sums, memberships
from bmrm.distributed.reading import read_rows
from bmrm.formulas.cpu import native
from bmrm.formulas.run.cost import predict_seconds, result_seconds, row_numbers, work_of
from bmrm.reductions import reduction

MAX_FACTOR = 2.2
"""Maximum of the ratio of predicted to measured times, and of its inverse."""


@reduction
def scores(x, weights: ("k", "d"), r: ("n", "k")):
    for j in range(len(weights)):
        margin = 0.0
        for f in range(len(x)):
            margin += x[f] * weights[j, f]
        r[x.index, j] += margin


@reduction
def moments(x, total: "d", squares: "d", largest: "d"):
    for f in range(len(x)):
        total[f] += x[f]
        squares[f] += x[f] ** 2
        largest[f] = max(largest[f], x[f])


WORDS = {
    membership: lambda n, d, k: {"centers": np.zeros((k, d)), "n": n},
    scores: lambda n, d, k: {"weights": np.zeros((k, d)), "n": n},
    moments: lambda n, d, k: {},
    grouped: lambda n, d, k: {"group": np.zeros(n, int), "g": k},
    lookup: lambda n, d, k: {"table": np.zeros(k)},
    kmeans_step: lambda n, d, k: {"w": 1.0, "centers": np.zeros((k, d))},
    memberships: lambda n, d, k: {"mean": np.zeros((k, d)), "prec": np.zeros((k, d)), "const": np.zeros(k)},
    member_sums: lambda n, d, k: {"r": np.zeros((n, k))},
}


def bound(function, rows, columns, k, dtype):
    X = read_rows(np.zeros((rows, columns), dtype))
    return function._binder.bind(X, WORDS[function](rows, columns, k))


MEASURED = [
    (kmeans_step, 1_000_000, 16, 64, "f4", 41.6),
    (kmeans_step, 5_000, 1_000, 8, "f4", 7.4),
    (kmeans_step, 5_000, 1_000, 8, "f8", 10.8),
    (kmeans_step, 1_000_000, 2, 4, "f4", 13.3),
    (membership, 200_000, 4, 4, "f4", 12.4),
    (membership, 20_000, 64, 32, "f8", 17.6),
    (scores, 50_000, 4, 4, "f4", 10.1),
    (scores, 200_000, 4, 4, "f8", 12.6),
    (scores, 1_000_000, 4, 4, "f4", 34.8),
    (moments, 400_000, 16, 0, "f8", 5.7),
    (moments, 2_000, 10_000, 0, "f4", 30.0),
    (moments, 2_000, 10_000, 0, "f8", 37.3),
    (grouped, 400_000, 16, 1_000, "f4", 9.5),
    (grouped, 400_000, 16, 400_000, "f8", 25.5),
    (grouped, 20_000, 1_000, 1_000, "f4", 42.4),
    (lookup, 400_000, 16, 1_000, "f4", 12.4),
    (lookup, 20_000, 1_000, 1_000, "f8", 57.3),
    (memberships, 200_000, 4, 4, "f4", 2.8),
    (memberships, 1_000_000, 4, 4, "f8", 15.7),
    (memberships, 20_000, 64, 32, "f8", 7.4),
    (memberships, 20_000, 4, 1_000, "f4", 38.1),
    (member_sums, 200_000, 4, 4, "f4", 4.0),
    (member_sums, 1_000_000, 2, 8, "f8", 11.1),
    (member_sums, 20_000, 64, 32, "f8", 9.2),
]
"""Function, rows, columns, size and type, and the processor time of a pass on one core (milliseconds)."""


@pytest.fixture(autouse=True)
def vectors(monkeypatch):
    """Predict for the vectors with which times were measured."""
    monkeypatch.setattr(native, "vector_bytes", lambda: 64)


@pytest.mark.parametrize(("function", "rows", "columns", "k", "dtype", "measured"), MEASURED)
def test_predicted_times_are_near_measured_ones(function, rows, columns, k, dtype, measured):
    predicted = 1e3 * predict_seconds(bound(function, rows, columns, k, dtype), 1)
    assert measured / MAX_FACTOR < predicted < measured * MAX_FACTOR


def test_work_is_counted_by_kinds():
    assert work_of(bound(kmeans_step, 100, 5, 3, "f8")) == {
        "operations": 3 * (5 * 5 + 1) + 5 * 2 + 1,  # a column is three operations and two loads
        "vector functions": 0,
        "calls of functions": 0,
        "scattered loads": 0,
        "updates": 5 + 1,  # of the sums by columns, and of the inertia
        "scattered updates": 1,
        "rows of columns": 1,
    }
    assert work_of(bound(membership, 100, 5, 3, "f8"))["vector functions"] == 3
    assert work_of(bound(membership, 100, 5, 3, "f8"))["scattered updates"] == 3
    assert work_of(bound(lookup, 100, 5, 3, "f8"))["scattered loads"] == 5


def test_numbers_of_each_row_are_read_and_written():
    @reduction
    def own(x, p: ("rows", "k"), r: ("rows", "k"), at: ("rows", 3), code: "rows", last: "rows"):
        for j in range(len(p)):
            r[j] += p[j]
            at[x.index % 3] += 1
        code |= 1
        last = max(last, p[0])

    call = own._binder.bind(read_rows(np.zeros((100, 5))), {"p": np.zeros((100, 4))})
    assert row_numbers(call) == 4 + 4 + 3 + 1 + 1
    assert work_of(call)["scattered updates"] == 4
    assert work_of(call)["updates"] == 0
    assert result_seconds(call) == 0


def test_results_are_set_and_combined_by_one_thread():
    call = bound(scores, 200_000, 4, 4, "f8")
    alone = result_seconds(call)
    assert alone > 0.5 * predict_seconds(call, 1)
    assert predict_seconds(call, 4) - alone == pytest.approx((predict_seconds(call, 1) - alone) / 4)


def test_a_while_is_taken_to_have_some_iterations():
    @reduction
    def halved(x, out):
        a, b = x[0], 1
        while a > 1:
            a, b = a / 2, b + 1
        out += a

    @reduction
    def halved_for(x, out):
        a, b = x[0], 1
        for _ in range(16):
            if a > 1:
                a, b = a / 2, b + 1
        out += a

    found, expected = (
        work_of(each._binder.bind(read_rows(np.ones((9, 2))), {})) for each in (halved, halved_for)
    )
    assert found == expected
