"""The joint losses from their definitions: every pair, labelling, permutation and threshold written out.

Each loss is a list of terms; the risk is the sum over terms of share * max over pieces of <a, u> + b.
"""

from itertools import permutations, product
from typing import NamedTuple

import clarabel
import numpy as np
import scipy.sparse as sp


class Term(NamedTuple):
    share: float
    slopes: np.ndarray  # (pieces, m)
    levels: np.ndarray  # (pieces,)


def value(terms, u):
    return sum(term.share * np.max(term.slopes @ u + term.levels) for term in terms)


def hinge_of_pair(i, j, m, share):
    slope = np.zeros(m)
    slope[i], slope[j] = -1.0, 1.0
    return Term(share, np.stack([slope, np.zeros(m)]), np.array([1.0, 0.0]))


def roc_area(y, s, groups):
    pairs = [(i, j) for i in range(len(y)) for j in range(len(y)) if y[i] > y[j]]
    total = sum(s[i] * s[j] for i, j in pairs)
    return [hinge_of_pair(i, j, len(y), s[i] * s[j] / total) for i, j in pairs if s[i] * s[j]]


def contingency(y, s, delta, allowed):
    taking = np.flatnonzero(s)
    m, slopes, levels = len(taking), [], []
    truth = y[taking] > 0
    for labels in product([False, True], repeat=m):
        predicted = np.array(labels)
        a, b, c = np.sum(truth & predicted), np.sum(~truth & predicted), np.sum(truth & ~predicted)
        if allowed(predicted.sum(), truth.sum()):
            slope = np.zeros(len(y))
            slope[taking] = np.where(predicted != truth, -y[taking] / m, 0.0)
            slopes.append(slope)
            levels.append(delta(a, b, c))
    return [Term(1.0, np.array(slopes), np.array(levels))]


def f_beta(y, s, groups, beta):
    return contingency(
        y,
        s,
        lambda a, b, c: 1 - (1 + beta**2) * a / ((1 + beta**2) * a + b + beta**2 * c),
        lambda k, n: True,
    )


def precision_at_k(y, s, groups, k):
    return contingency(y, s, lambda a, b, c: 1 - a / (a + b), lambda n, positives: n >= k)


def recall_at_k(y, s, groups, k):
    return contingency(y, s, lambda a, b, c: 1 - a / (a + c), lambda n, positives: n <= k)


def prbep(y, s, groups):
    return contingency(y, s, lambda a, b, c: 1 - a / (a + b), lambda n, positives: n == positives)


def of_groups(y, s, groups, rankable, terms_of):
    """Terms of every group with something to rank, with shares by mean weight."""
    found = [np.flatnonzero((groups == g) & (s > 0)) for g in np.unique(groups)]
    found = [rows for rows in found if len(rows) and rankable(y[rows])]
    total = sum(s[rows].mean() for rows in found)
    terms = []
    for rows in found:
        for term in terms_of(y[rows], s[rows]):
            slopes = np.zeros((len(term.slopes), len(y)))
            slopes[:, rows] = term.slopes
            terms.append(Term(term.share * s[rows].mean() / total, slopes, term.levels))
    return terms


def pairwise(y, s, groups):
    return of_groups(y, s, groups, lambda v: len(set(v)) > 1, lambda v, t: roc_area(v, t, None))


def dcg(relevance, k):
    return sum((2.0**v - 1) / np.log2(i + 2) for i, v in enumerate(relevance[:k]))


def ndcg(y, s, groups, k):
    def terms_of(y, s):
        n, best = len(y), dcg(np.sort(y)[::-1], int(k))
        slopes, levels, ideal = [], [], []
        for order in map(list, permutations(range(n))):
            slope = np.zeros(n)
            for i, row in enumerate(order[: int(k)]):
                slope[row] = 1 / np.log2(i + 2)
            slopes.append(slope)
            levels.append(1 - dcg(y[order], int(k)) / best)
            if (np.diff(y[order]) <= 0).all():
                ideal.append(slope)
        return [Term(1.0, np.array(slopes) - np.mean(ideal, axis=0), np.array(levels))]

    return of_groups(y, s, groups, lambda v: len(set(v)) > 1, terms_of)


def lambda_ndcg(y, s, groups):
    def terms_of(y, s):
        m, scale = len(y), (1 - 1 / np.log2(3)) / dcg(np.sort(y)[::-1], len(y))
        pairs = [(i, j) for i in range(m) for j in range(m) if y[i] > y[j]]
        return [hinge_of_pair(i, j, m, scale * (2.0 ** y[i] - 2.0 ** y[j])) for i, j in pairs]

    return of_groups(y, s, groups, lambda v: len(set(v)) > 1, terms_of)


def mrr(y, s, groups):
    def terms_of(y, s):
        n, good = len(y), y > 0
        pairs = good.sum() * (~good).sum()
        slopes, levels = [], []
        for order in map(list, permutations(range(n))):
            slope = np.zeros(n)
            for i in range(n):
                for j in range(i):
                    if good[order[i]] and not good[order[j]]:
                        slope[order[j]] += 1 / pairs
                        slope[order[i]] -= 1 / pairs
            slopes.append(slope)
            levels.append(1 - 1 / (1 + int(np.argmax(good[order]))))
        return [Term(1.0, np.array(slopes), np.array(levels))]

    return of_groups(y, s, groups, lambda v: (v > 0).any() and (v <= 0).any(), terms_of)


def ordinal_rows(y):
    """Pairs of a row and a threshold, and the side that the row is on."""
    return [(i, k, 1.0 if y[i] > k else -1.0) for i in range(len(y)) for k in range(int(y.max()))]


def ordinal_value(y, s, u):
    """The minimum over each threshold is at a knot."""
    total = 0.0
    for k in range(int(y.max())):
        side = np.where(y > k, 1.0, -1.0)
        knots = (u - side)[s > 0]
        total += min(s @ np.maximum(0, 1 - side * (u - knot)) for knot in knots)
    return total / s.sum()


TERMS = {
    f.__name__: f
    for f in (
        roc_area,
        f_beta,
        precision_at_k,
        recall_at_k,
        prbep,
        pairwise,
        ndcg,
        lambda_ndcg,
        mrr,
    )
}


def structured_optimum(X, terms, lam, free=0):
    """Minimum of lam/2 |w|^2 + value(terms, X w), the last columns of X without penalty, by Clarabel.

    One slack per term and one constraint per piece.
    """
    d = X.shape[1]
    P = sp.diags(np.concatenate([np.full(d - free, lam), np.zeros(free + len(terms))])).tocsc()
    q = np.concatenate([np.zeros(d), [term.share for term in terms]])
    rows, rhs = [], []
    for t, term in enumerate(terms):
        slack = np.zeros((len(term.levels), len(terms)))
        slack[:, t] = -1.0
        rows.append(np.hstack([term.slopes @ X, slack]))
        rhs.append(-term.levels)
    A, b = sp.csc_matrix(np.vstack(rows)), np.concatenate(rhs)
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-11
    cones = [clarabel.NonnegativeConeT(len(b))]
    solution = clarabel.DefaultSolver(P, q, A, b, cones, settings).solve()
    assert str(solution.status) in ("Solved", "AlmostSolved")
    return solution.obj_val
