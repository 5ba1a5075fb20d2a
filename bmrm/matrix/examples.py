"""The data of a structured loss: pairs of inputs and outputs, without a matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bmrm.base.arguments import sequence
from bmrm.base.vectors import freeze
from bmrm.errors import DataError
from bmrm.matrix.row_weights import row_weights


class Examples:
    """Inputs and outputs for a structured loss; the counterpart of `Dataset` for other losses.

    `bmrm.solve` builds one from its X and y. If you build it once and pass it as X, warm starts and
    `bmrm.path` can reuse cuts.

    Parameters
    ----------
    inputs, outputs : sequence of objects
        The x and y that the oracle gets. The objects must not change while the examples, or a result trained
        on them, are in use.
    n_features : int
        Number of features of the oracle.
    sample_weight : array_like of shape (n_samples,), optional
        Nonnegative; an example of weight 0 is ignored.

    Raises
    ------
    DataError
        If there are no examples, the numbers of inputs and outputs differ, or the weights do not match.

    Examples
    --------
    >>> from bmrm.matrix.examples import Examples
    >>> Examples(["a b", "c"], ["XY", "Z"], 10).shape
    (2, 10)
    """

    device, resolution, longest, threads = "cpu", 0.0, 1, 1
    matrix, offset, groups, zero_based, feature_names = None, None, None, None, None

    def __init__(
        self, inputs: Sequence[Any], outputs: Sequence[Any], n_features: int, *, sample_weight: Any = None
    ) -> None:
        found = [
            0 if side is None else len(sequence(f"examples: {what}", side))
            for what, side in (("inputs", inputs), ("outputs", outputs))
        ]
        if found[0] != found[1] or not found[0]:
            raise DataError(
                f"examples: found {found[0]} inputs and {found[1]} outputs, expected equal numbers above 0"
            )
        self.y = list(zip(inputs, outputs, strict=True))
        self.shape = (len(self.y), n_features)
        weights = row_weights(None, len(self.y), sample_weight)
        self.weights = freeze(np.ones(len(self.y)) if weights is None else weights)

    @property
    def nnz(self) -> int:
        """Number of stored values: 0, since there is no matrix."""
        return 0

    @property
    def total_weight(self) -> float:
        """Sum of the weights."""
        return float(self.weights.sum())
