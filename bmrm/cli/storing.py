"""The type in which ``bmrm-train`` stores values: options become arguments of `bmrm.linear.storage`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from bmrm.cli.loading import load
from bmrm.linear.storage import AUTO, DOUBLE, read_as
from bmrm.linear.storage import first_type as choose_first
from bmrm.losses import LOSSES

if TYPE_CHECKING:
    from bmrm.cli.train_options import TrainOptions
    from bmrm.distributed import Group
    from bmrm.matrix.dataset import Dataset

Loaded = TypeVar("Loaded")


def first_type(options: TrainOptions, group: Group | None = None, start: object = None) -> str:
    """Return the type in which values are stored first; ``start`` is that of training."""
    return choose_first(
        options.data,
        options.dtype,
        LOSSES[options.loss],
        alone=group is None,
        cache=options.cache,
        start=start,
        name="--dtype",
    )


def loaded(how: Callable[[TrainOptions], Loaded], options: TrainOptions, dtype: str) -> Loaded:
    """Load data with values of a type, or of float64 if float32 cannot hold them."""
    return read_as(lambda kind: how(dataclasses.replace(options, dtype=kind)), dtype, asked=options.dtype)


def load_first(options: TrainOptions, dtype: str, group: Group | None) -> Dataset:
    """Read the data and make the resident data set."""
    dataset = loaded(lambda given: load(given, group), options, dtype)
    if dataset.rounded and hasattr(dataset, "wanted_by"):
        dataset.wanted_by = "all"  # training in float64 would continue from the weights on all ranks
    return dataset


def load_exactly(options: TrainOptions) -> Dataset:
    """Load data with the exact values of the file, unless the options request float32."""
    dataset = loaded(load, options, first_type(options))
    if options.dtype == AUTO and dataset.rounded:
        del dataset
        return load(dataclasses.replace(options, dtype=DOUBLE))
    return dataset
