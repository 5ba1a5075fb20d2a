"""Graphs for the benchmarks: R-MAT, and the published ones of a folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

QUADRANTS = (0.57, 0.19, 0.19)
"""Probabilities of Graph500, the fourth is what is left."""

PUBLISHED = {
    "wiki-Vote": "wiki-Vote.txt.gz",
    "gnutella31": "p2p-Gnutella31.txt.gz",
    "enron": "email-Enron.txt.gz",
    "slashdot": "soc-Slashdot0902.txt.gz",
}


def rmat(scale: int, edge_factor: int, seed: int = 1) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Draw edges (Chakrabarti, Zhan, Faloutsos, "R-MAT: a recursive model for graph mining", SDM 2004)."""
    rng = np.random.default_rng(seed)
    count, (a, b, c) = edge_factor << scale, QUADRANTS
    source, target = np.zeros((2, count), np.int64)
    for _ in range(scale):
        draw = rng.random(count)
        down = draw >= a + b
        right = ((draw >= a) & (draw < a + b)) | (draw >= a + b + c)
        source, target = 2 * source + down, 2 * target + right
    return source.astype(np.int32), target.astype(np.int32)


def published(folder: Path) -> dict[str, Path]:
    """Return the published graphs that a folder holds."""
    return {name: folder / file for name, file in PUBLISHED.items() if (folder / file).exists()}
