"""What sparse and dense rows take on this machine: measured once, and kept.

Each form has its products, and X' D X, timed on random rows when a choice first depends on them, for some
hundredths of a second. The times are kept with the rates of the kind of processor (`bmrm.matrix.gpu.cache`).
All are those of one thread, or of the GPU, so that a choice never depends on the number of threads.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bmrm.errors import ParameterError
from bmrm.io.csr import Csr
from bmrm.io.row_storage import Costs, Storage, StorageRule, dense_rows, sparse_rows, storage_name
from bmrm.matrix import _cpu
from bmrm.matrix.gpu import cache
from bmrm.matrix.gpu.devices import import_cuda
from bmrm.matrix.gpu.placement import place
from bmrm.matrix.gpu.work import MatrixWork
from bmrm.matrix.resident import is_uploaded

SAMPLE_ROWS, SAMPLE_COLUMNS = 16_384, 256
"""The size of random rows whose products are timed: 16 MiB as float32, more than the caches of a core."""

GRAM_ROWS = 1024
"""The number of rows that X' D X is timed with."""

REPEATS = 5


def storage_rule(asked: str, device: str) -> StorageRule:
    """Return the rule for rows on a device, as `bmrm.Dataset` takes it.

    Examples
    --------
    >>> storage_rule("dense", "cpu").choose(1, 1, 1, 4).name
    'dense'
    """

    def costs(value_bytes: int, stored: int, columns: int) -> Costs:
        return measured_costs(place(device, None, MatrixWork(stored, columns)).gpu, value_bytes)

    return StorageRule(asked, costs)


def stored_as(asked: Storage, X: Any, dtype: DTypeLike | None = None) -> Any:
    """Return rows in main memory as sparse or dense ones; raise `ParameterError` for others."""
    kind = storage_name(asked)
    sparse = isinstance(X, Csr)
    if kind == "auto" or (kind == "sparse") == sparse:
        return X
    if is_uploaded(X):
        raise ParameterError(f"storage: found {kind!r} for X on a GPU, expected 'auto'")
    if not sparse:
        return sparse_rows(X)
    values = np.float64 if X.data is None else X.data.dtype
    return dense_rows(X, np.dtype(values if dtype is None else dtype), "X")


def measured_costs(gpu: int | None, value_bytes: int) -> Costs:
    """Return what rows with values of some bytes take on the CPU, or on a GPU.

    On a GPU only dense rows have X' D X, so that products are compared.
    """
    machine = cache.cpu_name() if gpu is None else import_cuda().device_info(gpu)["name"]

    def pair(kind: str, measure: Callable[[bool], float]) -> tuple[float, float]:
        sparse, dense = (
            cache.known_time(
                machine, f"{form} rows, {kind}, {value_bytes} bytes", partial(measure, form == "dense")
            )
            for form in ("sparse", "dense")
        )
        return sparse, dense

    if gpu is not None:
        return Costs(pair("product", lambda dense: _gpu_product(gpu, value_bytes, dense=dense)), (0.0, 0.0))
    return Costs(
        pair("product", lambda dense: _cpu_product(value_bytes, dense=dense)),
        pair("gram", lambda dense: _cpu_gram(value_bytes, dense=dense)),
    )


def _sample(rows: int, value_bytes: int, *, dense: bool) -> Csr | NDArray[Any]:
    """Return random rows, of whose values sparse ones store every other."""
    values = np.random.default_rng(0).random((rows, SAMPLE_COLUMNS), np.float32).astype(f"f{value_bytes}")
    if dense:
        return values
    columns = np.arange(0, SAMPLE_COLUMNS, 2, dtype=np.int32)
    indptr = len(columns) * np.arange(rows + 1)
    return Csr(indptr, np.tile(columns, rows), values[:, columns].ravel(), values.shape)


def _on_cpu(rows: int, value_bytes: int, *, dense: bool) -> _cpu.Matrix:
    X = _sample(rows, value_bytes, dense=dense)
    return _cpu.Matrix(*X, threads=1) if isinstance(X, Csr) else _cpu.Matrix.from_dense(X, threads=1)


def _cpu_product(value_bytes: int, *, dense: bool) -> float:
    X = _on_cpu(SAMPLE_ROWS, value_bytes, dense=dense)
    w, r = np.ones(X.shape[1]), np.ones(X.shape[0])
    return (_seconds(lambda: X.matvec(w)) + _seconds(lambda: X.rmatvec(r))) / (2 * X.nnz)


def _cpu_gram(value_bytes: int, *, dense: bool) -> float:
    X = _on_cpu(GRAM_ROWS, value_bytes, dense=dense)
    s = np.ones(X.shape[0])
    return _seconds(lambda: X.weighted_gram(s)) * X.shape[0] / float(X.nnz) ** 2


def _gpu_product(gpu: int, value_bytes: int, *, dense: bool) -> float:
    cuda, X = import_cuda(), _sample(SAMPLE_ROWS, value_bytes, dense=dense)
    kind = np.dtype(f"f{value_bytes}")
    if isinstance(X, Csr):
        matrix = cuda.Matrix(*X, dtype=kind, device=gpu, tune="predict")
    else:
        matrix = cuda.Matrix.from_dense(X, dtype=kind, device=gpu)
    seconds: float = matrix.time("normal") + matrix.time("transposed")
    return seconds / (2 * (X.nnz if isinstance(X, Csr) else X.size))


def _seconds(call: Callable[[], object]) -> float:
    """Return the least processor time of some calls, after one that starts what the first has to start."""
    call()
    found = []
    for _ in range(REPEATS):
        began = time.thread_time()
        call()
        found.append(time.thread_time() - began)
    return min(found)
