"""The section of docs/performance.md on the estimators of `bmrm.reductions`."""

from __future__ import annotations

from benchmarks.tables.pages import heading, load, table


def scaling() -> str:
    """Return the section on multidimensional scaling."""
    results = load("mds")
    rows = [
        [
            f"{row['n']}, {row['kind']}",
            f"{1e3 * row['seconds']:.2f}",
            f"{1e3 * row['peer_seconds']:.1f}",
            f"{row['times_faster']:.1f}",
            "" if row["aim"] is None else f"{row['aim']:g}",
        ]
        for row in results["iterations"]
    ]
    whole = [
        [row["who"], f"{row['seconds']:.2f}", str(row["n_iter"]), f"{row['stress']:.6f}"]
        for row in results["whole"]
    ]
    points = results["whole"][0]["n"]
    return (
        heading("Multidimensional scaling on the CPU", results)
        + f"\nscikit-learn {results['versions']['scikit_learn']}. An iteration of SMACOF in two dimensions "
        "from the same random start, in processor time of one thread; both compute in float64. A weighted "
        "iteration solves a system with the weights, and is compared with one without weights.\n"
        + table(["points, kind", "ms", "scikit-learn ms", "times faster", "aim"], rows)
        + f"\nWhole scalings of {points} points from classical scaling, until the stress falls by less than "
        "1e-6 times the sum of d^2; accelerated steps must do so twice in a row.\n"
        + table(["", "seconds", "iterations", "normalised stress"], whole)
    )
