"""Checks of walks on a device, emulated or not, against the CPU and exact arithmetic."""

from __future__ import annotations

import graph_cases as cases
import numpy as np

from bmrm.graph import Graph, pagerank, random_walk
from bmrm.graph.backends import gpu


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


def check_messages_in_float16(monkeypatch) -> None:
    """Compare light steps of both kinds of messages, of sizes up to 500 times apart, in three phases."""
    n, damping = 600, 0.85
    rng = np.random.default_rng(8)
    source = np.concatenate([np.zeros(n, int), n * rng.random(5 * n) ** 2]).astype(int)
    target = np.concatenate([np.arange(n), n * rng.random(5 * n) ** 3]).astype(int)
    graph = Graph((source, target), n_nodes=n)
    transitions = gpu.GpuTransitions(graph, False)
    walks = []
    for most in (1.0, 0.0):
        monkeypatch.setattr(gpu, "MAX_FLOAT16_DAMPING", most)
        walks.append(transitions.walk(damping, gpu.Restarts()))
        walks[-1].place(0)
    rounded, fine = walks
    assert rounded.light_reduction > fine.light_reduction
    assert transitions.resident(1).nodes.exact is transitions.resident(1, halves=False).nodes.exact
    for _ in range(3):
        for walk in walks:
            norms = [walk.light_step([step], None, 30, step + 1, plain_next=True) for step in range(3)]
            mixed = np.array([[1.5], [-0.5]])
            norms.append(walk.light_step([3, 2], mixed, 30, 4, plain_next=True))
        (found,), (wanted,) = (walk.scores(4, [0]) for walk in walks)
        (base,), (image,) = fine.scores(0, [0]), fine.scores(4, [0])
        # The error of four steps, of a correction that is at most the residual of the base over 1 - d.
        most = 4 * 2.0**-11 * max(norms[0][0], np.abs(image - base).sum()) / (1 - damping)
        assert 0 < np.abs(found - wanted).sum() <= most
        residuals = [walk.exact_step(4, 0)[0] for walk in walks]
        assert residuals[0] <= 1.1 * residuals[1] + 4 * most
    for walk in walks:
        walk.close()
    first, second = (pagerank(graph, damping, tol=1e-12, device="cuda") for _ in range(2))
    assert first.status == "converged"
    assert first.scores.tobytes() == second.scores.tobytes()
    assert np.abs(first.scores - pagerank(graph, damping, tol=1e-13, device="cpu").scores).sum() <= 2e-12
