"""Random problems for counts: points of many kinds, edges that pairs lie on, boxes, images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from count_reference import histogram

KINDS = ("uniform", "lattice", "tenths", "clusters", "equal", "far", "outlier", "huge", "tiny", "float32")
MAX_OPEN, MAX_IMAGED = 260, 25


@dataclass(frozen=True)
class CountProblem:
    """What is counted; `words` are the keywords of `bmrm.pairs.histogram`."""

    seed: int
    x: Any
    y: Any
    box: Any
    words: dict[str, Any]

    def expected(self):
        return histogram(self.x, self.y, box=self.box, **self.words)

    def plans(self):
        """The plans that can count it."""
        from bmrm.errors import ParameterError
        from bmrm.pairs import explain

        points = self.points()
        found = []
        for plan in ("auto", "float64", "brute", "cells"):
            try:
                explain(*points, plan=plan, device="cpu", **self.words)
            except ParameterError:
                continue
            found.append(plan)
        assert found[:2] == ["auto", "float64"]
        return found

    def points(self, **options):
        from bmrm.pairs import Points

        x = Points(self.x, box=self.box, **options)
        return (x,) if self.y is None else (x, Points(self.y, box=self.box, **options))


def _points(rng, kind, n, axes):
    x = rng.random((n, axes))
    if kind == "lattice":
        return rng.integers(0, 6, (n, axes)).astype(float)
    if kind == "tenths":
        return rng.integers(0, 10, (n, axes)) * 0.1
    if kind == "clusters":
        return rng.integers(0, 3, (n, axes)) + 1e-3 * rng.normal(size=(n, axes))
    if kind == "equal":
        return np.repeat(x[:1], n, axis=0) if n else x
    if kind == "far":
        return np.round(x * 8) / 8 + 1e6
    if kind == "outlier":
        if n:
            x[0] = 1e9
        return x
    if kind == "huge":
        return x * 10.0 ** rng.integers(150, 300)
    if kind == "tiny":
        return x * 10.0 ** -rng.integers(140, 300)
    return x.astype(np.float32) if kind == "float32" else x


def _edges(rng, x, y, box):
    """Edges, of which some are distances of pairs."""
    size = float(np.ptp(x, axis=0).max()) if x.size else 1.0
    size = size if 0.0 < size < 1e300 else 1.0
    how = rng.choice(["even", "steps", "log", "distances", "infinite", "negative", "few"])
    if how == "steps":
        return np.arange(0, rng.integers(2, 9)) * (1.0 if size > 2.0 else 0.1)
    if how == "log":
        return np.geomspace(1e-3 * size, 1.5 * size, rng.integers(2, 40))
    if how == "distances" and len(x) > 1 and x.shape[1]:
        other = x[::-1] if y is None or not len(y) else np.resize(y, x.shape)
        with np.errstate(over="ignore", under="ignore"):
            r = np.sqrt(((x[:30].astype(float) - other[:30]) ** 2).sum(axis=1))
        found = np.unique(np.concatenate([[0.0], r[np.isfinite(r)]]))
        return found if len(found) > 1 else np.array([0.0, 1.0])
    if how == "infinite":
        return np.array([rng.choice([0.0, 0.3]) * size, 0.5 * size, np.inf])
    if how == "negative":
        return np.linspace(-size, size, 12)
    if how == "few":
        return np.array([0.0, size * rng.choice([1e-3, 0.05, 0.2, 1.0])])
    return np.linspace(0.0, size * rng.choice([0.1, 0.5, 2.0]), rng.integers(2, 300))


def count_problem(seed: int) -> CountProblem:
    """Return the problem of a seed."""
    rng = np.random.default_rng([seed, 49])
    kind = KINDS[rng.integers(len(KINDS))]
    axes = int(rng.choice([0, 1, 2, 3, 3, 3, 4, 5, 7], p=[0.02, 0.14, 0.18, 0.2, 0.1, 0.1, 0.12, 0.1, 0.04]))
    images = rng.choice(["None", "one", "all"], p=[0.4, 0.3, 0.3])
    closed = str(rng.choice(["last", "left", "right"]))
    box = None
    if rng.random() < 0.6:
        box = np.where(rng.random(axes) < 0.75, rng.choice([0.5, 1.0, 1.3, 2.0, 6.0], axes), 0.0)
        if kind in ("far", "huge", "outlier", "tiny"):
            box = None
    periodic = box is not None and (box > 0.0).any()
    imaged = images == "all" and periodic
    n = int(rng.choice([0, 1, 2, 17, 64, 65, MAX_OPEN]))
    n = min(n, MAX_IMAGED) if imaged else n
    axes_left = 3 if imaged else axes
    if axes > axes_left:
        axes, box = axes_left, box[:axes_left]
    x = _points(rng, kind, n, axes)
    y = None
    if rng.random() < 0.4:
        y = _points(rng, kind, min(int(rng.choice([0, 1, 33, 120])), MAX_IMAGED if imaged else 200), axes)
        if rng.random() < 0.2:
            y = x.copy()
    edges = _edges(rng, x, y, box)
    if periodic and (box > 0.0).any():
        half = box[box > 0.0].min() / 2.0
        if images == "None":
            edges = edges[edges <= half]
        elif images == "all":
            edges = edges[edges <= 2.2 * half]
        if len(edges) < 2:
            edges = np.array([0.0, half])
    words = {"edges": edges, "closed": closed, "images": None if images == "None" else str(images)}
    return CountProblem(seed, x, y, box, words)
