"""Independent solvers of the problems that the package solves."""

import clarabel
import numpy as np
import scipy.optimize
import scipy.sparse as sp


def objective(X, y, w, b, lam, rows, weights=None):
    """J(w, b) with `rows(u, y)` the loss written for NumPy."""
    s = np.ones(X.shape[0]) if weights is None else np.asarray(weights, float)
    return 0.5 * lam * w @ w + (s / s.sum()) @ rows(X @ w + b, y)


def smooth_optimum(X, y, lam, rows, weights=None, intercept=False):
    """L-BFGS with numerical rigour from SciPy: minimum of J for a differentiable loss."""
    d = X.shape[1]

    def value(v):
        return objective(X, y, v[:d], v[d] if intercept else 0.0, lam, rows, weights)

    start = np.zeros(d + intercept)
    found = scipy.optimize.minimize(value, start, method="BFGS", options={"gtol": 1e-9, "maxiter": 5000})
    return found.fun


def piecewise_linear_optimum(X, slopes, levels, lam, weights=None, intercept=False, intercept_slope=0.0):
    """Minimum of lam/2 |w|^2 + sum_i s_i max_k (slopes[i, k] u_i + levels[i, k]) + intercept_slope b.

    A QP in (w, b, xi) with one constraint a piece, by Clarabel's interior point method.
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
