"""Full rows: seconds to a certified gap with second-order steps and with planes alone, against scikit-learn.

    python -m benchmarks.cpu.dense [--device cuda] [--out FILE]

Rows are independent normal numbers, float32, once as they are and once with columns scaled by 10^u, u uniform
in [-1, 1]. Labels are the signs of a planted model with noise; for the quantile (tau 0.5) they are its
values. Steps are Newton's, and interior-point steps for losses with kinks. Solves use the resident matrix at
lam 1e-5, without intercept, and stop after ten seconds, or four on a GPU. On the CPU scikit-learn's own
solvers for the same objective (LogisticRegression by L-BFGS, LinearSVC by its trust region) run to their
default tolerance and to 1e-8, and so does LogisticRegression of scikit-learn-intelex if it is there (`pip
install scikit-learn-intelex`), which has no LinearSVC. Their excess is over our lower bound; ours is the
certified gap.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import bmrm
from benchmarks.common import intelex, report
from bmrm.base.threads import usable_cores
from bmrm.linear import plan
from bmrm.linear.solvers import steps

LAM = 1e-5
SLOW = {"cpu": 10.0, "cuda": 4.0}
SHAPES = {
    "cpu": ((20_000, 500), (8_000, 1_500)),
    "cuda": ((400_000, 300), (100_000, 1_000), (100_000, 4_000)),
}
LOSSES = ("logistic", "squared_hinge", "hinge", "quantile")
WAYS = ("newton", "planes")
TOLS = (1e-3, 1e-5)
PEER_TOLS = (1e-4, 1e-8)


SECTIONS = """
## Full rows

Rows of normal numbers, float32, lam 1e-5, no intercept; scaled: columns times 10^u, |u| <= 1. Seconds of a
solve on a resident matrix to a relative gap, with Newton's and interior-point steps and without; solves
were stopped after 10 s, at the gap in brackets. The last columns are scikit-learn's solvers of the same
objective, and those of scikit-learn-intelex ({intelex_version:*/not measured}), at their default tolerance
and at 1e-8, and the excess of their objective over our lower bound.

[rows.runs]
rows, loss, gap = {rows} x {columns}{scaled:, scaled/}, {loss}, {tol:.0e} |
with steps s = {newton[seconds]:.3f}{newton[late]:*/} | passes = {newton[passes]} |
planes alone s = {planes[seconds]:.3f}{planes[late]:*/} | their passes = {planes[passes]} |
scikit-learn s, default (excess) = {peers[0][seconds]:.2f} ({peers[0][excess]:.0e}) |
at 1e-8 = {peers[1][seconds]:.2f} ({peers[1][excess]:.0e}) |
intelex s, default (excess) = {intelex[0][seconds]:.2f} ({intelex[0][excess]:.0e}) |
intelex at 1e-8 = {intelex[1][seconds]:.2f} ({intelex[1][excess]:.0e})
"""
SECTIONS_ON_GPU = """
## Full rows on a GPU

{gpu}. Rows of normal numbers, float32, lam 1e-5, no intercept; scaled: columns times 10^u, |u| <= 1.
Seconds of a solve on a resident matrix to a relative gap, with Newton's and interior-point steps and
without; solves were stopped after 4 s, at the gap in brackets.

[rows.runs]
rows, loss, gap = {rows} x {columns}{scaled:, scaled/}, {loss}, {tol:.0e} |
with steps s = {newton[seconds]:.3f}{newton[late]:*/} | passes = {newton[passes]} |
planes alone s = {planes[seconds]:.3f}{planes[late]:*/} | their passes = {planes[passes]}
"""


def problem(rows: int, columns: int, *, scaled: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and the values that labels are derived from."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, columns), dtype=np.float32)
    if scaled:
        X *= (10.0 ** rng.uniform(-1.0, 1.0, columns)).astype(np.float32)
    margins = X @ rng.standard_normal(columns, dtype=np.float32)
    margins += 0.5 * margins.std() * rng.standard_normal(rows, dtype=np.float32)
    return X, margins / margins.std()


def ours(data: bmrm.Dataset, loss: str, tol: float) -> dict[str, Any]:
    """Train twice and return what the second run reports."""
    limit = SLOW["cpu" if data.device == "cpu" else "cuda"]
    for _ in range(2):
        start = time.perf_counter()
        found = bmrm.solve(data, loss=loss, lam=LAM, tol=tol, max_time=limit)
        seconds = time.perf_counter() - start
        if seconds > limit / 4:
            break
    return {
        "seconds": seconds,
        "passes": found.n_iter,
        "status": found.status,
        "gap": found.gap / found.objective,
        "late": report.late(found),
        "lower_bound": found.lower_bound,
    }


def planes_alone(data: bmrm.Dataset, loss: str, tol: float) -> dict[str, Any]:
    """Train without second-order steps."""
    rules = plan.newton_pays, steps.may_step
    plan.newton_pays, steps.may_step = (lambda *_: False), (lambda *_: False)
    try:
        return ours(data, loss, tol)
    finally:
        plan.newton_pays, steps.may_step = rules


def peers(loss: str) -> dict[str, Callable[..., Any]]:
    """Return solvers of the same objective, by the name of their results."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import LinearSVC

    if loss == "squared_hinge":
        return {"peers": lambda **words: LinearSVC(loss=loss, dual=False, **words)}
    found: dict[str, Callable[..., Any]] = {}
    if loss == "logistic":
        found["peers"] = LogisticRegression
        if models := intelex.module("linear_model", usable_cores()):
            found["intelex"] = models.LogisticRegression
    return found


def peer(
    make: Callable[..., Any], X: np.ndarray, y: np.ndarray, loss: str, tol: float
) -> tuple[float, float]:
    """Return the seconds of a solver, and the objective that it reaches."""
    model = make(C=1.0 / (LAM * len(y)), fit_intercept=False, tol=tol, max_iter=10_000)
    start = time.perf_counter()
    model.fit(X, y)
    seconds = time.perf_counter() - start
    w = model.coef_[0].astype(np.float64)
    z = y * (X @ w)
    risk = np.logaddexp(0.0, -z) if loss == "logistic" else np.maximum(0.0, 1.0 - z) ** 2
    return seconds, 0.5 * LAM * float(w @ w) + float(risk.mean())


def measure(device: str, rows: int, columns: int, *, scaled: bool) -> list[dict[str, Any]]:
    """Measure all losses on one set."""
    X, values = problem(rows, columns, scaled=scaled)
    signs = np.where(values > 0.0, 1.0, -1.0)
    classes, targets = (bmrm.Dataset(X, y, device=device) for y in (signs, values))
    found = []
    for loss in LOSSES:
        data = targets if loss == "quantile" else classes
        runs = [
            {"tol": tol, "newton": ours(data, loss, tol), "planes": planes_alone(data, loss, tol)}
            for tol in TOLS
        ]
        row = {"rows": rows, "columns": columns, "scaled": scaled, "loss": loss, "runs": runs}
        bound = max(run[way]["lower_bound"] for run in runs for way in WAYS)
        for name, make in (peers(loss) if device == "cpu" else {}).items():
            solved = [peer(make, X, signs, loss, tol) for tol in PEER_TOLS]
            row[name] = [
                {"tol": tol, "seconds": seconds, "excess": objective / bound - 1.0}
                for tol, (seconds, objective) in zip(PEER_TOLS, solved, strict=True)
            ]
        show(row)
        found.append(row)
    return found


def show(row: dict[str, Any]) -> None:
    """Print the measurements of one loss."""
    scaled = ", scaled" if row["scaled"] else ""
    for run in row["runs"]:
        ways = "; ".join(
            f"{way} {run[way]['seconds']:.3f} s, {run[way]['passes']} passes, gap {run[way]['gap']:.0e}"
            for way in WAYS
        )
        print(
            f"{row['rows']} x {row['columns']}{scaled}, {row['loss']}, to {run['tol']:.0e}: {ways}",
            flush=True,
        )
    for name in ("peers", "intelex"):
        for peer in row.get(name, ()):
            print(f"    {name}, tol {peer['tol']:.0e}: {peer['seconds']:.3f} s, excess {peer['excess']:.0e}")


def main() -> None:
    """Print the measurements and write the results file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--out")
    options = parser.parse_args()
    rows = [
        row
        for shape in SHAPES[options.device]
        for scaled in (False, True)
        for row in measure(options.device, *shape, scaled=scaled)
    ]
    gpu = ""
    if options.device == "cuda":
        from bmrm.matrix import _cuda

        gpu = _cuda.device_info()["name"]
    name = "dense_gpu" if options.device == "cuda" else "dense"
    sections = SECTIONS_ON_GPU if gpu else SECTIONS
    report.write(
        options.out or report.RESULTS / f"{name}.json",
        sections,
        lam=LAM,
        gpu=gpu,
        intelex_version=intelex.version(),
        rows=rows,
    )


if __name__ == "__main__":
    main()
