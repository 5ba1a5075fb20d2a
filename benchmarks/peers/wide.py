"""Wide rows, like text: ascent in the dual against LIBLINEAR's dual solvers, and against planes alone.

    python -m benchmarks.peers.wide [--sets news20] [--out FILE]

Sets of the shapes real-sim, astro-ph and news20 (shapes.py), each row of length 1, and 1000 x 20 000 normal
numbers, `dense`; labels of a planted model with noise; lam 1e-5, C = 1 / (lam m).

There are two comparisons. First, LIBLINEAR 2.50 (package liblinear-official) in C with its data in place, for
two of its tolerances, and for the finer one also with a constant feature (its `-B 1`, our penalised
intercept): its seconds and objective, and ours until the best objective is as low, including making X
resident, one thread each. Second, our seconds on all cores to certified gaps, by default and by planes alone
(`cuts_per_pass=1`, stopped after 20 s), on a resident matrix; to the wider gap also with a free intercept.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import scipy.sparse as sp

import bmrm
from benchmarks.common import report, shapes
from benchmarks.peers.against_liblinear import LAM, best_of, liblinear_train, objective, reach

SETS = ("real-sim", "astro-ph", "news20", "dense")
SOLVERS = {"hinge": 3, "squared_hinge": 1, "logistic": 7}
EPSILONS = (1e-1, 1e-2)
GAPS = (1e-3, 1e-5)
SLOW = 20.0


SECTIONS = """
## Wide rows, against LIBLINEAR
headline: training on wide rows | LIBLINEAR 2.50's dual solvers | against | times_faster | {machine[cpu]}

Labels of a planted model with noise, lam {lam:g}. Training until the objective is as low as that of
LIBLINEAR 2.50's dual solvers (`-s 3`, `-s 1`, `-s 7`) at the given tolerance, one thread each, from X in
main memory; `-B 1` is a constant feature, here a penalised intercept.

[sets]
set = {name} | rows = {rows} | columns = {columns} | values = {values}

[against]
set, loss, tolerance = {set}, {loss}, {bias:-B 1 /}-e {epsilon:g} | J = {objective:.6f} |
bmrm s = {bmrm_seconds:.2f} | passes = {bmrm_passes} | LIBLINEAR s = {liblinear_seconds:.2f} |
times faster = {times_faster:.1f}

To a certified relative gap, on all cores, by default and by cutting planes alone, without an intercept
or with a free one; solves were stopped after 20 s, at the gap in brackets.

[certified]
set, loss, gap = {set}, {loss}{intercept:, intercept/}, {tol:.0e} |
default s = {default[seconds]:.3f}{default[late]:*/} | passes = {default[passes]} |
planes alone s = {planes[seconds]:.3f}{planes[late]:*/} | their passes = {planes[passes]}
"""


def problem(name: str) -> tuple[sp.csr_matrix, np.ndarray]:
    """Return rows of length 1 and labels."""
    if name == "dense":
        X = sp.csr_matrix(np.random.default_rng(0).standard_normal((1000, 20_000)))
    else:
        made = shapes.generate(name, xp=np)
        X = sp.csr_matrix((made.values, made.indices, made.indptr), made.shape)
    lengths = np.sqrt(X.multiply(X).sum(axis=1).A1)
    X = sp.csr_matrix(sp.diags(1.0 / np.where(lengths > 0.0, lengths, 1.0)) @ X)
    rng = np.random.default_rng(1)
    u = X @ rng.standard_normal(X.shape[1])
    u += 0.5 * u.std() * rng.standard_normal(len(u))
    return X, np.where(u > np.median(u), 1.0, -1.0)


def against(name: str, X: sp.csr_matrix, y: np.ndarray, repeats: int) -> list[dict[str, Any]]:
    """Time both sides until the same objective."""
    from liblinear import liblinear

    m, d = X.shape
    given = X.toarray() if name == "dense" else X
    rows = []
    for bias, epsilon in ((False, EPSILONS[0]), (False, EPSILONS[1]), (True, EPSILONS[1])):
        whole = sp.hstack([X, np.ones((m, 1))], format="csr") if bias else X
        theirs = liblinear.problem(y, whole)
        how = {"fit_intercept": bias, "penalize_intercept": bias, "threads": 1, "device": "cpu"}
        for loss, solver in SOLVERS.items():
            options = f"-s {solver} -c {1 / (LAM * m)!r} -e {epsilon} -q"
            spent, w = best_of(
                lambda options=options, theirs=theirs, width=d + bias: liblinear_train(
                    liblinear, theirs, options, width
                ),
                repeats,
            )
            target = objective(loss, whole, y, w)
            ours, passes = best_of(
                lambda loss=loss, target=target, how=how: reach(loss, given, y, target, **how),
                repeats,
            )
            row = {
                "set": name,
                "loss": loss,
                "bias": bias,
                "epsilon": epsilon,
                "objective": target,
                "liblinear_seconds": spent,
                "bmrm_seconds": ours,
                "bmrm_passes": passes,
                "times_faster": spent / ours,
            }
            rows.append(row)
            print(
                f"{name:8} {loss:14} -B {bias:d} -e {epsilon:<5g} J {target:.6f}   "
                f"LIBLINEAR {spent:6.3f} s   bmrm {ours:6.3f} s, {passes} passes   "
                f"{row['times_faster']:.1f} times faster",
                flush=True,
            )
    return rows


def certified(name: str, X: sp.csr_matrix, y: np.ndarray, repeats: int) -> list[dict[str, Any]]:
    """Time our own two ways to a certified gap."""
    data = bmrm.Dataset(X.toarray() if name == "dense" else X, y, device="cpu")
    bmrm.solve(data, loss="hinge", lam=LAM, tol=0.1, cuts_per_pass=1)  # X' is made now
    rows = []
    for loss in SOLVERS:
        for free, gap in ((False, GAPS[0]), (False, GAPS[1]), (True, GAPS[0])):
            found: dict[str, Any] = {"set": name, "loss": loss, "tol": gap, "intercept": free}
            given = {"loss": loss, "lam": LAM, "tol": gap, "max_time": SLOW, "fit_intercept": free}
            for way, cuts in (("default", "auto"), ("planes", 1)):

                def run(given: dict = given, cuts: int | str = cuts) -> tuple[float, bmrm.Result]:
                    start = time.perf_counter()
                    result = bmrm.solve(data, cuts_per_pass=cuts, **given)
                    return time.perf_counter() - start, result

                seconds, result = best_of(run, repeats)
                found[way] = {
                    "seconds": seconds,
                    "passes": result.n_iter,
                    "status": result.status,
                    "gap": result.gap / result.objective,
                    "late": report.late(result),
                    "ascent": result.timings.get("ascent", 0.0),
                }
            rows.append(found)
            print(
                f"{name:8} {loss:14} {'intercept ' if free else ''}to {gap:g}   "
                + "   ".join(
                    f"{way} {found[way]['seconds']:6.3f} s, {found[way]['passes']} passes, "
                    f"gap {found[way]['gap']:.0e}"
                    for way in ("default", "planes")
                ),
                flush=True,
            )
    return rows


def main() -> None:
    """Run both comparisons on each set and write the results file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", default=report.RESULTS / "wide.json")
    options = parser.parse_args()
    sizes, peers, alone = {}, [], []
    for name in options.sets.split(","):
        X, y = problem(name)
        sizes[name] = {"rows": X.shape[0], "columns": X.shape[1], "values": X.nnz}
        peers += against(name, X, y, options.repeats)
        alone += certified(name, X, y, options.repeats)
    report.write(options.out, SECTIONS, lam=LAM, sets=sizes, against=peers, certified=alone)


if __name__ == "__main__":
    main()
