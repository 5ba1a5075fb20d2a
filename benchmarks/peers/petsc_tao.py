"""PETSc TAO's own bmrm and bmrm on the same problem, to the same certified gap: seconds and iterations.

    python -m benchmarks.peers.petsc_tao DATA... [--lam 1e-5] [--tol 1e-3] [--limit 30] [--out FILE]

DATA are SVMlight files of two classes. Both minimise lam/2 |w|^2 plus the mean hinge or logistic loss, on one
core. TAO's loss and gradient are two products, once with PETSc's AIJ matrix and once with the resident one.
Each has two times: until its own gap, which TAO's method also computes, is below the tolerance, and until the
best objective that it has evaluated is within the tolerance of the best bound.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from petsc4py import PETSc

import bmrm
from benchmarks.common import report
from bmrm.petsc import resident_mat

SECTIONS = """
## Against PETSc TAO

lam {lam:g}, one core, PETSc {petsc}, to a relative gap of {tol:g}: to each solver's own bound, and to the
best known bound, which requires no certificate. Some runs of TAO were stopped before the gap.

[cases] where loss in hinge
data = {data} | size = {rows} x {columns} | nonzeros = {nnz}

[cases.runs]
data, loss, solver = {data}, {loss}, {name} | s to gap = {converged:/over }{seconds:.3f} |
s to objective = {seconds_to_objective:.3f} | evaluations = {evaluations} | objective = {objective:.9f} |
bmrm faster = {times_faster:.1f} | to objective = {times_faster_to_objective:.1f}
"""


class MeanLoss:
    """A mean loss and its gradient; keeps the best objective, and when it was low enough."""

    def __init__(self, loss: str, X: PETSc.Mat, y: np.ndarray, lam: float, wanted: float) -> None:
        self.loss, self.X, self.y, self.lam, self.wanted = loss, X, y, lam, wanted
        self.margins = X.createVecLeft()
        self.began, self.best, self.calls = time.perf_counter(), np.inf, 0
        self.at: float | None = None

    def __call__(self, tao: PETSc.TAO, w: PETSc.Vec, gradient: PETSc.Vec) -> float:
        self.calls += 1
        self.X.mult(w, self.margins)
        u = self.y * self.margins.getArray(readonly=True)
        if self.loss == "hinge":
            values, slopes = np.maximum(0.0, 1.0 - u), -(u < 1.0).astype(float)
        else:
            values, slopes = np.logaddexp(0.0, -u), -1.0 / (1.0 + np.exp(u))
        risk = float(values.mean())
        self.margins.setArray(slopes * self.y / len(self.y))
        self.X.multTranspose(self.margins, gradient)
        objective = risk + 0.5 * self.lam * w.dot(w)
        self.best = min(self.best, objective)
        if self.at is None and self.best <= self.wanted:
            self.at = time.perf_counter() - self.began
        return risk


def by_tao(
    loss_name: str, X: PETSc.Mat, y: np.ndarray, lam: float, wanted: float, gap: float, limit: float
) -> dict:
    """Run TAO's bmrm until its gap is small enough, or the time is over."""
    PETSc.Options()["tao_bmrm_lambda"] = lam
    w, gradient = X.createVecRight(), X.createVecRight()
    loss = MeanLoss(loss_name, X, y, lam, wanted)
    tao = PETSc.TAO().create(PETSc.COMM_SELF)
    tao.setType("bmrm")
    tao.setObjectiveGradient(loss, gradient)
    tao.setTolerances(gatol=gap, grtol=0.0, gttol=0.0)
    tao.setMaximumIterations(100_000)

    def stop(tao: PETSc.TAO) -> None:
        if time.perf_counter() - loss.began > limit:
            tao.setConvergedReason(PETSc.TAO.ConvergedReason.DIVERGED_USER)

    tao.setMonitor(stop)
    tao.setFromOptions()
    tao.solve(w)
    return {
        "seconds": time.perf_counter() - loss.began,
        "converged": tao.getConvergedReason() > 0,
        "evaluations": loss.calls,
        "objective": loss.best,
        "seconds_to_objective": loss.at,
    }


def main() -> None:
    """Print the table and write the results file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="+")
    parser.add_argument("--lam", type=float, default=1e-5)
    parser.add_argument("--tol", type=float, default=1e-3)
    parser.add_argument("--limit", type=float, default=30.0)
    parser.add_argument("--out", default=report.RESULTS / "petsc_tao.json")
    options = parser.parse_args()
    report.write(
        options.out,
        SECTIONS,
        lam=options.lam,
        tol=options.tol,
        petsc=".".join(map(str, PETSc.Sys.getVersion())),
        cases=[case for path in options.data for case in cases_of(path, options)],
    )


def cases_of(path: str, options: argparse.Namespace) -> list[dict]:
    """Measure both losses on a file."""
    X, y = bmrm.load_svmlight(path)
    lam, tol = options.lam, options.tol
    data = bmrm.Dataset(X, y, threads=1)
    labels = np.where(y == y.max(), 1.0, -1.0)
    stored = PETSc.Mat().createAIJ(X.shape, csr=(X.indptr, X.indices, X.data), comm=PETSc.COMM_SELF)
    mats = {"AIJ": stored, "resident": resident_mat(X, threads=1)}
    cases = []
    for loss in ("hinge", "logistic"):
        reference = bmrm.solve(data, loss=loss, lam=lam, tol=0.3 * tol)
        runs = [bmrm.solve(data, loss=loss, lam=lam, tol=tol) for _ in range(3)]
        ours = sorted(runs, key=lambda run: run.timings["total"])[1]
        wanted = reference.lower_bound * (1.0 + tol)
        gap = tol * ours.objective
        early = next(row["elapsed"] for row in ours.history if row["objective"] <= wanted)
        own = {
            "seconds": ours.timings["total"],
            "converged": ours.status == "converged",
            "evaluations": ours.n_iter,
            "objective": ours.objective,
            "seconds_to_objective": early,
        }
        found = {"bmrm": own}
        for name, mat in mats.items():
            run = by_tao(loss, mat, labels, lam, wanted, gap, options.limit)
            found[f"TAO bmrm, {name} matrix"] = run
        for run in list(found.values())[1:]:
            run["times_faster"] = run["seconds"] / own["seconds"]
            if run["seconds_to_objective"] is not None:
                run["times_faster_to_objective"] = run["seconds_to_objective"] / early
        for name, run in found.items():
            to_objective = run["seconds_to_objective"]
            print(
                f"{Path(path).name}, {loss}, {name}: gap {run['seconds']:.3f} s"
                f"{'' if run['converged'] else ' (not reached)'}, "
                f"objective {'never' if to_objective is None else f'{to_objective:.3f} s'}, "
                f"{run['evaluations']} evaluations, J {run['objective']:.9f}"
            )
        size = {"rows": X.shape[0], "columns": X.shape[1], "nnz": X.nnz}
        cases.append({"data": Path(path).name.split(".")[0], "loss": loss, **size, "runs": found})
    return cases


if __name__ == "__main__":
    main()
