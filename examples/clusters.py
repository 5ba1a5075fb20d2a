"""Cluster stretched clouds of points by k-means and by a mixture of normal distributions.

k-means cuts long clouds, since it compares distances alone; the mixture finds their shapes. The picture shows
both: the centres of k-means, and the ellipses of the mixture, which have nine tenths of the mass of their
components. It is clusters.png, or the file that is named as argument, and needs matplotlib.
"""

import sys

import numpy as np

from bmrm import GaussianMixture, KMeans, plots
from bmrm.base.figures import new_figure

MASS = 0.9
"""Share of a component inside its ellipse."""

CLOUDS = {  # weight, middle, direction in degrees, length, width
    "long": (160, (0.0, 0.0), 35.0, 3.0, 0.5),
    "crossing": (110, (4.5, -1.0), 120.0, 2.4, 0.5),
    "round": (80, (-1.5, 4.5), 0.0, 0.8, 0.8),
}


def points(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Points, and the cloud of each."""
    parts = []
    for count, middle, degrees, length, width in CLOUDS.values():
        angle = np.radians(degrees)
        turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
        parts.append(rng.normal(size=(count, 2)) * (length, width) @ turn + middle)
    return np.concatenate(parts), np.repeat(np.arange(len(parts)), [len(part) for part in parts])


def named(labels: np.ndarray, true: np.ndarray) -> np.ndarray:
    """For each point the cloud that is commonest in its cluster."""
    counts = np.zeros((labels.max() + 1, true.max() + 1))
    np.add.at(counts, (labels, true), 1)
    return counts.argmax(axis=1)[labels]


def ellipse(mean: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """Points of the line inside which a normal distribution in the plane has the share MASS."""
    angles = np.linspace(0.0, 2.0 * np.pi, 100)
    radius = np.sqrt(-2.0 * np.log(1.0 - MASS))  # of the chi square distribution with two degrees
    circle = radius * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return mean + circle @ np.linalg.cholesky(covariance).T


def main(path: str = "clusters.png") -> None:
    X, true = points(np.random.default_rng(0))
    k = len(CLOUDS)
    clusters = KMeans(k, n_init=5, random_state=0).fit(X)
    proof = clusters.certificate(X, samples=8, size=60)
    mixture = GaussianMixture(k, n_init=5, random_state=0).fit(X)
    labels = {"KMeans": named(clusters.labels_, true), "GaussianMixture": named(mixture.predict(X), true)}
    shares = {name: np.mean(found == true) for name, found in labels.items()}
    print(f"k-means: inertia {clusters.inertia_:.1f}, at most {proof.ratio:.2f} times the optimum; ", end="")
    print(f"{shares['KMeans']:.1%} of the points are with their cloud")
    print(f"mixture: mean log likelihood {mixture.lower_bound_:.3f}; ", end="")
    print(f"{shares['GaussianMixture']:.1%} of the points are with their cloud")

    figure = new_figure((9.0, 4.2))
    both = figure.subplots(1, 2, sharex=True, sharey=True)
    for axes, (name, found) in zip(both, labels.items(), strict=True):
        for cloud in range(k):
            axes.plot(*X[found == cloud].T, ".", markersize=4)
        axes.set(title=f"{name}: {shares[name]:.0%} with their cloud", aspect="equal")
    both[0].scatter(*clusters.cluster_centers_.T, marker="x", s=80, color="black", label="centres")
    both[0].legend()
    for mean, covariance in zip(mixture.means_, mixture.covariances_, strict=True):
        both[1].plot(*ellipse(mean, covariance).T, color="black")
    plots.save(figure, path)
    print(f"plotted in {path}")


if __name__ == "__main__":
    main(*sys.argv[1:2])
