"""``bmrm-train --dry-run``: the memory that training will take, found in bounded memory."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bmrm._cpu import Matrix
from bmrm.bundle import MOST_CUTS
from bmrm.cli.exits import Exit, reading
from bmrm.cli.loading import ZERO_BASED
from bmrm.cli.units import size_text
from bmrm.cuts_per_pass import MORE_BLOCKS
from bmrm.gpu_memory import plan_memory, room_for_cuts
from bmrm.host_steps import CUT_BYTES
from bmrm.io import Csr, Labels, is_text, iter_svmlight, read_data
from bmrm.losses import LOSSES
from bmrm.resident import gpu_type, number_of, wants_gpu

if TYPE_CHECKING:
    from bmrm.cli.options import TrainOptions


ON_GPU, STREAMED = "X on the GPU", "X in pinned host memory"


class Size(NamedTuple):
    """What the bytes depend on; ``value_bytes`` is 0 where every value is 1.

    ``columns`` are those of the weights: the labels found, for a loss with a margin for each of them.
    """

    n_samples: int
    n_features: int
    nnz: int
    value_bytes: int
    is_dense: bool
    columns: int = 1


def dry_run(options: TrainOptions) -> int:
    """Print the size of the problem and the bytes of X and of a full bundle."""
    with reading(options.data):
        size = measure(options)
    parts = part_bytes(size, options)
    parts["total"] = sum(parts.values())
    if options.json:
        sizes = {"n_samples": size.n_samples, "n_features": size.n_features, "nnz": size.nnz}
        print(json.dumps({**sizes, "bytes": parts, "options": options.as_dict()}))
    else:
        print(f"{size.n_samples} rows, {size.n_features} features, {size.nnz} nonzeros")
        width = max(map(len, parts))
        for part, count in parts.items():
            note = ", at most" if part in ("bundle", "vectors") else ""
            note = ", about" if part in (ON_GPU, STREAMED) else note
            print(f"{part:<{width}}  {size_text(count)}{note}")
    return Exit.OK


def measure(options: TrainOptions) -> Size:
    """Count rows, columns and nonzeros; text is read in chunks and forgotten."""
    zero_based, dtype = ZERO_BASED[options.zero_based], np.dtype(options.dtype)
    several = LOSSES[options.loss].several
    labels: set[float] = set()
    if not is_text(options.data):
        data = read_data(options.data, n_features=options.n_features, dtype=dtype, threads=options.threads)
        if several and data.y is not None:
            labels |= _labels(data.y)
        X, columns = data.X, len(labels) or 1
        if not isinstance(X, Csr):
            return Size(X.shape[0], X.shape[1], X.size, dtype.itemsize, True, columns)
        return Size(X.shape[0], X.shape[1], X.nnz, 0 if X.data is None else dtype.itemsize, False, columns)
    rows = features = nnz = value_bytes = 0
    for X, y in iter_svmlight(
        options.data,
        n_features=options.n_features,
        zero_based=zero_based,
        dtype=dtype,
        threads=options.threads,
    ):
        rows += X.shape[0]
        features = max(features, X.shape[1])
        nnz += X.nnz
        value_bytes = max(value_bytes, 0 if X.data is None else dtype.itemsize)
        if several:
            labels |= _labels(y)
    return Size(rows, features, nnz, value_bytes, False, len(labels) or 1)


def _labels(y: Labels) -> set[float]:
    """Return the labels that occur."""
    return set(np.unique(y).tolist()) if isinstance(y, np.ndarray) else {label for row in y for label in row}


def part_bytes(size: Size, options: TrainOptions) -> dict[str, int]:
    """Return bytes by part; the bundle grows up to what is given here."""
    shape = (size.n_samples, size.n_features)
    if wants_gpu(options.device, size.nnz):
        stored = gpu_type(np.dtype(options.dtype) if size.value_bytes else None, options.tol)
        entry, values = stored.itemsize, stored.itemsize if size.value_bytes else 0
        nnz = None if size.is_dense else size.nnz
        plan = plan_memory(shape, nnz, values, entry, options.gpu_mem, number_of(options.device))
        parts = {ON_GPU: plan.resident, STREAMED: plan.streamed, "vectors": plan.vectors}
        room = room_for_cuts(plan.left, shape, entry)
    else:
        room, entry = CUT_BYTES, 8
        if size.is_dense:
            parts = {"X": size.nnz * size.value_bytes, "X^T": 0}
        else:
            X = Matrix.predict_bytes(*shape, size.nnz, size.value_bytes, transpose=False)
            both = Matrix.predict_bytes(*shape, size.nnz, size.value_bytes, transpose=True)
            parts = {"X": X, "X^T": both - X}
    groups = options.cuts_per_pass if isinstance(options.cuts_per_pass, int) else MORE_BLOCKS
    weights = size.n_features * size.columns
    cuts = options.max_cuts or max(4 * groups, min(MOST_CUTS, room // (entry * weights)))
    return {**parts, "bundle": cuts * (entry * weights + 8 * cuts)}
