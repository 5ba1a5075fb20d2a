"""PCA and TruncatedSVD on one core, against scikit-learn and its extension: processor time of whole fits.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python -m benchmarks.reductions.components [--out FILE]

All solve the same problem in the same process, in turn, on one thread each; the least time of some fits
counts. PCA of scikit-learn-intelex takes part if it is there (`pip install scikit-learn-intelex`). The peers
sum float32 rows in float32; the error is the largest one of a singular value, relative to the first, against
LAPACK's singular values of the centred rows in float64.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
import sklearn
import sklearn.decomposition as theirs

from benchmarks.common import intelex, report
from bmrm import PCA, TruncatedSVD

REPEATS = 5
LAPACK_VALUES = 2**26  # rows with more values are not decomposed by LAPACK

SECTIONS = """
## Whole fits of principal components

scikit-learn {versions[scikit-learn]}, and intelex, which is scikit-learn-intelex
({versions[intelex]:*/not measured}); minimum processor time of one thread. Errors are those of the singular
values, relative to the first, if LAPACK can tell; one above 1 belongs to a result that is wrong.

[rows]
rows = {case} | ms = {seconds[ours]:.1f ms} | scikit-learn ms = {seconds[scikit-learn]:.1f ms} |
times faster = {seconds[scikit-learn]/seconds[ours]:.2f} | intelex ms = {seconds[intelex]:.1f ms} |
than intelex = {seconds[intelex]/seconds[ours]:.2f} | error = {errors[ours]:.0e} |
scikit-learn's error = {errors[scikit-learn]:.0e} | intelex's = {errors[intelex]:.0e}
"""


def dense(n: int, d: int, dtype: str) -> np.ndarray:
    """Return normal rows away from 0, whose columns have unlike variances."""
    rng = np.random.default_rng(0)
    return (rng.normal(size=(n, d)) * np.geomspace(2.0, 0.5, d) + 3.0).astype(dtype)


def cases() -> Iterator[tuple[str, Any, dict[str, Callable[[], Any]]]]:
    """Yield what is measured: a name, the rows, and estimators."""
    modules = {"scikit-learn": theirs, "intelex": intelex.module("decomposition", 1)}
    modules = {who: module for who, module in modules.items() if module}

    def of_all(components: Any, ours: str, solver: str) -> dict[str, Callable[[], Any]]:
        found = {
            who: lambda module=module: module.PCA(components, svd_solver=solver)
            for who, module in modules.items()
        }
        return {"ours": lambda: PCA(components, svd_solver=ours, threads=1), **found}

    for n, d, dtype, p in (
        (300_000, 50, "float32", 10),
        (300_000, 50, "float64", 10),
        (20_000, 700, "float32", 10),
        (20_000, 700, "float64", 10),
        (3_000, 2_000, "float64", 10),
        (3_000, 2_000, "float64", None),
    ):
        name = f"{n} x {d} {dtype}, {p or 'all'} components"
        yield name, dense(n, d, dtype), of_all(p, "covariance_eigh", "covariance_eigh")
    for n, d in ((100, 1_500), (100, 60_000)):
        name = f"{n} x {d} float64, 90 % of the variance"
        yield name, dense(n, d, "float64"), of_all(0.9, "auto", "full")
    sparse = sp.random_array((200, 100_000), density=0.001, format="csr", rng=np.random.default_rng(0))
    singular = {
        "ours": lambda: TruncatedSVD(30, threads=1, random_state=0),
        "scikit-learn": lambda: theirs.TruncatedSVD(30, algorithm="arpack", random_state=0),
    }
    yield "200 x 100000 sparse, 30 singular values", sparse, singular


def largest_error(model: Any, X: Any) -> float | None:
    """Return the largest error of a singular value of a PCA relative to the first, if LAPACK can tell."""
    if sp.issparse(X) or X.size > LAPACK_VALUES or min(X.shape) > 1000:
        return None
    centred = X.astype(np.float64) - X.mean(axis=0, dtype=np.float64)
    exact = np.linalg.svd(centred, compute_uv=False)
    values = model.singular_values_
    return float(np.abs(values - exact[: len(values)]).max() / exact[0])


def measure(name: str, X: Any, makes: dict[str, Callable[[], Any]]) -> dict[str, Any]:
    """Measure a fit of each."""
    seconds, errors = dict.fromkeys(makes, np.inf), {}
    for _ in range(REPEATS):
        for who, make in makes.items():
            model = make()
            start = time.process_time()
            model.fit(X)
            seconds[who] = min(seconds[who], time.process_time() - start)
            errors[who] = largest_error(model, X)
    return {"case": name, "seconds": seconds, "errors": errors}


def main() -> None:
    """Print the measurements and write the results file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default=report.RESULTS / "components.json")
    options = parser.parse_args()
    found = []
    for case in cases():
        row = measure(*case)
        found.append(row)
        times = ", ".join(f"{who} {1e3 * s:.1f} ms" for who, s in row["seconds"].items())
        print(f"{row['case']}: {times}; errors {row['errors']}", flush=True)
    versions = {"numpy": np.__version__, "scikit-learn": sklearn.__version__, "intelex": intelex.version()}
    report.write(options.out, SECTIONS, versions=versions, rows=found)


if __name__ == "__main__":
    main()
