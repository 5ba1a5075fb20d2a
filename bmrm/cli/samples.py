"""Small files for the examples of the documentation, drawn here: equal for equal versions of NumPy."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from bmrm.errors import ParameterError, escape_unprintable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NAMES = (
    *("train.svm", "test.svm", "mail.svm", "flowers.csv"),
    *("edges.txt", "rows.npy", "points.npy", "grid.npy"),
)
"""The files: two classes in SVMlight text, once with words as labels; three classes; who knows whom; rows in
clusters; points in the unit cube, and the nodes of a grid in it."""

TRAINING_ROWS, TEST_ROWS, FEATURES = 2000, 500, 50

PEOPLE = "ann bob cat dan eve fay gus hal ida jim kay lee max nan oto pam ray sue tom una vic wes yan zoe"


def write_samples(folder: str) -> None:
    """Write the files into a folder, all or none; make the folder if it is not there.

    Raise `ParameterError` if it has such files, and `OSError` if it cannot be written or the disk is full.
    """
    found = [name for name in NAMES if os.path.lexists(os.path.join(folder, name))]
    if found:
        names = ", ".join(found)
        raise ParameterError(f"{escape_unprintable(folder)}: found {names} there, expected none of the files")
    try:
        with _kept_if_written(folder), tempfile.TemporaryDirectory(prefix=".bmrm-", dir=folder) as made:
            _write_all(Path(made))
            for name in NAMES:
                os.rename(os.path.join(made, name), os.path.join(folder, name))
    except OSError as error:
        raise OSError(error.errno, error.strerror, folder) from None  # a name in `made` says nothing


@contextlib.contextmanager
def _kept_if_written(folder: str) -> Iterator[None]:
    """Make a folder if it is not there; remove it again after an exception."""
    is_new = not os.path.isdir(folder)
    if is_new:
        os.mkdir(folder)
    try:
        yield
    except BaseException:
        if is_new:
            os.rmdir(folder)
        raise


def _write_all(folder: Path) -> None:
    import numpy as np

    _write_classes(folder, np.random.default_rng(0))
    rng = np.random.default_rng(1)
    (folder / "flowers.csv").write_text(_flowers(rng))
    (folder / "edges.txt").write_text(_acquaintances(rng))
    np.save(folder / "rows.npy", _among(rng.normal(0.0, 5.0, (10, 4)), 600, 1.0, rng))
    clumps = _among(rng.random((20, 3)), 1000, 0.02, rng)
    np.save(folder / "points.npy", np.concatenate([rng.random((1000, 3)), clumps % 1.0]))
    ticks = np.linspace(0.05, 0.95, 8)
    np.save(folder / "grid.npy", np.stack(np.meshgrid(ticks, ticks, ticks), axis=-1).reshape(-1, 3))


def _write_classes(folder: Path, rng: np.random.Generator) -> None:
    """Write two classes that overlap, with sparse features."""
    import numpy as np

    from bmrm.io.dump import dump_svmlight

    def draw(rows: int) -> NDArray[np.int64]:
        kept = rng.random((rows, FEATURES)) < 0.2
        return np.asarray(kept * rng.integers(1, 4, (rows, FEATURES)))

    X, w = draw(TRAINING_ROWS), rng.standard_normal(FEATURES)
    threshold = float(np.median(X @ w))

    def classes(X: NDArray[np.int64]) -> NDArray[np.intp]:
        return (X @ w + 2.0 * rng.standard_normal(len(X)) > threshold).astype(np.intp)

    y = classes(X)
    signs = np.array([-1, 1])
    dump_svmlight(X, signs[y], folder / "train.svm", zero_based=False)
    dump_svmlight(X, np.array(["ham", "spam"])[y], folder / "mail.svm", zero_based=False)
    X = draw(TEST_ROWS)
    dump_svmlight(X, signs[classes(X)], folder / "test.svm", zero_based=False)


def _flowers(rng: np.random.Generator) -> str:
    """Draw lengths of three species that overlap a little, in centimetres."""
    means = {"setosa": (5.0, 1.5, 9.0), "versicolor": (5.9, 4.3, 14.0), "virginica": (6.6, 5.5, 16.0)}
    lines = ["id,sepal,petal,stem,species"]
    for number in range(150):
        species = list(means)[number % 3]
        sizes = rng.normal(means[species], (0.4, 0.4, 1.5))
        lines.append(",".join([str(number + 1), *(f"{size:.1f}" for size in sizes), species]))
    return "\n".join([*lines, ""])


def _acquaintances(rng: np.random.Generator) -> str:
    """Draw edges of which the earlier people get more."""
    people = PEOPLE.split()
    edges = set()
    for number, name in enumerate(people):
        for other in (len(people) * rng.random(6) ** 2).astype(int).tolist():
            if other != number:
                edges.add((name, people[other]))
    return "".join(f"{one} {other}\n" for one, other in sorted(edges))


def _among(
    centers: NDArray[np.float64], count: int, spread: float, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Draw points around centres."""
    steps = spread * rng.standard_normal((count, centers.shape[1]))
    found: NDArray[np.float64] = centers[rng.integers(0, len(centers), count)] + steps
    return found
