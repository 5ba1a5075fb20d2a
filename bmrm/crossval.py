"""K-fold cross validation on one resident data set.

The matrix is uploaded once and never split: a fold is held out by giving its rows weight 0, which leaves
the risk of the others exactly what it would be without them.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from bmrm import losses, metrics
from bmrm.dataset import Dataset
from bmrm.errors import DataError, ParameterError
from bmrm.labels import encode
from bmrm.losses import Loss
from bmrm.result import Result
from bmrm.training import solve


@dataclass(frozen=True)
class CrossValidation:
    """What cross validation finds.

    Attributes
    ----------
    metrics : dict
        Metrics of the predictions of all rows, each by the model that has not seen it; see `bmrm.metrics`.
    results : list of Result
        One a fold.
    values : ndarray of float64, shape (n_samples,), or (n_samples, K) for K classes
        The decision values that the metrics were taken of.
    """

    metrics: dict[str, float | int | None]
    results: list[Result] = field(repr=False)
    values: npt.NDArray[np.float64] = field(repr=False)


def cross_validate(
    data: Dataset, folds: int, *, loss: str | Loss = "hinge", seed: int = 0, **options: Any
) -> CrossValidation:
    """Train on all folds but one, predict that one, for each fold.

    Parameters
    ----------
    data : Dataset
    folds : int
        At least 2, at most the number of rows. Each has the classes in the proportions of the data.
    loss : str or Loss, default "hinge"
    seed : int, default 0
        Of the shuffle that deals rows to folds.
    **options
        Of `bmrm.solve`.

    Returns
    -------
    CrossValidation

    Raises
    ------
    ParameterError
        ``folds`` or an option is out of its range.
    DataError
        Labels or weights that cannot be used; see `Dataset`.
    KeyboardInterrupt
        A fold was interrupted: what is known of the others is no cross validation.

    Examples
    --------
    >>> import numpy as np
    >>> from bmrm import Dataset
    >>> X = np.array([[1.0], [2.0], [3.0], [-1.0], [-2.0], [-3.0]])
    >>> cross_validate(Dataset(X, [1, 1, 1, 0, 0, 0]), 3, lam=0.1).metrics["accuracy"]
    1.0
    """
    rows = data.shape[0]
    if not 2 <= folds <= rows:
        raise ParameterError(f"folds: found {folds}, expected 2 to the number of rows, {rows}")
    parameters = {name: options.pop(name) for name in (*losses.PARAMETERS, "costs") if name in options}
    chosen = losses.get(loss, **parameters)
    labels, classes = encode(data.y, rows, chosen)
    scores = metrics.for_task(
        chosen.task, None if classes is None else classes.tolist(), probabilities=chosen.name == "softmax"
    )
    values = np.empty(rows if classes is None or not chosen.several else (rows, len(classes)))
    results = []
    fold_of = deal(labels if chosen.task in ("binary", "multiclass") else None, rows, folds, seed)
    for fold in range(folds):
        held_out = fold_of == fold
        result = solve(_without(data, held_out), loss=chosen, **options)
        if result.status == "interrupted":
            raise KeyboardInterrupt
        product = data.matrix.matmat if chosen.several else data.matrix.matvec
        values[held_out] = (product(result.w) + result.intercept)[held_out]
        results.append(result)
    scores.update(values, _targets(data.y, labels, classes, chosen))
    return CrossValidation(scores.report(), results, values)


def deal(labels: npt.NDArray[np.float64] | None, rows: int, folds: int, seed: int) -> npt.NDArray[np.intp]:
    """Return the fold of each row: shuffled, then dealt like cards, class by class."""
    order = np.random.default_rng(seed).permutation(rows)
    if labels is not None:
        order = order[np.argsort(labels[order], kind="stable")]
    fold_of = np.empty(rows, np.intp)
    fold_of[order] = np.arange(rows) % folds
    return fold_of


def _targets(
    y: Any, labels: npt.NDArray[np.float64], classes: npt.NDArray[np.float64] | None, loss: Loss
) -> Any:
    """Return the labels as the metrics take them."""
    if loss.task == "novelty":
        return np.zeros(len(labels))
    if labels.ndim == 2 and classes is not None:
        return [tuple(classes[row > 0.0].tolist()) for row in labels]
    return np.asarray(y, np.float64)


def _without(data: Dataset, held_out: npt.NDArray[np.bool_]) -> Dataset:
    """Return the data with some rows' weights set to 0; the matrix is shared."""
    rest = copy.copy(data)
    weights = np.ones(data.shape[0]) if data.weights is None else data.weights
    rest.weights = np.where(held_out, 0.0, weights)
    if not rest.weights.any():
        raise DataError("sample weights: all rows outside a fold have weight 0")
    return rest
