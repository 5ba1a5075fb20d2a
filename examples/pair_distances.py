"""How far points cluster: pair counts of clustered points in a periodic box, over those of points at random.

Neyman and Scott's process puts parents at random and a cloud of points around each. The excess of pairs at a
distance over those of points at random, DD / RR - 1, is the correlation function of the points; it falls to 0
where clouds end. RR is known in a periodic box, a shell's share of the volume, so that no random points are
needed; those of a second run show how far chance goes. The picture is pair_distances.png, or the file that is
named as argument, and needs matplotlib.
"""

import sys

import numpy as np

from bmrm import pairs, plots
from bmrm.base.figures import new_figure

BOX = 100.0
PARENTS, MEAN_POINTS, SIZE = 400, 40, 1.2
EDGES = np.geomspace(0.2, 30.0, 31)


def clustered(rng: np.random.Generator) -> np.ndarray:
    """Points in clouds, of which some lie across the faces of the box."""
    parents = rng.uniform(0.0, BOX, (PARENTS, 3))
    centres = np.repeat(parents, rng.poisson(MEAN_POINTS, PARENTS), axis=0)
    return centres + rng.normal(scale=SIZE, size=centres.shape)


def excess(found: pairs.Histogram) -> np.ndarray:
    """DD / RR - 1: RR are the pairs that points at random would have in each shell."""
    shells = 4.0 / 3.0 * np.pi * np.diff(found.edges**3)
    return found.counts / (found.pairs * shells / BOX**3) - 1.0


def main(path: str = "pair_distances.png") -> None:
    rng = np.random.default_rng(0)
    x = clustered(rng)
    even = rng.uniform(0.0, BOX, x.shape)
    points = pairs.Points(x, box=BOX)
    print(pairs.explain(points, edges=EDGES))
    found, chance = (pairs.histogram(each, edges=EDGES) for each in (points, pairs.Points(even, box=BOX)))
    print(f"{len(x)} points, {found.counts.sum()} pairs within {EDGES[-1]:g} of {found.pairs}")
    near, total = pairs.count(points, radius=[SIZE, 30.0])
    print(f"{near} pairs within {SIZE}, {total} within 30")
    xi = excess(found)
    print(f"excess {xi[0]:.1f} at {EDGES[0]:.1f}, {xi[-1]:.3f} at {EDGES[-1]:.0f}")
    print(f"largest excess at random beyond 3: {np.abs(excess(chance)[EDGES[:-1] > 3.0]).max():.3f}")

    figure = new_figure((9.0, 4.2))
    left, right = figure.subplots(1, 2)
    slab = np.mod(x, BOX)
    left.plot(*slab[slab[:, 2] < 6.0, :2].T, ".", markersize=2)
    left.set(title="a slab of the box", aspect="equal", xlim=(0, BOX), ylim=(0, BOX))
    middle = np.sqrt(EDGES[:-1] * EDGES[1:])
    right.plot(middle, 1.0 + xi, marker=".", label="in clouds")
    right.plot(middle, 1.0 + excess(chance), color="grey", label="at random")
    right.set(title="pairs over those at random", xlabel="distance", xscale="log", yscale="log")
    right.legend()
    plots.save(figure, path)
    print(f"plotted in {path}")


if __name__ == "__main__":
    main(*sys.argv[1:2])
