"""Kernel densities on the CPU, against scikit-learn, SciPy and PyKeOps.

    OMP_NUM_THREADS=1 python -m benchmarks.pairs.kde [--out FILE]

All of it runs on one thread. A time is processor time of the process, the least of some calls that take
turns; ours includes reading and sorting the points. Programs of which a call takes long get fewer points at
which the density is wanted, and the time per pair counts. PyKeOps is left out if it is not installed; its
first call, which compiles, is not counted. Densities are compared with SciPy's in float64, and their errors
with the reported bounds.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy
import scipy.stats
import sklearn
from scipy.special import logsumexp
from sklearn.neighbors import KernelDensity

from benchmarks.common import report
from benchmarks.common.cpu_timing import least_seconds
from bmrm import pairs

POINTS, AXES, H = 50_000, 3, 0.1
AT = {
    "sklearn": 2000,
    "scipy": 2000,
    "keops32": 10_000,
    "keops64": 10_000,
    "ours32": POINTS,
    "ours64": POINTS,
}
CHECKED = 500
REPEATS = 3

SECTIONS = """
## Kernel densities on the CPU
headline: kernel densities, one thread | PyKeOps in float32 | sums | ns[keops32]/ns[ours32] | {machine[cpu]}

scikit-learn {versions[sklearn]}, SciPy {versions[scipy]}, PyKeOps {versions[pykeops]}. Minimum processor time
of one thread, ours with reading and sorting the points. {sizes[points]} uniform points in a cube, a Gaussian
kernel of h = {sizes[h]}, densities at the points; nanoseconds per pair. scikit-learn has rtol = 1e-6.

[sums]
bmrm, float32, ns = {ns[ours32]:.3f} | bmrm, float64, ns = {ns[ours64]:.3f} |
scikit-learn ns = {ns[sklearn]:.3g} | SciPy ns = {ns[scipy]:.3g} | PyKeOps, float32, ns = {ns[keops32]:.3g} |
PyKeOps, float64, ns = {ns[keops64]:.3g}

The largest relative error of {sizes[checked]} densities, and the largest reported error bound of all.

[errors]
points = {kind} | error = {error:.1e} | reported = {reported:.1e}

[other]
points = {kind} | axes = {axes} | kernel = {kernel} | tol = {tol} | bmrm ns = {ns:.3f} |
reported = {reported:.1e}

[aims]
"""

OTHERS = (
    ("float32", 2, "gaussian", None),
    ("float32", 4, "gaussian", None),
    ("float32", 8, "gaussian", 1e-5),
    ("float32", 3, "gaussian", 1e-3),
    ("float64", 3, "gaussian", 1e-6),
    ("float64", 3, "exponential", None),
    ("float64", 3, "tophat", None),
    ("float64", 3, "epanechnikov", None),
    ("float64", 3, "linear", None),
    ("float64", 3, "cosine", None),
)


def cube(axes: int = AXES) -> Any:
    """Return uniform points of float32 in the unit cube."""
    return np.random.default_rng(0).random((POINTS, axes), np.float32)


def ours(x: Any, **words: Any) -> pairs.Density:
    """Return our densities."""
    return pairs.kde(x, device="cpu", threads=1, **{"bandwidth": H, **words})


def keops(lazy: Any, x: Any) -> Callable[[], Any]:
    """Return PyKeOps' sums, compiled."""
    x_i, y_j = lazy.LazyTensor(x[: AT["keops64"], None, :]), lazy.LazyTensor(x[None, :, :])
    sums = (-((x_i - y_j) ** 2).sum(-1) / (2 * H * H)).exp()
    sums.sum(axis=1, backend="CPU")
    return lambda: sums.sum(axis=1, backend="CPU")


def measure_sums() -> dict[str, Any]:
    """Measure the sums over all points, per pair."""
    narrow = cube()
    wide = narrow.astype(np.float64)
    theirs = KernelDensity(bandwidth=H, rtol=1e-6).fit(wide)
    smooth = scipy.stats.gaussian_kde(wide.T, bw_method=H)
    calls: dict[str, Callable[[], Any]] = {
        "ours32": lambda: ours(narrow),
        "ours64": lambda: ours(wide),
        "sklearn": lambda: theirs.score_samples(wide[: AT["sklearn"]]),
        "scipy": lambda: smooth(wide[: AT["scipy"]].T),
    }
    if lazy := report.optional("pykeops.numpy"):
        calls |= {"keops32": keops(lazy, narrow), "keops64": keops(lazy, wide)}
    seconds = least_seconds(calls, REPEATS)
    return {"seconds": seconds, "ns": {who: 1e9 * s / POINTS / AT[who] for who, s in seconds.items()}}


def measure_errors() -> list[dict[str, Any]]:
    """Compare densities with a sum in long doubles."""
    found = []
    for kind in (np.float32, np.float64):
        x = cube().astype(kind)
        density = ours(x, log=True)
        y = x.astype(np.longdouble)
        squares = sum((y[:CHECKED, None, k] - y[None, :, k]) ** 2 for k in range(AXES))
        logs = logsumexp(-squares / (2 * np.longdouble(H) ** 2), axis=1)
        logs -= np.log(np.longdouble(POINTS)) + AXES * np.log(np.sqrt(2 * np.longdouble(np.pi)) * H)
        error = np.abs(density.values[:CHECKED] - logs)
        assert (error <= density.error_bound[:CHECKED]).all()
        reported = float(density.error_bound.max())
        found.append({"kind": kind.__name__, "error": float(error.max()), "reported": reported})
    return found


def measure_others() -> list[dict[str, Any]]:
    """Measure other dimensions, kernels and tolerances."""
    rows = []
    for kind, axes, kernel, tol in OTHERS:
        x = cube(axes).astype(kind)
        h = H if axes == AXES else 0.1 * axes
        words = {"bandwidth": h, "kernel": kernel, "tol": tol}
        found = ours(x, **words)
        seconds = least_seconds({"ours": lambda x=x, words=words: ours(x, **words)}, 1)["ours"]
        rows.append(
            {
                "kind": kind,
                "axes": axes,
                "kernel": kernel,
                "tol": "-" if tol is None else f"{tol:g}",
                "ns": 1e9 * seconds / POINTS**2,
                "reported": float(found.error_bound.max()),
            }
        )
    return rows


def aims(numbers: dict[str, Any]) -> list[dict[str, Any]]:
    """Compare with what is asked."""
    ns = numbers["sums"][0]["ns"]
    found = [
        report.aim("scikit-learn / bmrm, float32", ns["sklearn"] / ns["ours32"], 60),
        report.aim("scikit-learn / bmrm, float64", ns["sklearn"] / ns["ours64"], 25),
    ]
    if "keops32" in ns:
        found.append(report.aim("PyKeOps / bmrm, float32", ns["keops32"] / ns["ours32"], 20))
    for row, bound in zip(numbers["errors"], (1e-6, 1e-12), strict=True):
        found.append(report.aim(f"reported error, {row['kind']}", row["reported"], bound, below=True))
    return found


def main() -> None:
    """Print the measurements and write the results file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default=report.RESULTS / "pairs_kde.json")
    options = parser.parse_args()
    numbers: dict[str, Any] = {
        "sizes": {"points": POINTS, "h": H, "checked": CHECKED},
        "sums": [measure_sums()],
        "errors": measure_errors(),
        "other": measure_others(),
    }
    numbers["aims"] = aims(numbers)
    for aim in numbers["aims"]:
        print(report.line(aim))
    keops_version = report.version("pykeops")
    versions = {"sklearn": sklearn.__version__, "scipy": scipy.__version__, "pykeops": keops_version}
    report.write(options.out, SECTIONS, versions=versions, **numbers)


if __name__ == "__main__":
    main()
