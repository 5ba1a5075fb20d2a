"""Rank documents within queries, and compare the losses by several metrics.

Queries of all sizes have documents of relevance 0 to 4. Without a ranking loss one would use regression on
the relevances, which wastes its weights on differences between queries. The program checks the objective of
the pairwise loss by listing every pair.
"""

import numpy as np

import bmrm
from bmrm import RankingMetrics

LAM = 1e-3
FEATURES = 25


def documents(queries: int, rng: np.random.Generator, planted: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return rows, relevances and the query of each row; queries differ in size and in mean relevance."""
    qid = np.repeat(np.arange(queries), rng.integers(2, 60, queries))
    level = 3.0 * rng.standard_normal(queries)  # regression has to explain it, ranking does not
    X = rng.standard_normal((len(qid), FEATURES))
    X[:, -1] += level[qid]
    score = X[:, :-1] @ planted + level[qid] + 1.5 * rng.standard_normal(len(qid))
    return X, np.digitize(score, [0.0, 2.0, 4.0, 6.0]).astype(float), qid


def pairwise_objective(w: np.ndarray, X: np.ndarray, y: np.ndarray, qid: np.ndarray) -> float:
    """Return J from its definition, with the mean over queries of the mean hinge over all pairs."""
    means = []
    for q in np.unique(qid):
        u, relevance = X[qid == q] @ w, y[qid == q]
        better = relevance[:, None] > relevance
        if better.any():
            means.append(np.maximum(0.0, 1.0 - (u[:, None] - u))[better].mean())
    return 0.5 * LAM * (w @ w) + float(np.mean(means))


def main() -> None:
    rng = np.random.default_rng(0)
    planted = rng.standard_normal(FEATURES - 1)
    X, y, qid = documents(150, rng, planted)
    X_test, y_test, qid_test = documents(400, rng, planted)
    data = bmrm.Dataset(X, y, groups=qid)
    print(f"{len(qid)} documents in {qid.max() + 1} queries; on {qid_test.max() + 1} others:")
    print(f"{'loss':12} {'passes':>6} {'NDCG@10':>8} {'MRR':>7} {'wrong pairs':>12}")
    for loss in ("squared", "pairwise", "ndcg", "lambda_ndcg", "mrr"):
        result = bmrm.solve(data, loss=loss, lam=LAM, tol=1e-4, fit_intercept=loss == "squared")
        assert result.status == "converged"
        assert result.lower_bound <= result.objective
        scores = RankingMetrics(qid_test)
        scores.update(result.decision_function(X_test), y_test)
        found = scores.report()
        print(
            f"{loss:12} {result.n_iter:6d} {found['ndcg']:8.4f} {found['mrr']:7.4f} "
            f"{found['pairwise_error']:12.2%}"
        )
        if loss == "pairwise":
            by_hand = pairwise_objective(result.w, X, y, qid)
            assert abs(by_hand - result.objective) <= 1e-12 * by_hand, "J differs from the result's objective"
    print("The objective of pairwise equals that of all pairs, one by one.")


if __name__ == "__main__":
    main()
