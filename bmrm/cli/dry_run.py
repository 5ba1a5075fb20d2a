"""``bmrm-train --dry-run``: the memory that training will take, found in bounded memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bmrm import losses
from bmrm.base.distinct import distinct_values
from bmrm.base.progress import print_notice
from bmrm.base.units import size_text
from bmrm.cli.exits import Exit, reading
from bmrm.cli.loading import LABEL_SET_TASKS, ZERO_BASED, label_kind, read, split_texts
from bmrm.cli.storing import first_type
from bmrm.distributed.weight_layout import why_not_owned
from bmrm.errors import ParameterError
from bmrm.io import Labels, is_text, iter_svmlight
from bmrm.linear import regularizers
from bmrm.linear.backends.facts import by_layout, measured_facts, on_gpu
from bmrm.linear.intercept import intercept_of
from bmrm.linear.memory import ON_GPU, STREAMED, MeasuredRows, join_rows, measure_rows
from bmrm.linear.plan import Facts, Plan, PlanOptions, make_plan
from bmrm.linear.storage import AUTO, DOUBLE
from bmrm.matrix.resident import check_shape, wants_gpu
from bmrm.matrix.row_storage import storage_rule
from bmrm.matrix.row_weights import lam_from_c

if TYPE_CHECKING:
    from bmrm.cli.train_options import TrainOptions
    from bmrm.distributed import Group


def dry_run(options: TrainOptions, group: Group | None = None) -> int:
    """Print the size of the problem and the bytes of X and of a full bundle."""
    if group is not None:
        return _dry_run_of_ranks(options, group)
    with reading(options.data):
        size = measure(options)
    check_shape(size.shape)
    plan = plan_of(size, options)
    parts = dict(plan.memory)
    parts["total"] = sum(parts.values())
    most = sum(plan_of(size.in_full(), options).memory.values())
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


def _dry_run_of_ranks(options: TrainOptions, group: Group) -> int:
    """Print the bytes of each rank, for either layout of the weights that the options allow."""
    from bmrm.cli.ranks import fail_together, is_first
    from bmrm.distributed.files import find_paths

    size, layouts = MeasuredRows(0, 0, 0, 0, False), {}
    with fail_together(group):
        if is_first(group):
            with reading(options.data):
                names = find_paths(options.data)
                size = join_rows([measure(replace(options, data=name)) for name in names])
            check_shape(size.shape)
            if wants_gpu(options.device, size.nnz // group.size):
                raise ParameterError("--dry-run: covers several ranks on CPUs only; give --device cpu")
            layouts = rank_bytes(size.in_full(), options, group.size)
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


def rank_bytes(rows: MeasuredRows, options: TrainOptions, ranks: int) -> dict[str, dict[str, int]]:
    """Return the bytes of a rank on CPUs by layout of the weights and by part, at most."""
    why_not = why_not_owned(options.reg, positive=options.positive, feature_lambda=None)
    plans = by_layout(_facts(rows, options), rows, ranks, may_own=why_not is None)
    asked = _plan_options(options)
    return {layout: dict(make_plan(known, asked).memory) for layout, known in plans.items()}


def measure(options: TrainOptions) -> MeasuredRows:
    """Count rows, columns and nonzeros; text is read in chunks and forgotten."""
    auto = options.dtype == AUTO
    item = np.dtype(first_type(options) if auto else options.dtype).itemsize
    loss = losses.LOSSES[options.loss]
    labels: set[Any] = set()
    rule, parts = storage_rule(options.storage, options.device), []
    for X, y in _chunks(options, DOUBLE if auto else options.dtype):
        parts.append(measure_rows(X, item))
        if loss.several and y is not None:
            labels |= _labels(split_texts(y) if loss.task in LABEL_SET_TASKS else y)
    found = join_rows(parts or [MeasuredRows(0, 0, 0, 0, False)])._replace(columns=len(labels) or 1)
    if _is_text(options):
        found = found.in_storage(rule.choose(found.n_samples, found.nnz, found.n_features, item), item)
    plain_folds = options.validates and not options.has_grid and options.calibrate is None
    return found.in_single(exact=plain_folds) if auto else found


def _chunks(options: TrainOptions, dtype: str) -> Iterator[tuple[Any, Labels | None]]:
    """Read the rows, text some at a time."""
    if not _is_text(options):
        data = read(replace(options, dtype=dtype, cache=False))
        yield data.X, data.y
        return
    yield from iter_svmlight(
        options.data,
        n_features=options.n_features,
        zero_based=ZERO_BASED[options.zero_based],
        dtype=dtype,
        threads=options.threads,
        labels=label_kind(options.text_labels),
    )


def _labels(y: Labels) -> set[Any]:
    if isinstance(y, np.ndarray):
        return set(distinct_values(y).tolist())
    return {label for row in y for label in row}


def _is_text(options: TrainOptions) -> bool:
    """Return whether the data are SVMlight text."""
    table = options.label is not None or options.drop or options.format not in ("auto", "svmlight")
    return not table and is_text(options.data)


def plan_of(rows: MeasuredRows, options: TrainOptions) -> Plan:
    """Return the plan of training in one process; its bundle may grow up to what the plan says."""
    facts = _facts(rows, options)
    # Sparse rows of a text go to the GPU before their columns are known.
    landed = _is_text(options) and options.gpu_mem is None and not rows.is_dense
    if wants_gpu(options.device, rows.nnz, None if landed else rows.n_features):
        facts = on_gpu(facts, rows, tol=options.tol, limit=options.gpu_mem, device=options.device)
    return make_plan(facts, _plan_options(options))


def _facts(rows: MeasuredRows, options: TrainOptions) -> Facts:
    """Return what a plan rests on, of training in one process on the CPU."""
    loss = losses.LOSSES[options.loss]()
    penalised = options.bias > 0
    intercept = intercept_of(
        loss,
        fit=options.intercept or penalised,
        penalize=penalised,
        scaling=options.bias if penalised else 1.0,
    )
    weighted = options.sample_weight is not None or options.class_weight is not None
    return measured_facts(
        rows,
        loss,
        _kind_of_penalty(rows, options),
        intercept,
        threads=options.threads,
        mean_is_known=options.cost is None or not weighted,
    )


def _kind_of_penalty(size: MeasuredRows, options: TrainOptions) -> regularizers.Regularizer:
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


def _plan_options(options: TrainOptions) -> PlanOptions:
    relative_tol = options.tol if options.tol_kind == "rel" else None
    return PlanOptions(options.solver, options.cuts_per_pass, options.max_cuts, tol=relative_tol)
