"""Train with a loss of your own: log-cosh, a smooth relative of the absolute loss.

A loss is a Python function of margins u and labels y that returns each row's value and its derivative in u.
It must be convex in u; the certificate rests on that. The program trains with it, confirms the result with a
general minimiser from SciPy, and shows that an absolute loss written this way agrees with the built-in one.
"""

import numpy as np
from scipy.optimize import minimize

import bmrm
from bmrm.losses import CallableLoss

LAM = 1e-2


def log_cosh(u: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return log cosh(u - y), safe from overflow, and its derivative."""
    e = u - y
    return np.logaddexp(e, -e) - np.log(2.0), np.tanh(e)


def absolute(u: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return |u - y| and a subgradient; at the kink any slope between -1 and 1 is one."""
    return np.abs(u - y), np.sign(u - y)


def main() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 8))
    y = X @ rng.standard_normal(8) + rng.standard_t(2, 400)  # heavy tails: outliers

    def objective(w: np.ndarray) -> tuple[float, np.ndarray]:
        values, slopes = log_cosh(X @ w, y)
        return 0.5 * LAM * (w @ w) + values.mean(), LAM * w + X.T @ slopes / len(y)

    mine = bmrm.solve(X, y, loss=CallableLoss(log_cosh, name="log_cosh"), lam=LAM, tol=1e-9)
    peer = minimize(objective, np.zeros(8), jac=True, options={"gtol": 1e-10})
    print(f"log-cosh: {mine.status}, objective {mine.objective:.10f}, bound {mine.lower_bound:.10f}")
    print(f"SciPy's minimum            {peer.fun:.10f}, weights differ by {abs(mine.w - peer.x).max():.1e}")
    assert mine.lower_bound <= peer.fun + 1e-12
    assert mine.objective <= peer.fun + mine.gap + 1e-12

    own = bmrm.solve(X, y, loss=CallableLoss(absolute), lam=LAM, tol=1e-6)
    built_in = bmrm.solve(X, y, loss="absolute", lam=LAM, tol=1e-6)
    print(f"absolute: own {own.objective:.8f}, built in {built_in.objective:.8f}")
    assert max(own.lower_bound, built_in.lower_bound) <= min(own.objective, built_in.objective)


if __name__ == "__main__":
    main()
