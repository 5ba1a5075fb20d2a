"""One row far longer than the others, under penalties with kinks: solves converge."""

import numpy as np
import pytest

import bmrm

LOSSES = ["f_beta", "lambda_ndcg", "hinge", "pairwise", "roc_area"]


def problem(seed, loss, length):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((12, 16))
    X[rng.integers(12)] *= length
    score = np.tanh(X @ rng.standard_normal(16)) * 3
    if loss in ("lambda_ndcg", "pairwise"):
        return X, np.digitize(score, [-1, 1]), {"groups": np.repeat([0, 1], 6)}
    return X, np.where(score + rng.standard_normal(12) > 0, 1, -1), {}


@pytest.mark.parametrize("length", [10.0**2.5, 1e5])
@pytest.mark.parametrize("reg", ["l1", "elastic_net"])
@pytest.mark.parametrize("loss", LOSSES)
def test_solves_converge(loss, reg, length):
    for seed in range(2):
        X, y, more = problem(seed, loss, length)
        rng = np.random.default_rng(100 + seed)
        for free in (0.5, 0.0):
            strengths = np.where(rng.random(16) < free, 0.0, 10.0 ** rng.uniform(-1, 1, 16))
            lam = 10.0 ** rng.uniform(-4, -1)
            found = bmrm.solve(
                X, y, loss=loss, reg=reg, lam=lam, feature_lambda=strengths, tol=1e-2, max_iter=300, **more
            )
            assert found.status == "converged", (seed, free)


def test_the_optimum_is_that_of_the_published_method():
    """Slow, but sure: its cuts raise the model where it was lowest."""
    X, y, more = problem(3, "pairwise", 300.0)
    keywords = {"loss": "pairwise", "reg": "l1", "lam": 0.05, "tol": 1e-3, **more}
    found, plain = bmrm.solve(X, y, **keywords), bmrm.solve(X, y, solver="bmrm", **keywords)
    assert found.status == plain.status == "converged"
    assert found.lower_bound <= plain.objective
    assert plain.lower_bound <= found.objective
