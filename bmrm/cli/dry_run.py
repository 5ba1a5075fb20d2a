"""``bmrm-train --dry-run``: the memory that training will take, found in bounded memory."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from bmrm import losses
from bmrm.base.progress import print_notice
from bmrm.base.units import size_text
from bmrm.cli.exits import Exit, reading
from bmrm.cli.loading import LABEL_SET_TASKS, ZERO_BASED, label_kind, read, split_texts
from bmrm.cli.storing import AUTO, DOUBLE, SINGLE, first_type
from bmrm.distributed.weight_layout import why_not_owned
from bmrm.errors import ParameterError
from bmrm.io import Csr, Labels, is_text, iter_svmlight
from bmrm.linear import regularizers
from bmrm.linear.intercept import intercept_of, operator_of
from bmrm.linear.memory import ON_GPU, STREAMED, GpuMemory, MatrixSize
from bmrm.linear.plan import Facts, Plan, PlanOptions, make_plan
from bmrm.matrix.gpu.devices import parse_device
from bmrm.matrix.gpu.memory import plan_memory, room_for_cuts
from bmrm.matrix.resident import check_shape, choose_gpu_dtype, default_threads, wants_gpu
from bmrm.matrix.row_weights import lam_from_c

if TYPE_CHECKING:
    from bmrm.cli.options import TrainOptions
    from bmrm.distributed import Group
    from bmrm.matrix.resident import Matrix


NO_CHEAP_HESSIAN = 1e300
"""Multiply-adds of a Hessian that nobody has counted."""


class Size(NamedTuple):
    """What is measured of the data."""

    n_samples: int
    n_features: int
    nnz: int
    value_bytes: int  # 0 if every value is 1
    is_dense: bool
    columns: int = 1  # those of the weights: the labels found, for a loss with a margin for each of them
    rounded: bool = False  # some value would be rounded, so that training may come to store float64
    gram_work: float = NO_CHEAP_HESSIAN
    """Multiply-adds of ``X' diag(s) X``, as a matrix on the CPU counts them."""
    squares: float | None = None  # sum of the squares of all values; None if nobody has looked


class MeasuredMatrix(NamedTuple):
    """What a plan asks of X, in the place of X."""

    shape: tuple[int, int]
    nnz: int
    weighted_gram_work: float


def dry_run(options: TrainOptions, group: Group | None = None) -> int:
    """Print the size of the problem and the bytes of X and of a full bundle."""
    if group is not None:
        return _dry_run_of_ranks(options, group)
    with reading(options.data):
        size = measure(options)
    check_shape((size.n_samples, size.n_features))
    plan = plan_of(size, options)
    parts = dict(plan.memory)
    parts["total"] = sum(parts.values())
    most = sum(plan_of(_in_full(size), options).memory.values())
    if options.verbose >= 2:
        for line in plan.lines():
            print_notice(f"plan: {line}")
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
            print(f"{size_text(most)} in all if float32 rounds the values too much")
    return Exit.OK


def _in_full(size: Size) -> Size:
    """Return the size with values that training may come to store."""
    return size._replace(value_bytes=np.dtype(DOUBLE).itemsize) if size.rounded else size


def _dry_run_of_ranks(options: TrainOptions, group: Group) -> int:
    """Print the bytes of each rank, for either layout of the weights that the options allow."""
    from bmrm.cli.ranks import fail_together, is_first
    from bmrm.distributed.files import find_paths

    size, layouts = Size(0, 0, 0, 0, False), {}
    with fail_together(group):
        if is_first(group):
            with reading(options.data):
                names = find_paths(options.data)
                size = _joined([measure(replace(options, data=name)) for name in names])
            check_shape((size.n_samples, size.n_features))
            if wants_gpu(options.device, size.nnz // group.size):
                raise ParameterError("--dry-run: covers several ranks on CPUs only; give --device cpu")
            layouts = rank_bytes(_in_full(size), options, group.size)
    if not is_first(group):
        return Exit.OK
    for parts in layouts.values():
        parts["total"] = sum(parts.values())
    if options.json:
        sizes = {"n_samples": size.n_samples, "n_features": size.n_features, "nnz": size.nnz}
        print(
            json.dumps({**sizes, "ranks": group.size, "bytes_a_rank": layouts, "options": options.as_dict()})
        )
        return Exit.OK
    print(
        f"{size.n_samples} rows, {size.n_features} features, {size.nnz} nonzeros; at most, on each of "
        f"{group.size} ranks, with the weights"
    )
    first = next(iter(layouts.values()))
    print(f"{'':7}" + "".join(f"  {layout:>10}" for layout in layouts))
    for part in first:
        print(f"{part:<7}" + "".join(f"  {size_text(parts[part]):>10}" for parts in layouts.values()))
    return Exit.OK


def _joined(sizes: list[Size]) -> Size:
    """Return the size of all the files of a set."""
    features = max(size.n_features for size in sizes)
    squares = [size.squares for size in sizes if size.squares is not None]
    return sizes[0]._replace(
        n_samples=sum(size.n_samples for size in sizes),
        n_features=features,
        nnz=sum(features * size.n_samples if size.is_dense else size.nnz for size in sizes),
        value_bytes=max(size.value_bytes for size in sizes),
        rounded=any(size.rounded for size in sizes),
        columns=max(size.columns for size in sizes),
        gram_work=sum(size.gram_work for size in sizes),
        squares=sum(squares) if len(squares) == len(sizes) else None,
    )


def rank_bytes(size: Size, options: TrainOptions, ranks: int) -> dict[str, dict[str, int]]:
    """Return the bytes of a rank on CPUs by layout of the weights and by part, at most.

    How many columns the rows of a rank touch is not known: no more than it has nonzeros.
    """
    rows, nnz = -(-size.n_samples // ranks), -(-size.nnz // ranks)
    facts = replace(_facts(size, options), ranks=ranks)
    here = MatrixSize(rows, size.n_features, nnz, size.value_bytes, size.is_dense)
    plans = {"replicated": replace(facts, size=here)}
    if why_not_owned(options.reg, positive=options.positive, feature_lambda=None) is None:
        touched = here._replace(columns=min(size.n_features, nnz))
        plans["owned"] = replace(facts, size=touched, owned=True)
    asked = _plan_options(options)
    return {layout: dict(make_plan(known, asked).memory) for layout, known in plans.items()}


def measure(options: TrainOptions) -> Size:
    """Count rows, columns and nonzeros; text is read in chunks and forgotten."""
    zero_based, auto = ZERO_BASED[options.zero_based], options.dtype == AUTO
    dtype = np.dtype(first_type(options) if auto else options.dtype)
    loss = losses.LOSSES[options.loss]
    several = loss.several
    labels: set[Any] = set()
    if not _is_text(options):
        data = read(replace(options, dtype=DOUBLE if auto else dtype.name, cache=False))
        if several and data.y is not None:
            labels |= _labels(data.y)
        X, columns = data.X, len(labels) or 1
        if not isinstance(X, Csr):
            m, d = X.shape
            work, squares = m * d * d / 16, _squares(X)
            found = Size(m, d, X.size, dtype.itemsize, True, columns, gram_work=work, squares=squares)
            return _settled(found, options, _change(X))
        value_bytes = 0 if X.data is None else dtype.itemsize
        found = Size(*X.shape, X.nnz, value_bytes, False, columns)
        found = found._replace(gram_work=_gram_work(X), squares=_squares(X.data, X.nnz))
        return _settled(found, options, _change(X.data))
    rows = features = nnz = value_bytes = change = 0
    gram_work = squares = 0.0
    for X, y in iter_svmlight(
        options.data,
        n_features=options.n_features,
        zero_based=zero_based,
        dtype=DOUBLE if auto else dtype,
        threads=options.threads,
        labels=label_kind(options.text_labels),
    ):
        rows += X.shape[0]
        features = max(features, X.shape[1])
        nnz += X.nnz
        value_bytes = max(value_bytes, 0 if X.data is None else dtype.itemsize)
        change = max(change, _change(X.data))
        gram_work, squares = gram_work + _gram_work(X), squares + _squares(X.data, X.nnz)
        if several:
            labels |= _labels(split_texts(y) if loss.task in LABEL_SET_TASKS else y)
    found = Size(rows, features, nnz, value_bytes, False, len(labels) or 1)
    return _settled(found._replace(gram_work=gram_work, squares=squares), options, change)


def _gram_work(X: Csr) -> float:
    """Return what a sparse matrix on the CPU counts for ``X' diag(s) X``: each row times itself."""
    lengths = np.diff(X.indptr).astype(np.float64)
    return float((lengths * (lengths + 1.0)).sum() / 2.0)


def _squares(values: NDArray[Any] | None, nnz: int = 0) -> float:
    """Return the sum of the squares of the stored values; they are ones if there are none."""
    if values is None:
        return float(nnz)
    with np.errstate(over="ignore"):
        return float(np.square(values, dtype=np.float64).sum())


def _change(values: NDArray[Any] | None) -> int:
    """Return what float32 makes of values: 0 nothing, 1 it rounds some, 2 it cannot hold them."""
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


def _labels(y: Labels) -> set[Any]:
    return set(np.unique(y).tolist()) if isinstance(y, np.ndarray) else {label for row in y for label in row}


def _is_text(options: TrainOptions) -> bool:
    """Return whether the data are SVMlight text."""
    table = options.label is not None or options.drop or options.format not in ("auto", "svmlight")
    return not table and is_text(options.data)


def plan_of(size: Size, options: TrainOptions) -> Plan:
    """Return the plan of training in one process; its bundle may grow up to what the plan says."""
    # A text goes to the GPU before its columns are known.
    landed = _is_text(options) and options.gpu_mem is None
    if not wants_gpu(options.device, size.nnz, None if landed else size.n_features):
        return make_plan(_facts(size, options), _plan_options(options))
    facts = _facts(size._replace(gram_work=np.inf), options)  # the host forms none
    facts = replace(facts, device="gpu", gpu=_gpu_memory(size, options), can_solve_on_gpu=True)
    return make_plan(facts, _plan_options(options))


def _facts(size: Size, options: TrainOptions) -> Facts:
    """Return what a plan rests on, of training in one process on the CPU."""
    loss = losses.LOSSES[options.loss]()
    penalised = options.bias > 0
    intercept = intercept_of(
        loss,
        fit=options.intercept or penalised,
        penalize=penalised,
        scaling=options.bias if penalised else 1.0,
    )
    X = MeasuredMatrix((size.n_samples, size.n_features), size.nnz, size.gram_work)
    squares, one_block = size.squares, not (loss.by_rows or loss.needs_groups)
    weighted = options.sample_weight is not None or options.class_weight is not None
    strength_is_known = options.cost is None or not weighted
    return Facts(
        operator_of(cast("Matrix", X), loss, size.columns, intercept),
        MatrixSize(size.n_samples, size.n_features, size.nnz, size.value_bytes, size.is_dense),
        size.n_samples,
        loss,
        _kind_of_penalty(size, options),
        intercept,
        threads=options.threads or default_threads(size.nnz),
        max_blocks=1 if one_block else None,
        row_square=None if squares is None or not strength_is_known else lambda: squares / size.n_samples,
    )


def _kind_of_penalty(size: Size, options: TrainOptions) -> regularizers.Regularizer:
    """Return the penalty as it would be of a single feature."""
    return regularizers.get(
        options.reg,
        options.lam if options.cost is None else lam_from_c(options.cost, size.n_samples),
        1,
        l1_ratio=options.l1_ratio if options.reg == "elastic_net" else None,
        positive=options.positive,
        feature_lambda=None if options.feature_lambda is None else [1.0],
        prior=None if options.prior is None else [0.0],
    )


def _gpu_memory(size: Size, options: TrainOptions) -> GpuMemory:
    shape = size.n_samples, size.n_features
    stored = choose_gpu_dtype(np.dtype(f"f{size.value_bytes}") if size.value_bytes else None, options.tol)
    item, values = stored.itemsize, stored.itemsize if size.value_bytes else 0
    nnz = None if size.is_dense else size.nnz
    found = plan_memory(shape, nnz, values, item, options.gpu_mem, parse_device(options.device) or 0)
    return GpuMemory(
        found.resident, found.streamed, found.vectors, room_for_cuts(found.left, shape, item), item
    )


def _plan_options(options: TrainOptions) -> PlanOptions:
    relative_tol = options.tol if options.tol_kind == "rel" else None
    return PlanOptions(options.solver, options.cuts_per_pass, options.max_cuts, tol=relative_tol)
