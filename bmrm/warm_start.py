"""What a solve takes from earlier ones: a first point, a prior mean, cuts, a state on the disk."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmrm.bundle import Bundle
from bmrm.columns import Columns
from bmrm.dataset import Dataset, WithConstant
from bmrm.design import Intercept
from bmrm.device_steps import DeviceCuts
from bmrm.errors import DataError
from bmrm.io.checkpoint import Checkpoint
from bmrm.io.model import Model
from bmrm.losses import Loss
from bmrm.objective import Design
from bmrm.regularizers import Regularizer
from bmrm.result import Result
from bmrm.solver import BundleMethod
from bmrm.structured import Examples

Vector = NDArray[np.float64]

SAME_OBJECTIVE = 1e-6
"""Relative difference of objectives that rounding may make."""


def prior_mean(prior: Model | Result | Any, design: Design, columns: tuple[int, ...]) -> Any:
    """Return the prior mean of the weights, and of intercepts that are penalised."""
    if prior is None or not hasattr(prior, "intercept"):
        return prior
    if prior.w.shape[1:] != columns:
        wanted = f"{columns[0]} numbers" if columns else "a number"
        raise DataError(f"prior: found weights of shape {prior.w.shape}, expected {wanted} a feature")
    return design.joined(prior.w, prior.intercept) if isinstance(design, (WithConstant, Columns)) else prior.w


def first_point(
    warm_start: Result | Model | Checkpoint | Vector | None,
    design: Design,
    d: int,
    reg: Regularizer,
    columns: tuple[int, ...],
) -> Vector:
    """Choose the first point, of d weights."""
    if warm_start is None:
        return reg.start(d)
    shape = (d // columns[0], *columns) if columns else (d,)
    if isinstance(warm_start, (Result, Model, Checkpoint)):
        found = warm_start.model if isinstance(warm_start, Checkpoint) else warm_start
        w = found.w
        if w.ndim == len(shape) and w.shape[1:] == columns and isinstance(design, (WithConstant, Columns)):
            w = design.joined(w, found.intercept).reshape(-1, *columns)
    else:
        try:
            w = np.asarray(warm_start, np.float64)
        except (TypeError, ValueError) as error:
            raise DataError(f"warm_start: {error}; expected a Result, a Model or weights") from None
    if w.shape != shape or not np.isfinite(w).all():
        name = warm_start.path if isinstance(warm_start, Checkpoint) else "warm_start"
        raise DataError(f"{name}: found weights of shape {w.shape}, expected {shape} finite numbers")
    return reg.project(w.flatten())


def origin_of(
    data: Dataset | Examples,
    loss: Loss,
    reg: Regularizer,
    intercept: Intercept,
    *,
    on_device: bool,
    in_rows: bool,
) -> tuple[object, ...]:
    """Tell what the cuts of a bundle bound: they serve another solve only if all of this is the same."""
    return data, loss.key, *intercept, on_device, in_rows, reg.metric_key


def known_bundle(warm_start: object, origin: tuple[object, ...], blocks: int) -> Bundle | None:
    """Return the cuts of an earlier result where they still hold.

    These are a copy, but on a GPU, or where they were passed on, the cuts themselves.
    """
    if not isinstance(warm_start, Result):
        return None
    known = warm_start.bundle
    if known.origin != origin or known.groups != blocks or not len(known):
        return None
    themselves = known.passed_on or isinstance(known.store, DeviceCuts)
    return known if themselves else known.only(np.arange(len(known)))


def go_on(run: BundleMethod, checkpoint: Checkpoint, resolution: float) -> None:
    """Let a run count on from a checkpoint; raise where the objective says that the data are others."""
    certificate = checkpoint.model.certificate
    if certificate is None:
        raise DataError(f"{checkpoint.path}: has no certificate, expected that of a checkpoint")
    then, now = certificate.objective, run.best.objective
    if not abs(then - now) <= max(SAME_OBJECTIVE, 10.0 * resolution) * abs(now):
        raise DataError(f"{checkpoint.path}: has the objective {then:.9g}, found {now:.9g}: of other data")
    run.go_on(certificate.n_iter)
