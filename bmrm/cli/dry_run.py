"""``bmrm-train --dry-run``: the memory that training will take, found in bounded memory."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bmrm.base.units import size_text
from bmrm.cli.exits import Exit, reading
from bmrm.cli.loading import ZERO_BASED
from bmrm.cli.storing import AUTO, DOUBLE, SINGLE, first_type
from bmrm.distributed.weight_layout import weight_bytes, why_not_owned
from bmrm.errors import ParameterError
from bmrm.io import Csr, Labels, is_text, iter_svmlight, read_data
from bmrm.linear.backends.host import row_space
from bmrm.linear.bundle.bundle import MAX_CUTS
from bmrm.linear.bundle.cuts_per_pass import MAX_BLOCKS
from bmrm.linear.bundle.store import CUT_BYTES
from bmrm.linear.solvers.dual_ascent import MARGIN_BYTES, is_wide
from bmrm.losses import LOSSES, JointLoss
from bmrm.matrix._cpu import Matrix
from bmrm.matrix.gpu.memory import plan_memory, room_for_cuts
from bmrm.matrix.resident import check_shape, choose_gpu_dtype, default_threads, device_number, wants_gpu

if TYPE_CHECKING:
    from bmrm.cli.options import TrainOptions
    from bmrm.distributed import Group


MARGIN, JOINT_MARGIN = 64, 320
"""Bytes of all vectors over rows that a solve on the CPU has at once, for each margin; and for losses of all
margins together, which sort them."""

ON_GPU, STREAMED = "X on the GPU", "X in pinned host memory"


class Size(NamedTuple):
    """What the bytes depend on; ``value_bytes`` is 0 where every value is 1.

    ``columns`` are those of the weights: the labels found, for a loss with a margin for each of them.
    ``rounded`` is whether some value would be rounded, so that training may come to store float64.
    """

    n_samples: int
    n_features: int
    nnz: int
    value_bytes: int
    is_dense: bool
    columns: int = 1
    rounded: bool = False


def dry_run(options: TrainOptions, group: Group | None = None) -> int:
    """Print the size of the problem and the bytes of X and of a full bundle."""
    if group is not None:
        return _dry_run_of_ranks(options, group)
    with reading(options.data):
        size = measure(options)
    check_shape((size.n_samples, size.n_features))
    parts = part_bytes(size, options)
    parts["total"] = sum(parts.values())
    most = sum(part_bytes(_in_full(size), options).values())
    if options.json:
        sizes = {"n_samples": size.n_samples, "n_features": size.n_features, "nnz": size.nnz}
        memory = {"bytes": parts, "bytes_as_float64": most}
        print(json.dumps({**sizes, **memory, "options": options.as_dict()}))
    else:
        print(f"{size.n_samples} rows, {size.n_features} features, {size.nnz} nonzeros")
        width = max(map(len, parts))
        for part, count in parts.items():
            note = ", at most" if part in ("bundle", "vectors") else ""
            note = ", about" if part in (ON_GPU, STREAMED) else note
            print(f"{part:<{width}}  {size_text(count)}{note}")
        if most > parts["total"]:
            print(f"{size_text(most)} in all where float32 rounds the values too much")
    return Exit.OK


def _in_full(size: Size) -> Size:
    """Return the size with values that training may come to store."""
    return size._replace(value_bytes=np.dtype(DOUBLE).itemsize) if size.rounded else size


def _dry_run_of_ranks(options: TrainOptions, group: Group) -> int:
    """Print the bytes of each rank, for either form of the weights that the options allow."""
    from bmrm.cli.ranks import is_first, together
    from bmrm.distributed.files import find_paths

    size, forms = Size(0, 0, 0, 0, False), {}
    with together(group):
        if is_first(group):
            with reading(options.data):
                names = find_paths(options.data)
                size = _joined([measure(dataclasses.replace(options, data=name)) for name in names])
            check_shape((size.n_samples, size.n_features))
            if wants_gpu(options.device, size.nnz // group.size):
                raise ParameterError("--dry-run: tells of several ranks on CPUs only; give --device cpu")
            forms = rank_bytes(_in_full(size), options, group.size)
    if not is_first(group):
        return Exit.OK
    for parts in forms.values():
        parts["total"] = sum(parts.values())
    if options.json:
        sizes = {"n_samples": size.n_samples, "n_features": size.n_features, "nnz": size.nnz}
        print(json.dumps({**sizes, "ranks": group.size, "bytes_a_rank": forms, "options": options.as_dict()}))
        return Exit.OK
    print(
        f"{size.n_samples} rows, {size.n_features} features, {size.nnz} nonzeros; at most, on each of "
        f"{group.size} ranks, with the weights"
    )
    first = next(iter(forms.values()))
    print(f"{'':7}" + "".join(f"  {form:>10}" for form in forms))
    for part in first:
        print(f"{part:<7}" + "".join(f"  {size_text(parts[part]):>10}" for parts in forms.values()))
    return Exit.OK


def _joined(sizes: list[Size]) -> Size:
    """Return the size of all the files of a set."""
    features = max(size.n_features for size in sizes)
    return sizes[0]._replace(
        n_samples=sum(size.n_samples for size in sizes),
        n_features=features,
        nnz=sum(features * size.n_samples if size.is_dense else size.nnz for size in sizes),
        value_bytes=max(size.value_bytes for size in sizes),
        rounded=any(size.rounded for size in sizes),
        columns=max(size.columns for size in sizes),
    )


def rank_bytes(size: Size, options: TrainOptions, ranks: int) -> dict[str, dict[str, int]]:
    """Return the bytes of a rank on CPUs by form of the weights and by part, at most.

    How many columns the rows of a rank touch is not known: no more than it has nonzeros.
    """
    rows, nnz = -(-size.n_samples // ranks), -(-size.nnz // ranks)
    touched = min(size.n_features, nnz)
    weights = size.n_features * size.columns
    own = -(-weights // ranks)

    def parts(columns: int, vectors: int, width: int) -> dict[str, int]:
        X = _matrix_bytes(size._replace(n_samples=rows, n_features=columns, nnz=nnz))
        vectors += _row_bytes(size._replace(n_samples=rows), options, climbs=False)
        return {**X, "vectors": vectors, "bundle": _bundle_bytes(options, width, 8, CUT_BYTES)}

    cut = own if _is_plain(options) else weights
    forms = {"replicated": parts(size.n_features, weight_bytes(weights, ranks), cut)}
    if why_not_owned(options.reg, positive=options.positive, feature_lambda=None) is None:
        vectors = weight_bytes(weights, ranks, touched * size.columns)
        forms["owned"] = parts(touched, vectors, own)
    return forms


def measure(options: TrainOptions) -> Size:
    """Count rows, columns and nonzeros; text is read in chunks and forgotten."""
    zero_based, auto = ZERO_BASED[options.zero_based], options.dtype == AUTO
    dtype = np.dtype(first_type(options) if auto else options.dtype)
    several = LOSSES[options.loss].several
    labels: set[float] = set()
    if not is_text(options.data):
        data = read_data(
            options.data,
            n_features=options.n_features,
            dtype=DOUBLE if auto else dtype,
            threads=options.threads,
        )
        if several and data.y is not None:
            labels |= _labels(data.y)
        X, columns = data.X, len(labels) or 1
        if not isinstance(X, Csr):
            found = Size(X.shape[0], X.shape[1], X.size, dtype.itemsize, True, columns)
            return _settled(found, options, _change(X))
        found = Size(X.shape[0], X.shape[1], X.nnz, 0 if X.data is None else dtype.itemsize, False, columns)
        return _settled(found, options, _change(X.data))
    rows = features = nnz = value_bytes = change = 0
    for X, y in iter_svmlight(
        options.data,
        n_features=options.n_features,
        zero_based=zero_based,
        dtype=DOUBLE if auto else dtype,
        threads=options.threads,
    ):
        rows += X.shape[0]
        features = max(features, X.shape[1])
        nnz += X.nnz
        value_bytes = max(value_bytes, 0 if X.data is None else dtype.itemsize)
        change = max(change, _change(X.data))
        if several:
            labels |= _labels(y)
    return _settled(Size(rows, features, nnz, value_bytes, False, len(labels) or 1), options, change)


def _change(values: NDArray[Any] | None) -> int:
    """Tell what float32 makes of values: 0 nothing, 1 it rounds some, 2 it cannot hold them."""
    if values is None:
        return 0
    with np.errstate(over="ignore"):
        single = values.astype(SINGLE)
    return 0 if np.array_equal(single, values) else 1 + (not np.isfinite(single).all())


def _settled(size: Size, options: TrainOptions, change: int) -> Size:
    """Return the size with values as training stores them, after what float32 makes of those of the data."""
    if options.dtype != AUTO or size.value_bytes != np.dtype(SINGLE).itemsize:
        return size
    size = size._replace(rounded=change > 0)
    plain_folds = options.validates and not options.has_grid and options.calibrate is None
    return _in_full(size) if change > 1 or (change and plain_folds) else size


def _labels(y: Labels) -> set[float]:
    """Return the labels that occur."""
    return set(np.unique(y).tolist()) if isinstance(y, np.ndarray) else {label for row in y for label in row}


def part_bytes(size: Size, options: TrainOptions) -> dict[str, int]:
    """Return bytes by part; the bundle grows up to what is given here."""
    shape, width = (size.n_samples, size.n_features), size.n_features * size.columns
    # A text goes there before its columns are known.
    landed = is_text(options.data) and options.gpu_mem is None
    if wants_gpu(options.device, size.nnz, None if landed else size.n_features):
        stored = choose_gpu_dtype(np.dtype(f"f{size.value_bytes}") if size.value_bytes else None, options.tol)
        entry, values = stored.itemsize, stored.itemsize if size.value_bytes else 0
        nnz = None if size.is_dense else size.nnz
        plan = plan_memory(shape, nnz, values, entry, options.gpu_mem, device_number(options.device))
        parts = {ON_GPU: plan.resident, STREAMED: plan.streamed, "vectors": plan.vectors}
        room = room_for_cuts(plan.left, shape, entry)
    else:
        room, entry, climbs = CUT_BYTES, 8, _climbs(size, options)
        vectors = _row_bytes(size, options, climbs) + weight_bytes(width, 1)
        parts = {**_matrix_bytes(size), "vectors": vectors}
        margins = size.n_samples * size.columns
        if climbs and row_space.pays(margins, width):
            width = 2 * (margins + 1)
    return {**parts, "bundle": _bundle_bytes(options, width, entry, room)}


def _is_plain(options: TrainOptions) -> bool:
    """Whether the penalty is ``lam/2 |w|^2``."""
    given = options.feature_lambda is not None or options.prior is not None
    return options.reg == "l2" and not options.positive and not given


def _climbs(size: Size, options: TrainOptions) -> bool:
    """Whether training on the CPU may climb the dual."""
    loss = LOSSES[options.loss]()
    asked = options.solver == "ocas" and options.cuts_per_pass == "auto"
    if not (asked and loss.has_dual and _is_plain(options)):
        return False
    threads = options.threads or default_threads(size.nnz)
    return is_wide((size.n_samples, size.n_features), size.nnz, size.columns, threads)


def _row_bytes(size: Size, options: TrainOptions, climbs: bool) -> int:
    """Return the bytes of all vectors over rows."""
    joint = issubclass(LOSSES[options.loss], JointLoss)
    margin = JOINT_MARGIN if joint else MARGIN + (MARGIN_BYTES if climbs else 0)
    return size.n_samples * size.columns * margin


def _matrix_bytes(size: Size) -> dict[str, int]:
    """Return the bytes of X in main memory, and of its transpose."""
    if size.is_dense:
        return {"X": size.nnz * size.value_bytes, "X^T": 0}
    shape = size.n_samples, size.n_features, size.nnz, size.value_bytes
    X, both = (Matrix.predict_bytes(*shape, transpose=transpose) for transpose in (False, True))
    return {"X": X, "X^T": both - X}


def _bundle_bytes(options: TrainOptions, weights: int, entry: int, room: int) -> int:
    """Return the bytes of as many cuts of so many weights as are kept."""
    groups = options.cuts_per_pass if isinstance(options.cuts_per_pass, int) else MAX_BLOCKS
    cuts = options.max_cuts or max(4 * groups, min(MAX_CUTS, room // (entry * weights)))
    return cuts * (entry * weights + 8 * cuts)
