"""Check PageRank of random graphs with exact arithmetic: no error above its bound, no "converged" beyond tol.

    python scripts/certify_graphs.py [--n 10000] [--hubs 100] [--seed S]

Cases come from ``tests/graph/graph_cases.py`` and exact scores from ``tests/graph/exact_pagerank.py``: graphs
of up to 12 nodes, with dangling nodes, several components, periodic and empty ones, weights from 1e-150 to
1e150; and graphs with more than 100,000 links into a hub. Without ``--seed`` a new one is drawn and printed.
Also prints the median of the bound over the true error where that is above 1e-13. The exit status is 1 if any
claim was false.
"""

from __future__ import annotations

import argparse
import secrets
import sys
from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "graph"))

import exact_pagerank as exact
import graph_cases as cases

from bmrm.graph import Graph, pagerank
from bmrm.graph.results import Ranking

TOLERANCES = (1e-2, 1e-8, 1e-12, 0.0)
HUB_LINKS = 110_000
MIN_JUDGED_ERROR = 1e-13
"""Below, a bound that counts rounding at its worst is far above the error."""


def small(rng: np.random.Generator) -> tuple[Ranking, float, float, object]:
    """Return a ranking, its true error, the tolerance and the case."""
    case, tol = cases.random_case(rng), float(rng.choice(TOLERANCES))
    graph = Graph(case.arrays if case.is_weighted else case.arrays[:2], n_nodes=case.n)
    found = pagerank(
        graph,
        case.damping,
        personalization=case.restart,
        dangling=case.dangling,
        tol=tol,
        method=str(rng.choice(["auto", "power", "anderson"])),
        max_iter=int(rng.choice([3, 1000])),
    )
    true = exact.pagerank(case.edges, case.n, case.damping, case.restart, case.dangling)
    return found, exact.l1_distance(found.scores, true), tol, case


def hub(rng: np.random.Generator) -> tuple[Ranking, float, float, object]:
    """Return the same for a graph with hubs."""
    case, tol = cases.hub_case(rng, HUB_LINKS), float(rng.choice(TOLERANCES))
    found = pagerank(
        Graph((case.source, case.target, case.weight), n_nodes=sum(case.sizes)), case.damping, tol=tol
    )
    total, first = Fraction(0), 0
    for size, score in zip(
        case.sizes, exact.pagerank_of_classes(case.sizes, case.shares, case.damping), strict=True
    ):
        values, counts = np.unique(found.scores[first : first + size], return_counts=True)
        pairs = zip(values.tolist(), counts.tolist(), strict=True)
        total += sum((count * abs(Fraction(value) - score) for value, count in pairs), Fraction(0))
        first += size
    return found, float(np.nextafter(float(total), 0)), tol, (case.sizes, case.shares, case.damping)


def main() -> int:
    """Check the cases and print what was found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--n", type=int, default=10_000)
    parser.add_argument("--hubs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    seed = secrets.randbelow(2**32) if options.seed is None else options.seed
    print(f"seed {seed}")
    statuses: Counter[str] = Counter()
    ratios, false = [], 0
    for number in range(options.n + options.hubs):
        draw = small if number < options.n else hub
        found, error, tol, case = draw(np.random.default_rng([seed, number]))
        statuses[found.status] += 1
        if error > found.error_bound or (found.status == "converged" and found.error_bound > tol):
            false += 1
            print(f"case {number}: error {error}, bound {found.error_bound}, tol {tol}: {case}")
        if error > MIN_JUDGED_ERROR:
            ratios.append(found.error_bound / error)
    print(f"{options.n} graphs and {options.hubs} with hubs: {dict(statuses)}, {false} false claims")
    print(f"median of bound / error above {MIN_JUDGED_ERROR}: {np.median(ratios):.3g}")
    return int(false > 0)


if __name__ == "__main__":
    sys.exit(main())
