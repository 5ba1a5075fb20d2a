"""Checks of walks on a device against the CPU and exact arithmetic."""

from __future__ import annotations

import graph_cases as cases
import numpy as np

from bmrm.graph import Graph, pagerank, random_walk


def check_walks_are_those_of_the_cpu(graph: Graph, count: int, top: int) -> None:
    """Compare all scores of several queries, and their first ``top``."""
    queries = [0, {1: 2.0, 5: 1.0}, *range(7, 5 + count)][:count]
    for wanted in (None, top):
        there, here = (
            random_walk(graph, queries, 0.8, top=wanted, tol=1e-10, batch=count, device=device)
            for device in ("cuda", "cpu")
        )
        assert there.status == here.status
        bounds = there.error_bound + here.error_bound
        apart = np.abs(there.scores - here.scores)
        assert ((apart.sum(0) if wanted is None else apart.max(1)) <= bounds).all()


def check_bounds_in_exact_arithmetic(count: int) -> None:
    """Compare the bounds of random graphs with true errors; needs python-flint."""
    import exact_pagerank as exact

    rng = np.random.default_rng(4)
    for _ in range(count):
        case = cases.random_case(rng)
        graph = Graph(case.arrays if case.is_weighted else case.arrays[:2], n_nodes=case.n)
        tol = float(rng.choice([1e-3, 1e-9, 0.0]))
        found = pagerank(
            graph, case.damping, personalization=case.restart, dangling=case.dangling, tol=tol, device="cuda"
        )
        true = exact.pagerank(case.edges, case.n, case.damping, case.restart, case.dangling)
        assert exact.l1_distance(found.scores, true) <= found.error_bound
        assert found.status == "precision" or found.error_bound <= tol
