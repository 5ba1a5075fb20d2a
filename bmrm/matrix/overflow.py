"""Find the number in the data that made a sum overflow."""

from __future__ import annotations

import numpy as np

from bmrm.base.vectors import Vector
from bmrm.errors import BmrmError, DataError
from bmrm.matrix.dataset import Dataset
from bmrm.matrix.examples import Examples

MAX_MAGNITUDE = 1e150
"""Maximum absolute value of data: beyond it the squared norm of a gradient can overflow float64."""

_TOO_LARGE = f"expected an absolute value of at most {MAX_MAGNITUDE:g}"


def explain_overflow(fault: BmrmError, data: Dataset | Examples, labels: Vector) -> BmrmError:
    """Return an error that names the value, label or offset that is too large; the fault if there is none.

    For example, public ranking data have 1.8e308 for missing values.
    """
    if isinstance(data, Examples) or data.group is not None or isinstance(fault, MemoryError):
        return fault
    squares = data.matrix.mean_squares
    column = int(np.argmax(squares))
    if not squares[column] * data.shape[0] < MAX_MAGNITUDE**2:  # NaN also means that a sum overflowed
        one = np.zeros(data.shape[1])
        one[column] = 1.0
        values = data.margins(one)
        row = int(np.argmax(np.abs(values)))
        feature = column + (1 if data.zero_based is None else 1 - data.zero_based)
        return DataError(f"X: row {row + 1} has {values[row]:g} in feature {feature}, {_TOO_LARGE} ({fault})")
    if labels.ndim == 1 and labels.size and np.abs(labels).max() > MAX_MAGNITUDE:
        row = int(np.argmax(np.abs(labels)))
        return DataError(f"labels: row {row + 1} has {labels[row]:g}, {_TOO_LARGE} ({fault})")
    if data.offset is not None and np.abs(data.offset).max() > MAX_MAGNITUDE:
        row = int(np.argmax(np.abs(data.offset).reshape(len(data.offset), -1).max(axis=1)))
        return DataError(f"offset: row {row + 1} has {data.offset[row]}, {_TOO_LARGE} ({fault})")
    return fault
