"""The ranker: groups, with metadata routing and without."""

import numpy as np
import pytest

pytest.importorskip("sklearn", minversion="1.6")

import sklearn
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score

import bmrm
from bmrm.estimators import BMRMRanker

RNG = np.random.default_rng(0)
X = RNG.standard_normal((120, 4))
GROUPS = np.repeat([f"query {k}" for k in range(12)], 10)
Y = np.clip(np.round(X @ [1.0, -1.0, 0.5, 0.0] + RNG.standard_normal(120) + 1), 0, 3)


@pytest.mark.parametrize("loss", ["pairwise", "ndcg", "lambda_ndcg", "mrr"])
def test_groups_reach_the_core(loss):
    found = BMRMRanker(loss, lam=0.01).fit(X, Y, groups=GROUPS)
    params = {"k": 10.0} if loss == "ndcg" else {}
    core = bmrm.solve(X, Y, loss, lam=0.01, tol=1e-4, groups=GROUPS, **params)
    np.testing.assert_array_equal(found.coef_, core.w)
    np.testing.assert_allclose(found.predict(X), X @ core.w)
    metrics = bmrm.RankingMetrics(np.unique(GROUPS, return_inverse=True)[1])
    metrics.update(X @ core.w, Y)
    assert found.score(X, Y, groups=GROUPS) == pytest.approx(metrics.report()["ndcg"])


def test_all_rows_are_one_group_by_default():
    alone, given = BMRMRanker(lam=0.01).fit(X, Y), BMRMRanker(lam=0.01).fit(X, Y, groups=np.ones(120))
    np.testing.assert_array_equal(alone.coef_, given.coef_)
    assert 0.0 < alone.score(X, Y) <= 1.0
    assert np.isnan(alone.score(X, np.zeros(120)))


def test_routing_requests_groups():
    with sklearn.config_context(enable_metadata_routing=True):
        search = GridSearchCV(BMRMRanker(), {"lam": [1.0, 0.01]}, cv=GroupKFold(3))
        search.fit(X, Y, groups=GROUPS)
        scores = cross_val_score(BMRMRanker(lam=0.01), X, Y, cv=GroupKFold(3), params={"groups": GROUPS})
    assert search.best_score_ >= scores.mean() - 1e-12
    first = next(iter(GroupKFold(3).split(X, Y, GROUPS)))
    alone = BMRMRanker(lam=0.01).fit(X[first[0]], Y[first[0]], groups=GROUPS[first[0]])
    assert scores[0] == alone.score(X[first[1]], Y[first[1]], groups=GROUPS[first[1]])


@pytest.mark.parametrize(
    ("options", "data", "text"),
    [
        ({}, (X, np.zeros(120)), "nothing to rank"),
        ({"loss": "hinge"}, (X, Y), "expected one of pairwise"),
        ({}, (X, None), "requires y to be passed"),
    ],
)
def test_bad_input(options, data, text):
    with pytest.raises(ValueError, match=text):
        BMRMRanker(**options).fit(*data)
    with pytest.raises(ValueError, match="groups"):
        BMRMRanker().fit(X, Y, groups=GROUPS[:7])
