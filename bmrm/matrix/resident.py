"""Place X on a device: choose the device and the value type, and handle an X that does not fit."""

from __future__ import annotations

import logging
import zlib
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bmrm.base import arguments
from bmrm.base.host_memory import require_memory
from bmrm.base.threads import preferred_threads
from bmrm.base.vectors import Indices
from bmrm.errors import DataError, DeviceMemoryError, ParameterError
from bmrm.io.csr import Csr
from bmrm.io.text import value_type
from bmrm.matrix import _cpu
from bmrm.matrix.gpu import cache as device_cache
from bmrm.matrix.gpu.cpu_share import parse_share, share_with_cpu
from bmrm.matrix.gpu.device_arrays import DeviceArray, gpu_of, read_device_matrix
from bmrm.matrix.gpu.devices import FLOAT32_RESOLUTION, import_cuda, parse_device
from bmrm.matrix.gpu.kernel_choice import KernelChoice, chosen_plans
from bmrm.matrix.gpu.memory import (
    check_host_memory,
    check_resident,
    parse_memory_size,
    plan_memory,
    plan_text,
)
from bmrm.matrix.gpu.placement import Placement, place, with_fall_back
from bmrm.matrix.gpu.work import MatrixWork

if TYPE_CHECKING:
    from bmrm.matrix import _cuda

Matrix: TypeAlias = "_cpu.Matrix | _cuda.Matrix"
HostMatrix: TypeAlias = "Csr | NDArray[Any]"

DEFAULT_TOL = 1e-3

log = logging.getLogger("bmrm")

MIN_THREADED_VALUES = 1_000_000
"""Minimum number of stored values for several threads. With fewer, a pass takes a fraction of a millisecond:
starting threads costs as much as it saves on an idle machine, and many times that on a busy one."""

CPU_SOLVE_VECTORS = 4
"""Number of vectors over all columns that every solve holds at the same time, as measured."""

TUNINGS = ("best", "predict", "all", "cold")
"""How kernels are chosen: see `bmrm.matrix._cuda.Matrix`."""

REMEMBERED_TUNINGS = ("best", "cold")
"""Those whose choice is remembered. "predict" times nothing, and "all" is for looking at all times."""

FINGERPRINT_SAMPLES = 1024
"""Minimum number of row pointers, indices and values that a fingerprint reads, if there are that many."""


def default_threads(stored: int) -> int:
    """Return the default number of threads.

    It is ``OMP_NUM_THREADS`` or the number of usable cores; 1 for a small problem.
    """
    return 1 if stored < MIN_THREADED_VALUES else preferred_threads()


class PlacedMatrix(NamedTuple):
    """A matrix on its device."""

    matrix: Matrix
    device: str  # "cpu", or "cuda" and the name of the GPU
    resolution: float  # relative gap below which the rounding of products hides it; 0 if sums are in float64
    longest: int  # number of stored values of the fullest row
    fingerprint: str = ""  # of a matrix on a GPU, see `fingerprint`


class KernelRequest(NamedTuple):
    """How the kernels of a matrix on a GPU are found: as chosen before, or by a choice."""

    tune: str = "best"
    choice: KernelChoice | None = None


BY_TIMING = KernelRequest()


def place_matrix(
    X: Any,
    *,
    device: str = "auto",
    dtype: DTypeLike | None = None,
    threads: int | None = None,
    tol: float = DEFAULT_TOL,
    gpu_mem: int | str | None = None,
    kernels: KernelRequest = BY_TIMING,
    cpu_share: float | str | None = 0,
) -> PlacedMatrix:
    """Place X on a device; see `bmrm.Dataset` for the arguments and exceptions.

    ``kernels`` are those of a matrix on a GPU; see `bmrm.Operator`.

    Examples
    --------
    >>> import numpy as np
    >>> place_matrix(np.eye(3)).device
    'cpu'
    """
    parse_device(device)
    if threads is not None and arguments.integer("threads", threads) < 1:
        raise ParameterError(f"threads: found {threads}, expected at least 1")
    if kernels.tune not in TUNINGS:
        raise ParameterError(f"tune: found {kernels.tune!r}, expected one of {', '.join(TUNINGS)}")
    stored, limit = None if dtype is None else value_type(dtype), parse_memory_size(gpu_mem)
    share = parse_share(cpu_share)
    found = read_matrix(X)
    size = found.nnz if isinstance(found, Csr) else found.size
    threads = default_threads(size) if threads is None else threads
    # What `bmrm.matrix.upload` has put on a GPU names none, and can be copied back.
    placed = place(device, gpu_of(found), MatrixWork(size, found.shape[1]))

    def on_cpu() -> PlacedMatrix:
        assert not isinstance(found, DeviceArray)  # it stays where it is
        if kernels.choice is not None:
            raise ParameterError(
                f"choice: found one for {kernels.choice.device}, expected none for X on the CPU "
                "(device='cuda' puts it on a GPU)"
            )
        return _on_cpu(found, stored, threads)

    def on_gpu(number: int) -> tuple[PlacedMatrix, str]:
        on_device = _on_gpu(found, stored, threads, tol, placed, number, limit, kernels)
        share_with_cpu(on_device.matrix, found, share)
        return on_device, ""

    return with_fall_back(placed, on_cpu, on_gpu)[0]


def wants_gpu(device: str, stored: int, columns: int | None = None) -> bool:
    """Return whether X with ``stored`` values, and ``columns`` if known, should go to a GPU if it fits.

    Examples
    --------
    >>> wants_gpu("cuda", 1), wants_gpu("cpu", 10**9), wants_gpu("auto", 1)
    (True, False, False)
    """
    return place(device, None, MatrixWork(stored, columns)).gpu is not None


def validate_matrix(X: Any) -> HostMatrix:
    """Convert X to compressed sparse rows or a dense array of real numbers."""
    sparse = Csr.of(X)
    if sparse is not None:
        check_shape(sparse.shape)
        return sparse
    dense = arguments.matrix("X", X)
    check_shape(dense.shape)
    return dense


def read_matrix(X: Any) -> HostMatrix | DeviceArray:
    """Convert X as `validate_matrix`, or find it on a GPU."""
    if isinstance(X, (Csr, DeviceArray)):
        found: HostMatrix | DeviceArray | None = X
    else:
        found = read_device_matrix(X)
    if found is None:
        return validate_matrix(X)
    check_shape(found.shape)
    return found


def resident_rows(what: str, data: Any, *, sparse: bool = False) -> Any:
    """Return the rows of a data set on a GPU where they are: a dense block or, with ``sparse``, also a `Csr`.

    Raise `DataError` for any other data set, and `DeviceMemoryError` if there is no room for compressed rows,
    which most formats do not keep.
    """
    matrix, found = data.matrix, None
    if data.group is None:
        if matrix.is_dense:
            found = matrix.device_rows()
        elif sparse:
            starts, columns, values = matrix.compressed_rows()
            found = Csr(starts[:], columns, values, matrix.shape)
    if found is None:
        kind = "rows in blocks" if matrix.is_dense else "sparse rows"
        kind = "rows on several ranks" if data.group else kind
        raise DataError(
            f"{what}: found {kind} in a data set on {data.device}, expected a dense block, or the CPU"
        )
    return found


def is_uploaded(X: HostMatrix | DeviceArray) -> bool:
    """Return whether X is already on a GPU, see `bmrm.matrix.upload` and `bmrm.matrix.gpu.device_arrays`."""
    return isinstance(X, DeviceArray) or (isinstance(X, Csr) and not isinstance(X.indices, np.ndarray))


def check_shape(shape: tuple[int, ...]) -> None:
    """Raise `DataError` for a matrix without rows or columns."""
    if shape[0] == 0 or shape[1] == 0:
        raise DataError(f"X: found {shape[0]} rows and {shape[1]} columns, expected at least one of each")


def _check_values(values: NDArray[Any] | None, indptr: Indices | None = None) -> None:
    """Raise for values that are not finite; sparse X needs ``indptr``. On a GPU the upload checks this."""
    # If the sum is finite, all values are. Otherwise it may only have overflowed, so check each value.
    with np.errstate(all="ignore"):
        if values is None or np.isfinite(values.sum(dtype=np.float64)):
            return
    bad = np.argwhere(~np.isfinite(values))
    if bad.size:
        first = tuple(bad[0].tolist())
        row = first[0] if indptr is None else int(np.searchsorted(indptr, first[0], "right")) - 1
        where = f"row {row + 1}" + (f", column {first[1] + 1}" if indptr is None else "")
        raise DataError(f"X: stored value {values[first]} is not finite ({where})")


def _on_cpu(X: HostMatrix, dtype: np.dtype[Any] | None, threads: int) -> PlacedMatrix:
    if isinstance(X, Csr):
        X = X.on_host()
        _check_values(X.data, X.indptr)
        data = X.data
        if data is not None and dtype is not None:
            data = data.astype(dtype, copy=False)
        sizes = (*X.shape, X.nnz, 0 if data is None else data.itemsize)
        shared, total = (_cpu.Matrix.predict_bytes(*sizes, transpose=part) for part in (False, None))
        rows, columns = X.shape
        require_memory(
            total - shared + CPU_SOLVE_VECTORS * 8 * columns,
            f"a matrix of {rows} rows and {columns} columns, with the vectors of a solve",
        )
        matrix = _cpu.Matrix(X.indptr, X.indices, data, X.shape, threads=threads)
    else:
        _check_values(X)
        matrix = _cpu.Matrix.from_dense(X if dtype is None else X.astype(dtype, copy=False), threads=threads)
    return PlacedMatrix(matrix, "cpu", 0.0, _find_longest_row(X))


def _find_longest_row(X: HostMatrix | DeviceArray) -> int:
    """Return the number of stored values of the fullest row; all columns if row pointers are on a device."""
    if isinstance(X, Csr) and isinstance(X.indptr, np.ndarray):
        return int(np.diff(X.indptr).max(initial=0))
    return int(X.shape[1])


def _on_gpu(
    X: HostMatrix | DeviceArray,
    dtype: np.dtype[Any] | None,
    threads: int,
    tol: float,
    placed: Placement,
    number: int,
    limit: int | None,
    kernels: KernelRequest,
) -> PlacedMatrix:
    cuda = import_cuda()
    name = cuda.device_info(number)["name"]
    values = X.data if isinstance(X, Csr) else X
    if dtype is None:
        if isinstance(values, DeviceArray):
            dtype = values.dtype  # values on a GPU are not converted
        else:
            dtype = choose_gpu_dtype(None if values is None else values.dtype, tol)
    nnz = X.nnz if isinstance(X, Csr) else None
    plan = plan_memory(X.shape, nnz, 0 if values is None else dtype.itemsize, dtype.itemsize, limit, number)
    log.info("%s: %s", name, plan_text(plan))
    if placed.chosen:
        check_resident(plan)
    check_host_memory(plan)
    options = {"dtype": dtype, "threads": threads, "device": number}
    options |= {"memory_limit": limit, "spare": plan.spare, "finite": True}
    mark = fingerprint(X, dtype)
    plans = None if kernels.choice is None else kernels.choice.plans(name, mark)
    if not isinstance(X, Csr):
        matrix = cuda.Matrix.from_dense(X, **options)  # whose one kernel is that of the choice
    elif plans is not None:
        matrix = build_with_plans(cuda, X, plans, options)
    else:
        matrix = build_by_tuning(cuda, X, dtype, name, kernels.tune, options)
    resolution = FLOAT32_RESOLUTION if dtype == np.float32 else 0.0
    return PlacedMatrix(matrix, f"cuda ({name})", resolution, _find_longest_row(X), mark)


def build_by_tuning(
    cuda: ModuleType, X: Csr, dtype: np.dtype[Any], name: str, tune: str, options: dict[str, Any]
) -> _cuda.Matrix:
    """Build X on a GPU with kernels that are chosen in one of the ways of `TUNINGS`, or were."""
    if tune != "best":
        options = options | {"tune": tune}
    if tune in REMEMBERED_TUNINGS:
        return build_with_known_plans(cuda, X, dtype, name, options)
    matrix: _cuda.Matrix = cuda.Matrix(*X, **options)
    return matrix


def build_with_plans(
    cuda: ModuleType, X: Csr, plans: device_cache.Plans, options: dict[str, Any]
) -> _cuda.Matrix:
    """Build X on a GPU with given kernels for its two products."""
    matrix: _cuda.Matrix = cuda.Matrix(*X, **options, plan=tuple(cuda.Plan(**plan) for plan in plans))
    return matrix


def build_with_known_plans(
    cuda: ModuleType, X: Csr, dtype: np.dtype[Any], name: str, options: dict[str, Any]
) -> _cuda.Matrix:
    """Build X on a GPU with the kernels that were chosen when the same X was first there, if any.

    ``name`` is that of the GPU, ``options`` are those of `bmrm.matrix._cuda.Matrix`, which have
    ``memory_limit``.

    Kernels sum in different orders, and timings decide between kernels of similar speed. Without remembering
    the choice, results would differ in their last bits from run to run. A memory limit is part of the key,
    since an X split into blocks of rows gets other kernels than a whole one, and so are whether there is a
    transpose, which has a plan of its own, and how the kernels are chosen.
    """
    one_way = options.get("transpose") is False
    key = fingerprint(X, dtype, options["memory_limit"]) + ("-one-way" if one_way else "")
    if options.get("tune") == "cold":
        key += "-cold"
    picked = device_cache.find_plans(name, key)
    if picked is not None:
        try:
            return build_with_plans(cuda, X, picked, options)
        except (ParameterError, DeviceMemoryError):
            log.info("%s: the kernels chosen before do not fit; choosing again", name)
    matrix: _cuda.Matrix = cuda.Matrix(*X, **options)
    chosen = chosen_plans(matrix.report())
    saved = device_cache.save_plans(name, key, chosen, picked)
    if saved != chosen:  # another process has saved its own choice meanwhile
        del matrix
        return build_with_plans(cuda, X, saved, options)
    return matrix


def fingerprint(X: HostMatrix | DeviceArray, dtype: np.dtype[Any], limit: int | None = None) -> str:
    """Return a fingerprint of X to remember its kernels by: of sizes, types and a sample of its entries.

    A dense X has one kernel whatever its entries are.

    - ``dtype``: type of the values on the device
    - ``limit``: bytes of device memory that may be used

    Examples
    --------
    >>> import numpy as np
    >>> from bmrm.io import Csr
    >>> X = Csr(np.array([0, 2, 3]), np.array([0, 2, 1], np.int32), None, (2, 3))
    >>> wide = X._replace(indices=X.indices.astype(np.int64))
    >>> other = X._replace(indices=np.array([0, 1, 1], np.int32))
    >>> [fingerprint(X, np.dtype(np.float32)) == fingerprint(Y, np.dtype(np.float32)) for Y in (wide, other)]
    [True, False]
    """
    if not isinstance(X, Csr):
        return f"{zlib.crc32(repr((X.shape, dtype.name, limit)).encode()):08x}"
    # A weak hash is enough, since kernels that do not fit are chosen again; hashlib is slow to import.
    found = zlib.crc32(repr((X.shape, X.nnz, dtype.name, X.data is None, limit)).encode())
    for part, kind in ((X.indptr, np.int64), (X.indices, np.int64), (X.data, np.float64)):
        if part is not None:
            found = zlib.crc32(
                part[:: max(1, part.shape[0] // FINGERPRINT_SAMPLES)].astype(kind).tobytes(), found
            )
    return f"{found:08x}"


def choose_gpu_dtype(values: np.dtype[Any] | None, tol: float) -> np.dtype[Any]:
    """Choose the type of values, vectors and sums on a GPU; ``values`` is None if all values are 1.

    Examples
    --------
    >>> choose_gpu_dtype(np.dtype(np.float32), 1e-3), choose_gpu_dtype(None, 1e-7)
    (dtype('float32'), dtype('float64'))
    """
    if tol < FLOAT32_RESOLUTION:
        return np.dtype(np.float64)
    return np.dtype(np.float32) if values is None else values
