"""What estimators of rows share: rows that a fitted model is applied to."""

from __future__ import annotations

from typing import Any

from bmrm.base.estimator import Estimator
from bmrm.distributed.reading import read_new_rows
from bmrm.distributed.rows import StoredRows


class RowEstimator(Estimator):
    """An estimator of rows, which a fitted model can be applied to."""

    def _read_new(self, X: Any) -> StoredRows:
        """Validate rows that a fitted model is applied to, in main memory."""
        self._check_fitted()
        found = read_new_rows(X)
        self._check_columns(X, found.shape[1])
        return found
