"""What ``bmrm-train`` reads: data, weights of rows, a model to start from."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from bmrm.cli.exits import reading, shown
from bmrm.cli.progress import logged
from bmrm.errors import DataError

if TYPE_CHECKING:
    from bmrm.cli.options import TrainOptions
    from bmrm.dataset import Dataset
    from bmrm.distributed import Group
    from bmrm.io import Data
    from bmrm.io.checkpoint import Checkpoint
    from bmrm.io.model import Model

ZERO_BASED: dict[str, bool | Literal["auto"]] = {"auto": "auto", "yes": True, "no": False}
_COSTS_LIMIT = 1 << 20  # bytes of a line of costs
_LINE_LIMIT = 4096  # bytes; a number is shorter, and a file of weights is untrusted


def load(options: TrainOptions, group: Group | None = None) -> tuple[Data, Dataset]:
    """Read the data and make it resident; on several ranks, each its rows."""
    if group is not None:
        return _load_rows(options, group)
    from bmrm.dataset import Dataset
    from bmrm.io import read_data

    with reading(options.data):
        data = read_data(
            options.data,
            n_features=options.n_features,
            zero_based=ZERO_BASED[options.zero_based],
            dtype=options.dtype,
            threads=options.threads,
            cache=options.cache,
        )
    began = time.perf_counter()
    with logged(options.verbose):
        dataset = Dataset(
            data.X,
            data.y,
            sample_weight=sample_weights(options.sample_weight, data.X.shape[0]),
            class_weight=options.class_weight,
            device=options.device,
            threads=options.threads,
            tol=options.tol,
        )
    data.seconds["resident"] = time.perf_counter() - began
    return data, dataset


def _load_rows(options: TrainOptions, group: Group) -> tuple[Data, Dataset]:
    from bmrm.distributed import Shard, read_rows

    with reading(options.data):
        data, first, total = read_rows(
            options.data,
            group,
            n_features=options.n_features,
            zero_based=ZERO_BASED[options.zero_based],
            dtype=options.dtype,
            threads=options.threads,
        )
    began = time.perf_counter()
    with group.together():
        weights = sample_weights(options.sample_weight, total)
    with logged(options.verbose):
        dataset = Shard(
            data.X,
            data.y,
            comm=group,
            sample_weight=None if weights is None else weights[first : first + data.X.shape[0]],
            class_weight=options.class_weight,
            device=options.device,
            threads=options.threads,
            tol=options.tol,
        )
    data.seconds["resident"] = time.perf_counter() - began
    return data, dataset


def sample_weights(path: str | None, rows: int) -> npt.NDArray[np.float64] | None:
    """Read one number a line."""
    if path is None:
        return None
    weights = np.empty(rows)
    number = 0
    with reading(path), open(path, "rb") as file:
        for number, line in enumerate(iter(lambda: file.readline(_LINE_LIMIT), b""), 1):
            try:
                value = float(line)
            except ValueError:
                value = np.nan
            if not 0 <= value < np.inf:
                text = line[:40].decode("ascii", "backslashreplace").strip()
                raise DataError(f"{shown(path)}:{number}: found {text!r}, expected a weight of at least 0")
            if number <= rows:
                weights[number - 1] = value
    if number != rows:
        raise DataError(f"{shown(path)}: found {number} weights, expected one for each of the {rows} rows")
    return weights


def read_costs(path: str) -> npt.NDArray[np.float64]:
    """Read a matrix, a row a line, its numbers separated by blanks or commas."""
    rows: list[list[float]] = []
    with reading(path), open(path, "rb") as file:
        for number, line in enumerate(iter(lambda: file.readline(_COSTS_LIMIT), b""), 1):
            words = line.replace(b",", b" ").split()
            try:
                row = [float(word) for word in words]
            except ValueError:
                row = []
            if not row or (rows and len(row) != len(rows[0])):
                wanted = f"{len(rows[0])} numbers" if rows else "numbers"
                text = line[:40].decode("ascii", "backslashreplace").strip()
                raise DataError(f"{shown(path)}:{number}: found {text!r}, expected {wanted}")
            rows.append(row)
            if len(rows) > len(rows[0]):
                break
    if not rows or len(rows) != len(rows[0]):
        columns = len(rows[0]) if rows else 0
        raise DataError(f"{shown(path)}: found {len(rows)} rows of {columns} costs, expected a square matrix")
    return np.array(rows)


def warm_start(options: TrainOptions) -> Model | Checkpoint | None:
    """Load the model to start from, or the checkpoint to go on from."""
    path = options.warm_start if options.resume is None else options.resume
    if path is None:
        return None
    from bmrm.io.checkpoint import Checkpoint
    from bmrm.io.model import Model

    with reading(path):
        return Model.load(path) if options.resume is None else Checkpoint.load(path)
