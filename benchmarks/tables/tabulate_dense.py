"""The section of docs/performance.md on full rows."""

from __future__ import annotations

from typing import Any

from benchmarks.tables.pages import heading, load, table


def full_rows() -> str:
    """Return the sections on full rows, on the CPU and on a GPU."""
    here, there = load("dense"), load("dense_gpu")
    columns = ["rows, loss, gap", "with steps s", "passes", "planes alone s", "passes"]
    peers = ["scikit-learn s, default (excess)", "at 1e-8"]
    return (
        heading("Full rows", here)
        + "\nRows of normal numbers, float32, lam 1e-5, no intercept; scaled: columns times 10^u, |u| <= 1. "
        "Seconds of a solve on a resident matrix to a relative gap, with Newton's and interior-point steps "
        "and without; solves were stopped after 10 s, at the gap in brackets. The last columns are "
        "scikit-learn's "
        "solvers of the same objective, at their default tolerance and at 1e-8, and the excess of their "
        "objective over our lower bound.\n"
        + table([*columns, *peers], [line for row in here["rows"] for line in lines(row, peers=True)])
        + heading("Full rows on a GPU", there)
        + f"\n{there['gpu']}; as above, larger; solves were stopped after 4 s.\n"
        + table(columns, [line for row in there["rows"] for line in lines(row, peers=False)])
    )


def lines(row: dict[str, Any], *, peers: bool) -> list[list[str]]:
    """Return the table rows of one loss."""
    what = f"{row['rows']} x {row['columns']}{', scaled' * row['scaled']}, {row['loss']}"
    others = [""] * 2
    if row["peers"]:
        others = [f"{run['seconds']:.2f} ({run['excess']:.0e})" for run in row["peers"]]
    return [
        [
            f"{what}, {run['tol']:.0e}",
            *(cell for way in ("newton", "planes") for cell in cells(run[way])),
            *(others if peers else ()),
        ]
        for run in row["runs"]
    ]


def cells(run: dict[str, Any]) -> tuple[str, str]:
    """Return seconds, with the gap if it was not reached, and passes."""
    late = "" if run["status"] == "converged" else f" ({run['gap']:.0e})"
    return f"{run['seconds']:.3f}{late}", str(run["passes"])
