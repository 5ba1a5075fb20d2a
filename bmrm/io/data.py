"""The content of a data file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmrm.io.csr import Csr
from bmrm.io.row_storage import StorageChoice

Labels = NDArray[np.float64] | NDArray[np.str_] | list[tuple[float, ...]]


@dataclass
class Data:
    r"""Features, labels and groups of a data file.

    Attributes
    ----------
    X : Csr or ndarray, shape (rows, columns)
        Features: sparse, or a dense array if the file holds one.
    y : ndarray of float64 or str, shape (rows,), or list of tuples of float, or None
        Labels; tuples if some row has several; None if the format has no labels.
    qid : ndarray of int64, shape (rows,), or None
        Query of each row, if requested.
    zero_based : bool or None
        Whether column 0 was written as 0 (True) or 1 (False); None if the format fixes the base.
    seconds : dict
        Seconds spent on ``"parse"`` and ``"cache"``.
    from_cache : bool
        Whether the arrays come from the binary cache.
    dtype : {"float32", "float64"}, or None
        Type in which values were read; values that are all 1 are not stored. None if that is not known.
    rounded : bool
        Whether rounding to float32 changed some value of X from the float64 that the file means.
    negative : bool
        Whether some value may be below 0; True if that was not checked.
    checksum : str or None
        Of a regular file of text, 16 hexadecimal digits: that of 16 pieces spread over the file.
    feature_names : tuple of str, or None
        Names of the columns of X, if the format has names.
    offset : ndarray of float64, shape (rows,), or None
        Offsets of the rows, if a column of a table was named.
    storage : bmrm.io.row_storage.StorageChoice, or None
        Why the rows of a text are sparse or dense; None for other formats.

    Examples
    --------
    >>> import os, tempfile
    >>> from bmrm import io
    >>> path = os.path.join(tempfile.mkdtemp(), "a.svm")
    >>> with open(path, "w") as file:
    ...     _ = file.write("1 1:0.5 3:2\n-1 2:1\n")
    >>> data = io.read_data(path)
    >>> data.shape, data.y, data.zero_based
    ((2, 3), array([ 1., -1.]), False)
    """

    X: Csr | NDArray[Any]
    y: Labels | None
    qid: NDArray[np.int64] | None = None
    zero_based: bool | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    from_cache: bool = False
    dtype: str | None = None
    rounded: bool = False
    negative: bool = True
    checksum: str | None = None
    feature_names: tuple[str, ...] | None = None
    offset: NDArray[np.float64] | None = None
    storage: StorageChoice | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and columns."""
        rows, columns = self.X.shape
        return rows, columns
