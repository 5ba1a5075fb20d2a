"""Structured losses with an oracle, against multi-class training and against enumeration of all outputs."""

import itertools
import sys
from pathlib import Path

import clarabel
import numpy as np
import pytest
import scipy.sparse as sp

import bmrm
from bmrm.errors import DataError, ParameterError
from bmrm.losses import Structured
from bmrm.matrix.examples import Examples


@pytest.fixture
def chain(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "examples")
    import chain

    yield chain
    del sys.modules["chain"]


class OneLabel:
    """The structure of a single label: psi(x, y) is x in the row of y."""

    def __init__(self, K, d, sparse=False):
        self.K, self.d, self.sparse, self.n_features, self.calls = K, d, sparse, K * d, 0

    def most_violated(self, w, x, y):
        self.calls += 1
        best = int((w.reshape(self.d, self.K).T @ x + (np.arange(self.K) != y)).argmax())
        if not self.sparse:
            e = np.eye(self.K)
            return float(best != y), np.outer(x, e[best] - e[y]).ravel()
        rows = self.K * np.arange(self.d)
        return float(best != y), (np.concatenate([rows + best, rows + y]), np.concatenate([x, -x]))

    def predict(self, w, x):
        return int((w.reshape(self.d, self.K).T @ x).argmax())


def one_label(m=50, d=3, K=4):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(m, d))
    y = (X @ rng.normal(size=(d, K)) + rng.normal(size=(m, K))).argmax(axis=1)
    y[:K] = np.arange(K)
    return X, y


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("options", [{}, {"cuts_per_pass": 1}, {"cuts_per_pass": 7}, {"solver": "bmrm"}])
def test_a_single_label_is_the_multiclass_loss(options, sparse):
    X, y = one_label()
    weights = np.random.default_rng(1).integers(0, 3, len(y)).astype(float)
    wanted = bmrm.solve(X, y, "multiclass", lam=1e-2, tol=1e-9, sample_weight=weights)
    oracle = OneLabel(4, 3, sparse)
    options = {"tol": 1e-7, "sample_weight": weights, **options}
    found = bmrm.solve(list(X), list(y), Structured(oracle), lam=1e-2, **options)
    assert found.status == "converged"
    assert found.objective == pytest.approx(wanted.objective, rel=1e-6)
    assert found.lower_bound <= wanted.objective * (1 + 1e-9)
    np.testing.assert_allclose(found.w.reshape(3, 4), wanted.w, atol=1e-2)
    assert found.predict(list(X)) == (X @ found.w.reshape(3, 4)).argmax(axis=1).tolist()
    assert (found.n_samples, found.n_features, found.device) == (50, 12, "cpu")


def test_chain_against_all_its_taggings(chain):
    rng = np.random.default_rng(3)
    X = [rng.normal(size=(n, chain.SIZE)) for n in (1, 2, 3, 3, 4)]
    Y = [rng.integers(0, chain.TAGS, len(x)) for x in X]
    oracle, lam = chain.Chain(), 0.05
    d, m = oracle.n_features, len(X)
    found = bmrm.solve(X, Y, Structured(oracle), lam=lam, tol=1e-8)
    rows, rhs = [], []
    for i, (x, y) in enumerate(zip(X, Y, strict=True)):
        for tags in itertools.product(range(chain.TAGS), repeat=len(x)):
            difference = oracle.psi(x, np.array(tags)) - oracle.psi(x, y)
            rows.append(np.concatenate([difference, -np.eye(m)[i]]))
            rhs.append(-float((np.array(tags) != y).sum()))
    P = sp.block_diag([lam * sp.eye(d), sp.csc_matrix((m, m))]).tocsc()
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-11
    q, cones = np.concatenate([np.zeros(d), np.full(m, 1 / m)]), [clarabel.NonnegativeConeT(len(rhs))]
    problem = sp.triu(P).tocsc(), q, sp.csc_matrix(np.array(rows)), np.array(rhs), cones, settings
    wanted = clarabel.DefaultSolver(*problem).solve().obj_val
    assert found.status == "converged"
    assert found.objective == pytest.approx(wanted, rel=1e-6)
    for x in X:
        values = {
            tags: found.w @ oracle.psi(x, np.array(tags))
            for tags in itertools.product(range(chain.TAGS), repeat=len(x))
        }
        assert tuple(found.predict([x])[0].tolist()) == max(values, key=values.get)


def test_answers_at_repeated_points_are_cached():
    X, y = one_label()
    oracle = OneLabel(4, 3)
    result = bmrm.solve(list(X), list(y), Structured(oracle), lam=1e-2, tol=1e-3, cuts_per_pass=1)
    steps = oracle.calls / len(y)
    assert steps == int(steps)
    # A search of a few steps and the cut: without the cache, the oracle would be asked again at its end.
    assert steps < 6 * result.n_iter


def test_examples_built_once_keep_their_cuts():
    X, y = one_label()
    loss = Structured(OneLabel(4, 3))
    examples = Examples(list(X), list(y), 12)
    path = bmrm.path(examples, lams=[1e-1, 1e-2], loss=loss)
    assert path[0].bundle.origin == path[1].bundle.origin
    assert path[1].n_iter < bmrm.solve(examples, loss=loss, lam=1e-2).n_iter
    assert bmrm.solve(examples, loss=loss, lam=1e-2, warm_start=path[1]).n_iter <= 2


class Wrong(OneLabel):
    """An oracle with a fixed answer."""

    def __init__(self, answer):
        super().__init__(4, 3)
        self.answer = answer

    def most_violated(self, w, x, y):
        return self.answer


X, Y = [np.ones(3)] * 2, [0, 1]


def solve_wrong(answer):
    return bmrm.solve(X, Y, Structured(Wrong(answer)))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: Structured(object()), ParameterError, "n_features None"),
        (lambda: bmrm.solve(X, Y[:1], Structured(OneLabel(2, 3))), DataError, "2 inputs and 1 outputs"),
        (lambda: bmrm.solve([], [], Structured(OneLabel(2, 3))), DataError, "0 inputs"),
        (lambda: bmrm.solve(X, None, Structured(OneLabel(2, 3))), DataError, "0 outputs"),
        (lambda: bmrm.solve(X, Y, Structured(Wrong((0.0, np.zeros(2))))), DataError, "example 1 has a diff"),
        (
            lambda: bmrm.solve(X, Y, Structured(Wrong((-1.0, np.zeros(12))))),
            DataError,
            "maximum -1, expected at",
        ),
        (lambda: solve_wrong((0.0, ([-1], [1.0]))), DataError, r"example 1 has indices \[-1\]"),
        (lambda: solve_wrong((0.0, ([12], [1.0]))), DataError, "indices from 0 to 11"),
        (lambda: solve_wrong((0.0, ([1, 2], [1.0]))), DataError, "expected as many"),
        (lambda: solve_wrong((np.nan, np.zeros(12))), DataError, "example 1 has the maximum NaN"),
        (
            lambda: bmrm.solve(X, Y, Structured(OneLabel(2, 3)), dtype="float32"),
            ParameterError,
            "no .* or dtype",
        ),
        (lambda: bmrm.solve(X, Y, Structured(OneLabel(2, 3)), groups=Y), ParameterError, "no .*, groups"),
        (lambda: bmrm.solve(X, Y, Structured(OneLabel(2, 3)), fit_intercept=True), ParameterError, "oracle"),
        (lambda: bmrm.solve(X, Y, Structured(OneLabel(2, 3)), cuts_per_pass=3), ParameterError, "1 to 2"),
        (
            lambda: bmrm.solve(bmrm.Dataset(np.eye(2), Y), loss=Structured(OneLabel(2, 3))),
            ParameterError,
            "found a Dataset",
        ),
        (lambda: bmrm.solve(Examples(X, Y, 6), loss="hinge"), ParameterError, "found examples"),
        (
            lambda: bmrm.solve(Examples(X, Y, 5), loss=Structured(OneLabel(2, 3))),
            ParameterError,
            "found n_fe",
        ),
        (lambda: bmrm.solve(Examples(X, Y, 6), Y, Structured(OneLabel(2, 3))), ParameterError, "to the Exam"),
        (
            lambda: bmrm.solve(X, Y, Structured(OneLabel(2, 3))).save("model"),
            ParameterError,
            "keep the result's w",
        ),
    ],
)
def test_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_a_difference_may_be_a_list():
    found = solve_wrong((1.0, [0.0] * 12))
    assert found.objective == pytest.approx(1.0)
