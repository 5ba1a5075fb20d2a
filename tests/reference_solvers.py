"""Independent solvers of the problems that the package solves."""

import clarabel
import numpy as np
import scipy.optimize
import scipy.sparse as sp
from loss_cases import formula


def objective(X, y, w, b, lam, rows, weights=None):
    """J(w, b) with `rows(u, y)` the loss written for NumPy."""
    s = np.ones(X.shape[0]) if weights is None else np.asarray(weights, float)
    return 0.5 * lam * w @ w + (s / s.sum()) @ rows(X @ w + b, y)


def smooth_optimum(X, y, lam, rows, weights=None, intercept=False):
    """Minimum of J for a differentiable loss, by BFGS of SciPy to a tight tolerance."""
    if X.shape[1] > len(X):  # w is a sum of rows: with an orthonormal basis of these it is shorter
        X = np.linalg.qr(X.T)[1].T
    d = X.shape[1]

    def value(v):
        return objective(X, y, v[:d], v[d] if intercept else 0.0, lam, rows, weights)

    start = np.zeros(d + intercept)
    found = scipy.optimize.minimize(value, start, method="BFGS", options={"gtol": 1e-9, "maxiter": 5000})
    return found.fun


def piecewise_linear_optimum(X, slopes, levels, lam, weights=None, intercept=False, intercept_slope=0.0):
    """Minimum of lam/2 |w|^2 + sum_i s_i max_k (slopes[i, k] u_i + levels[i, k]) + intercept_slope b.

    A QP in (w, b, xi) with one constraint per piece, by Clarabel's interior point method.
    """
    m, d = X.shape
    s = np.ones(m) if weights is None else np.asarray(weights, float)
    s = s / s.sum()
    P = sp.block_diag([lam * sp.eye(d), sp.csc_matrix((1 + m, 1 + m))]).tocsc()
    q = np.concatenate([np.zeros(d), [intercept_slope], s])
    pieces = []
    for k in range(slopes.shape[1]):
        a = slopes[:, k][:, None]
        pieces.append(sp.hstack([sp.csr_matrix(a * X), sp.csr_matrix(a), -sp.eye(m)]))
    A, rhs = sp.vstack(pieces).tocsc(), -levels.T.ravel()
    cones = [clarabel.NonnegativeConeT(len(rhs))]
    if not intercept:
        fixed = sp.csc_matrix(([1.0], ([0], [d])), shape=(1, d + 1 + m))
        A, rhs = sp.vstack([A, fixed]).tocsc(), np.append(rhs, 0.0)
        cones.append(clarabel.ZeroConeT(1))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-11
    solution = clarabel.DefaultSolver(sp.triu(P).tocsc(), q, A, rhs, cones, settings).solve()
    assert str(solution.status) in ("Solved", "AlmostSolved")
    return solution.obj_val


def penalised_optimum(X, y, loss, l1, l2, *, prior=0.0, positive=False, intercept=False, weights=None):
    """Minimum of sum_j l1_j |w_j - prior_j| + l2_j/2 (w_j - prior_j)^2 + the mean loss, by Clarabel.

    A cone programme in (w, b, v >= |w - prior|, xi >= loss), for hinge, squared_hinge, logistic, squared
    and absolute.
    """
    m, d = X.shape
    s = np.ones(m) if weights is None else np.asarray(weights, float)
    s = s / s.sum()
    l1, l2, prior = (np.broadcast_to(np.asarray(x, float), d) for x in (l1, l2, prior))
    margins = sp.hstack([sp.csr_matrix(X), np.ones((m, 1)), sp.csr_matrix((m, d))]).tocsr()
    eye, none = sp.eye(m), sp.csr_matrix((m, m))
    w, v, xs = sp.eye(d, 2 * d + 1), sp.eye(d, 2 * d + 1, d + 1), sp.csr_matrix((d, m))
    P, q = np.concatenate([l2, np.zeros(d + 1 + m)]), np.concatenate([-l2 * prior, [0.0], l1, s])
    # Each entry: rows of A, right-hand side, with A x + slack = rhs and the slack in the cone.
    parts = [(sp.hstack([w - v, xs]), prior, "+"), (sp.hstack([-w - v, xs]), -prior, "+")]
    if not intercept:
        parts.append((sp.csr_matrix(([1.0], ([0], [d])), shape=(1, 2 * d + 1 + m)), np.zeros(1), "0"))
    if positive:
        parts.append((sp.hstack([-w, xs]), np.zeros(d), "+"))
    signed = sp.diags(y) @ margins
    if loss in ("hinge", "squared_hinge"):
        parts += [(sp.hstack([-signed, -eye]), -np.ones(m), "+")]
        parts += [(sp.hstack([0 * signed, -eye]), np.zeros(m), "+")]
    elif loss == "absolute":
        parts += [(sp.hstack([k * margins, -eye]), k * y, "+") for k in (1.0, -1.0)]
    elif loss == "squared":
        parts += [(sp.hstack([margins, -eye]), y, "0")]
    if loss in ("squared", "squared_hinge"):
        P[-m:], q[-m:] = (1.0 if loss == "squared" else 2.0) * s, 0.0
    if loss == "logistic":
        # exp(-xi) + exp(-y u - xi) <= 1, with one more variable per exponential.
        P, q = np.append(P, np.zeros(2 * m)), np.append(q, np.zeros(2 * m))
        parts = [(sp.hstack([A, sp.csr_matrix((A.shape[0], 2 * m))]), b, cone) for A, b, cone in parts]
        zero = 0 * signed
        parts.append((sp.hstack([zero, none, eye, eye]), np.ones(m), "+"))
        for k, exponent in enumerate((zero, -signed)):
            value = [none, none, none]
            value[1 + k] = -eye
            rows = [
                sp.hstack([-exponent, eye, none, none]),
                sp.csr_matrix((m, len(q))),
                sp.hstack([zero, *value]),
            ]
            stacked = sp.vstack(rows).tocsr()[np.arange(3 * m).reshape(3, m).T.ravel()]
            parts.append((stacked, np.tile([0.0, 1.0, 0.0], m), "e"))
    cones = []
    for A, _, cone in parts:
        if cone == "e":
            cones += [clarabel.ExponentialConeT()] * m
        else:
            cones.append({"+": clarabel.NonnegativeConeT, "0": clarabel.ZeroConeT}[cone](A.shape[0]))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
    A, rhs = sp.vstack([A for A, _, _ in parts]).tocsc(), np.concatenate([b for _, b, _ in parts])
    solution = clarabel.DefaultSolver(sp.diags(P).tocsc(), q, A, rhs, cones, settings).solve()
    assert str(solution.status) in ("Solved", "AlmostSolved")
    constant = 0.5 * l2 @ prior**2
    return solution.obj_val + constant


def optimum(loss, X, y, lam, weights, intercept):
    if loss.name in SMOOTH:
        return smooth_optimum(X, y, lam, lambda u, v: formula(loss, u, v), weights, intercept)
    return piecewise_linear_optimum(X, *pieces(loss, y), lam, weights, intercept, loss.intercept_slope)


SMOOTH = {"squared_hinge", "huber_hinge", "logistic", "exponential", "squared", "poisson", "huber"}
SMOOTH |= {"squared_epsilon_insensitive"}


def pieces(loss, y):
    """The loss as max_k slopes[i, k] u + levels[i, k]."""
    one, zero, p = np.ones_like(y), np.zeros_like(y), tuple(loss.params.values())
    slopes, levels = {
        "hinge": lambda: ([-y, zero], [one, zero]),
        "absolute": lambda: ([one, -one], [-y, y]),
        "quantile": lambda: ([-p[0] * one, (1 - p[0]) * one], [p[0] * y, -(1 - p[0]) * y]),
        "epsilon_insensitive": lambda: ([one, -one, zero], [-y - p[0], y - p[0], zero]),
        "novelty": lambda: ([-one / p[0], zero], [zero, zero]),
    }[loss.name]()
    return np.stack(slopes, 1), np.stack(levels, 1)
