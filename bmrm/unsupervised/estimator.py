"""What estimators of rows share: rows that a fitted model is applied to."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from bmrm.base.estimator import Estimator
from bmrm.distributed.row_set import read_matrix
from bmrm.io.csr import Csr
from bmrm.matrix.gpu.device_arrays import read_back


class RowEstimator(Estimator):
    """An estimator of rows, which a fitted model can be applied to."""

    def _read_new(self, X: Any) -> Csr | NDArray[Any]:
        """Validate rows that a fitted model is applied to; those on a GPU are copied to the host."""
        self._check_fitted()
        found = read_matrix(read_back(X))
        self._check_columns(X, found.shape[1])
        return found
