"""Draw a map of cities from their distances, and one from nothing but the order of these distances.

Distances on the globe are no distances in a plane, so some stress is left. The picture is city_map.png, or
the file that is named as argument, and needs matplotlib.
"""

import sys
from itertools import combinations

import numpy as np

from bmrm import MDS, plots
from bmrm.base.figures import new_figure

EARTH_RADIUS_KM = 6371.0

CITIES = {  # degrees north and east
    "Athens": (37.98, 23.73), "Berlin": (52.52, 13.40), "Bucharest": (44.43, 26.10),
    "Dublin": (53.35, -6.26), "Helsinki": (60.17, 24.94), "Kyiv": (50.45, 30.52),
    "Lisbon": (38.72, -9.14), "London": (51.51, -0.13), "Madrid": (40.42, -3.70),
    "Oslo": (59.91, 10.75), "Paris": (48.86, 2.35), "Rome": (41.90, 12.50),
    "Stockholm": (59.33, 18.07), "Vienna": (48.21, 16.37), "Warsaw": (52.23, 21.01),
}  # fmt: skip


def unit_vectors() -> np.ndarray:
    north, east = np.radians(list(CITIES.values())).T
    return np.stack([np.cos(north) * np.cos(east), np.cos(north) * np.sin(east), np.sin(north)], axis=1)


def flat_map() -> np.ndarray:
    """Kilometres east and north of the middle, by projection onto the plane that touches the globe there."""
    places = unit_vectors()
    up = places.mean(axis=0) / np.linalg.norm(places.mean(axis=0))
    east = np.cross([0.0, 0.0, 1.0], up)
    east /= np.linalg.norm(east)
    return EARTH_RADIUS_KM * places @ np.stack([east, np.cross(up, east)], axis=1)


def turned(places: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Move, turn, mirror and scale a configuration to fit another one."""
    places, middle = places - places.mean(axis=0), target.mean(axis=0)
    U, sizes, Vt = np.linalg.svd(places.T @ (target - middle))
    return places @ (U @ Vt) * (sizes.sum() / (places**2).sum()) + middle


def main(path: str = "city_map.png") -> None:
    vectors = unit_vectors()
    pairs = combinations(range(len(vectors)), 2)
    km = np.array([EARTH_RADIUS_KM * np.arccos(vectors[i] @ vectors[j]) for i, j in pairs])

    true = flat_map()
    figure = new_figure((10.0, 4.4))
    for at, (title, metric_mds) in enumerate({"distances": True, "their order": False}.items()):
        model = MDS(2, metric="precomputed", metric_mds=metric_mds, eps=1e-12, max_iter=2000).fit(km)
        test = model.check_minimum(km)
        places = turned(model.embedding_, true)
        error = np.sqrt(((places - true) ** 2).sum(axis=1).mean())
        print(
            f"from {title}: normalized stress {model.normalized_stress_:.4f} after {model.n_iter_} passes, "
            f"{test.verdict}, {error:.0f} km from the true places"
        )
        axes = figure.add_subplot(1, 2, at + 1)
        axes.scatter(*places.T, s=60, facecolors="none", edgecolors="C0", label="MDS")
        axes.scatter(*true.T, s=25, marker="+", linewidths=0.8, color="black", label="true")
        for name, place in zip(CITIES, places, strict=True):
            axes.annotate(name, place, textcoords="offset points", xytext=(4, 4), fontsize=7)
        axes.set(title=f"from {title}", xlabel="km east", ylabel="km north", aspect="equal")
        axes.margins(0.15)
        axes.legend()
    plots.save(figure, path)
    print(f"plotted in {path}")


if __name__ == "__main__":
    main(*sys.argv[1:2])
