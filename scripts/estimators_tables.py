"""Write the tables of docs/estimators.md.

python scripts/estimators_tables.py

The tests train both sides of each swap and compare them by the objective that the table shows.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from losses_tables import replace_tables, table

PAGE = Path(__file__).parents[1] / "docs" / "estimators.md"


class Swap(NamedTuple):
    """An estimator of scikit-learn and ours that minimises the same, as Python expressions."""

    peer: str
    ours: str
    objective: str
    strictly_convex: bool = True


SWAPS = (
    Swap(
        "LogisticRegression(C=C)",
        "BMRMClassifier('logistic', C=C)",
        "C * log1p(exp(-y * u)).sum() + w @ w / 2",
    ),
    Swap(
        "LinearSVC(C=C)",
        "BMRMClassifier('squared_hinge', C=C)",
        "C * (maximum(0, 1 - y * u) ** 2).sum() + (w @ w + b * b) / 2",
    ),
    Swap(
        "LinearSVC(C=C, loss='hinge')",
        "BMRMClassifier('hinge', C=C)",
        "C * maximum(0, 1 - y * u).sum() + (w @ w + b * b) / 2",
    ),
    Swap(
        "LinearSVR(C=C, epsilon=e)",
        "BMRMRegressor('epsilon_insensitive', C=C, epsilon=e, penalize_intercept=True)",
        "C * maximum(0, abs(y - u) - e).sum() + (w @ w + b * b) / 2",
    ),
    Swap(
        "Ridge(alpha=alpha)",
        "BMRMRegressor('squared', lam=alpha / n)",
        "((y - u) ** 2).sum() + alpha * w @ w",
    ),
    Swap(
        "Lasso(alpha=alpha)",
        "BMRMRegressor('squared', reg='l1', lam=alpha)",
        "((y - u) ** 2).mean() / 2 + alpha * abs(w).sum()",
    ),
    Swap(
        "ElasticNet(alpha=alpha, l1_ratio=r)",
        "BMRMRegressor('squared', reg='elastic_net', lam=alpha, l1_ratio=r)",
        "((y - u) ** 2).mean() / 2 + alpha * (r * abs(w).sum() + (1 - r) * w @ w / 2)",
    ),
    Swap(
        "QuantileRegressor(quantile=q, alpha=alpha)",
        "BMRMRegressor('quantile', tau=q, reg='l1', lam=alpha)",
        "maximum(q * (y - u), (q - 1) * (y - u)).mean() + alpha * abs(w).sum()",
        strictly_convex=False,
    ),
    Swap(
        "PoissonRegressor(alpha=alpha)",
        "BMRMRegressor('poisson', lam=alpha)",
        "(exp(u) - y * u).mean() + alpha * w @ w / 2",
    ),
)


def swaps_table() -> str:
    """Return the table of swaps."""
    rows = [[f"`{code}`" for code in (swap.peer, swap.ours, swap.objective)] for swap in SWAPS]
    return table(["scikit-learn", "`bmrm.estimators`", "both minimise"], rows)


def page(text: str) -> str:
    """Return the page with new tables."""
    return replace_tables(text, {"swaps": swaps_table}, PAGE)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
    print(f"written to {PAGE}")
