"""What estimators of rows share: rows that a fitted model is applied to."""

from __future__ import annotations

from typing import Any

from bmrm.base.estimator import Estimator, threads_or_jobs
from bmrm.distributed.reading import read_new_rows
from bmrm.distributed.rows import StoredRows
from bmrm.errors import DataError


class RowEstimator(Estimator):
    """An estimator of rows, which a fitted model can be applied to."""

    threads: int | None
    n_jobs: int | None = None

    def _threads(self) -> int | None:
        """Return the maximum number of threads, by our name or by scikit-learn's."""
        return threads_or_jobs(self.threads, self.n_jobs)

    def _read_new(self, X: Any) -> StoredRows:
        """Validate rows that a fitted model is applied to, in main memory."""
        self._check_fitted()
        found = read_new_rows(X)
        self._check_columns(X, found.shape[1])
        return found


def require_dense(rows: StoredRows) -> StoredRows:
    """Return rows that are dense; raise `DataError` for others."""
    if rows.sparse:
        raise DataError("X: found a sparse matrix, expected a dense one: X.toarray()")
    return rows
