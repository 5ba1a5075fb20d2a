"""The section of docs/performance.md on wide rows."""

from __future__ import annotations

from benchmarks.tables.pages import heading, load, table
from benchmarks.tables.tabulate_dense import cells


def wide_rows() -> str:
    """Return the section on wide rows: ascent in the dual, LIBLINEAR, planes."""
    results = load("wide")
    sizes = ", ".join(f"{name} {m} x {d} with {nnz} values" for name, (m, d, nnz) in results["sets"].items())
    peers = [
        [
            f"{row['set']}, {row['loss']}, {'-B 1 ' if row['bias'] else ''}-e {row['epsilon']:g}",
            f"{row['objective']:.6f}",
            f"{row['bmrm_seconds']:.2f}",
            str(row["bmrm_passes"]),
            f"{row['liblinear_seconds']:.2f}",
            f"{row['times_faster']:.1f}",
        ]
        for row in results["against"]
    ]
    alone = [
        [
            f"{row['set']}, {row['loss']}{', intercept' if row['intercept'] else ''}, {row['tol']:.0e}",
            *cells(row["default"]),
            *cells(row["planes"]),
        ]
        for row in results["certified"]
    ]
    return (
        heading("Wide rows, against LIBLINEAR", results)
        + f"\n{sizes}; labels of a planted model with noise, lam {results['lam']:g}. Training until the "
        "objective is as low as that of LIBLINEAR 2.50's dual solvers (`-s 3`, `-s 1`, `-s 7`) at the given "
        "tolerance, one thread each, from X in main memory; `-B 1` is a constant feature, here a penalised "
        "intercept.\n"
        + table(["set, loss, tolerance", "J", "bmrm s", "passes", "LIBLINEAR s", "times faster"], peers)
        + "\nTo a certified relative gap, on all cores, by default and by planes alone, without an intercept "
        "or with a free one; solves were stopped after 20 s, at the gap in brackets.\n"
        + table(["set, loss, gap", "default s", "passes", "planes alone s", "passes"], alone)
    )
