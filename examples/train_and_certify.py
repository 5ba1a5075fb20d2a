"""Train a model and check its certificate with NumPy alone.

`bmrm.solve` certifies that its objective J is at most `gap` above the optimum. This program evaluates J at
the result from its definition. Then it tries to get below the lower bound, by gradient descent from the
result, without the library's code. It cannot, if the bound is correct.
"""

import numpy as np

import bmrm

LAM = 1e-3


def data() -> tuple[np.ndarray, np.ndarray]:
    """Return scaled breast-cancer data from scikit-learn, or two overlapping clouds if it is missing."""
    try:
        from sklearn.datasets import load_breast_cancer
    except ImportError:
        rng = np.random.default_rng(0)
        y = np.where(rng.random(500) < 0.5, 1, -1)
        return rng.standard_normal((500, 10)) + 0.5 * y[:, None], y
    X, y = load_breast_cancer(return_X_y=True)
    return (X - X.mean(axis=0)) / X.std(axis=0), np.where(y > 0, 1, -1)


def objective(w: np.ndarray, b: float, X: np.ndarray, y: np.ndarray) -> float:
    """Return J = lam/2 |w|^2 + mean log(1 + exp(-y (x.w + b)))."""
    return 0.5 * LAM * (w @ w) + np.logaddexp(0.0, -y * (X @ w + b)).mean()


def descend(w: np.ndarray, b: float, X: np.ndarray, y: np.ndarray, steps: int = 2000) -> float:
    """Return J after gradient descent with steps 1 / L, where L bounds the curvature of J."""
    X1 = np.column_stack([X, np.ones(len(y))])
    step = 1.0 / (LAM + np.linalg.norm(X1, 2) ** 2 / (4 * len(y)))
    for _ in range(steps):
        slopes = -y / (1.0 + np.exp(y * (X @ w + b))) / len(y)
        w, b = w - step * (LAM * w + X.T @ slopes), b - step * slopes.sum()
    return objective(w, b, X, y)


def main() -> None:
    X, y = data()
    result = bmrm.solve(X, y, loss="logistic", lam=LAM, fit_intercept=True, tol=1e-6)
    print(f"{result.status} after {result.n_iter} passes over {X.shape[0]} rows")
    print(f"objective    {result.objective:.9f}\nlower bound  {result.lower_bound:.9f}")
    evaluated = objective(result.w, result.intercept, X, y)
    reached = descend(result.w, result.intercept, X, y)
    print(f"NumPy's J    {evaluated:.9f}, and {reached:.9f} after 2000 steps of gradient descent")
    assert abs(evaluated - result.objective) <= 1e-12, "J differs from the result's objective"
    assert result.lower_bound <= reached, "J is below the lower bound"
    print(f"The certificate holds: the relative gap is at most {result.gap / result.objective:.1e}.")


if __name__ == "__main__":
    main()
