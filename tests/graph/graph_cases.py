"""Random graphs of every kind that an algorithm must cope with."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Case(NamedTuple):
    edges: list[tuple[int, int, float]]
    n: int
    damping: float
    restart: dict[int, float] | None
    dangling: dict[int, float] | None

    @property
    def arrays(self):
        source, target, weight = ([edge[i] for edge in self.edges] for i in range(3))
        return np.array(source, int), np.array(target, int), np.array(weight, float)

    @property
    def is_weighted(self):
        return any(weight != 1 for _, _, weight in self.edges)


SHAPES = ("random", "sparse", "periodic", "components", "star", "chain", "complete", "empty", "loops")


def random_case(rng: np.random.Generator) -> Case:
    n = int(rng.integers(1, 13))
    edges = unweighted(str(rng.choice(SHAPES)), n, rng)
    kind = rng.choice(["ones", "uniform", "huge", "zeros"])
    if kind == "uniform":
        edges = [(u, v, float(rng.uniform(0, 3))) for u, v, _ in edges]
    elif kind == "huge":
        edges = [(u, v, float(10.0 ** rng.uniform(-150, 150))) for u, v, _ in edges]
    elif kind == "zeros":
        edges = [(u, v, float(rng.integers(0, 3))) for u, v, _ in edges]
    damping = float(rng.choice([0.0, 0.5, 0.85, 0.85, 0.99, 0.9999, rng.uniform(0, 1)]))
    return Case(edges, n, damping, random_shares(n, rng), random_shares(n, rng))


def unweighted(shape: str, n: int, rng: np.random.Generator) -> list[tuple[int, int, float]]:
    every = [(u, v) for u in range(n) for v in range(n)]
    if shape == "random":
        pairs = [pair for pair in every if rng.random() < 0.3]
    elif shape == "sparse":
        pairs = [every[i] for i in rng.integers(0, len(every), n)]
    elif shape == "periodic":
        pairs = [(u, (u + 1) % n) for u in range(n)]
    elif shape == "components":
        pairs = [(u, v) for u, v in every if u % 3 == v % 3 and u != v and rng.random() < 0.7]
    elif shape == "star":
        pairs = [(u, 0) for u in range(1, n)] + [(0, u) for u in range(1, n) if rng.random() < 0.5]
    elif shape == "chain":
        pairs = [(u, u + 1) for u in range(n - 1)]
    elif shape == "complete":
        pairs = every
    elif shape == "loops":
        pairs = [(u, u) for u in range(n)] + [pair for pair in every if rng.random() < 0.1]
    else:
        pairs = []
    pairs = list(dict.fromkeys(pairs))
    rng.shuffle(pairs)
    return [(int(u), int(v), 1.0) for u, v in pairs]


def random_shares(n: int, rng: np.random.Generator) -> dict[int, float] | None:
    if rng.random() < 0.5:
        return None
    chosen = rng.choice(n, int(rng.integers(1, n + 1)), replace=False)
    return {int(node): float(10.0 ** rng.uniform(-8, 8)) for node in chosen}


class HubCase(NamedTuple):
    """A graph with hubs of very many links, whose nodes form a few classes of equal scores.

    Attributes
    ----------
    source, target, weight : ndarray
    sizes : list of int
        Nodes per class; those of a class are consecutive, and hubs come first, each a class of its own.
    shares : list of dict
        For a node of each class, the weight that it sends to each node of another class.
    """

    source: np.ndarray
    target: np.ndarray
    weight: np.ndarray
    sizes: list[int]
    shares: list[dict[int, float]]
    damping: float


def hub_case(rng: np.random.Generator, leaves: int) -> HubCase:
    """Draw a case: groups of leaves point to some hubs, hubs to each other or to all leaves of a group."""
    hubs, groups = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    sizes = [1] * hubs + [leaves, *rng.integers(1, 50, groups - 1).tolist()]
    shares: list[dict[int, float]] = []
    for number in range(len(sizes)):
        others = [other for other in range(len(sizes)) if other < hubs or number < hubs]
        chosen = [other for other in others if other != number and rng.random() < 0.6]
        if number == hubs and not any(other < hubs for other in chosen):
            chosen.append(0)  # the large group has a hub
        shares.append({other: float(10.0 ** rng.uniform(-150, 150)) for other in chosen})
    first = np.concatenate([[0], np.cumsum(sizes)])
    source, target, weight = [], [], []
    for number, row in enumerate(shares):
        for other, w in row.items():
            mine, theirs = (np.arange(first[c], first[c + 1]) for c in (number, other))
            source.append(np.repeat(mine, len(theirs)))
            target.append(np.tile(theirs, len(mine)))
            weight.append(np.full(len(mine) * len(theirs), w))
    arrays = [np.concatenate([np.zeros(0), *parts]) for parts in (source, target, weight)]
    damping = float(rng.choice([0.5, 0.85, 0.99, 0.9999]))
    return HubCase(arrays[0].astype(int), arrays[1].astype(int), arrays[2], sizes, shares, damping)
