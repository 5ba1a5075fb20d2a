"""What reading a data file gives."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmrm.io.csr import Csr

Labels = NDArray[np.float64] | list[tuple[float, ...]]


@dataclass
class Data:
    """Features, labels and groups of a data file.

    Attributes
    ----------
    X : Csr or ndarray, shape (rows, columns)
        Features: sparse, or a dense array where the file is one.
    y : ndarray of float64, shape (rows,), or list of tuples of float, or None
        Labels; tuples where some row has several; None where the format has no labels.
    qid : ndarray of int64, shape (rows,), or None
        Query of each row, where asked for.
    zero_based : bool or None
        Whether column 0 was written as 0 (True) or 1 (False); None where the format leaves no choice.
    seconds : dict
        Seconds spent by part: ``"parse"``, ``"cache"``.
    from_cache : bool
        Whether the arrays are those of the binary cache.
    rounded : bool
        Whether some value of X is not the number of the file, the float64 nearest to its decimals, but the
        float32 nearest to that.
    negative : bool
        Whether some value may be below 0; True where nobody has looked.
    """

    X: Csr | NDArray[Any]
    y: Labels | None
    qid: NDArray[np.int64] | None = None
    zero_based: bool | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    from_cache: bool = False
    rounded: bool = False
    negative: bool = True
