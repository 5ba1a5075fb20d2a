"""X that another library has put on a GPU: with a GPU simulated in main memory, and with real ones."""

import importlib.util
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

import bmrm
from bmrm.errors import DataError, ParameterError
from bmrm.matrix import _cpu, resident
from bmrm.matrix.gpu import cache as device_cache
from bmrm.matrix.gpu import devices
from bmrm.matrix.gpu import memory as gpu_memory
from bmrm.matrix.gpu.device_arrays import DeviceArray

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 4))
Y = np.where(X[:, 0] - X[:, 1] > 0, 1, -1)
SPARSE = sp.random(60, 4, 0.5, format="csr", random_state=1)


class FakeArray:
    """An array "on a GPU": its memory is known by the address alone, and `get` is the only way to read it."""

    def __init__(self, array, number=1):
        self._array, self._number, self.reads = array, number, 0
        self.dtype, self.shape = array.dtype, array.shape

    @property
    def __cuda_array_interface__(self):
        strides = None if self._array.flags.c_contiguous else self._array.strides
        data = self._array.ctypes.data, False
        return {
            "shape": self._array.shape,
            "typestr": self._array.dtype.str,
            "data": data,
            "strides": strides,
            "version": 3,
        }

    def __dlpack_device__(self):
        return 2, self._number

    def __array__(self, dtype=None, copy=None):
        raise TypeError("implicit conversion to a NumPy array is not allowed")

    def __getitem__(self, part):
        self.reads += self._array[part].size
        return FakeArray(self._array[part], self._number)

    def get(self):
        return self._array.copy()


class OnlyDLPack(FakeArray):
    """An array that has no ``__cuda_array_interface__``."""

    __cuda_array_interface__ = property()  # reading it raises AttributeError

    def __dlpack__(self, *, stream):
        assert stream == 1
        return self._array.__dlpack__()


class FakeCsr:
    """A matrix as CuPy's."""

    ndim = 2

    def __init__(self, matrix, make=FakeArray):
        self.data, self.indices, self.indptr = map(make, (matrix.data, matrix.indices, matrix.indptr))
        self.shape, self.has_canonical_format = matrix.shape, matrix.has_canonical_format
        self._matrix, self.make = matrix, make

    def tocsr(self):
        return self

    def copy(self):
        return FakeCsr(self._matrix.copy(), self.make)

    def sum_duplicates(self):
        self._matrix.sum_duplicates()
        self.__init__(self._matrix, self.make)


class FakeTensor:
    """A sparse tensor as PyTorch's."""

    layout = "torch.sparse_csr"

    def __init__(self, matrix):
        self.shape, self._parts = matrix.shape, FakeCsr(matrix)

    def crow_indices(self):
        return self._parts.indptr

    def col_indices(self):
        return self._parts.indices

    def values(self):
        return self._parts.data


def at_address(array):
    """Return what is at the address that an array shows."""
    shown = getattr(array, "__cuda_array_interface__", None)
    return array if shown is None else np.asarray(SimpleNamespace(__array_interface__=shown, owner=array))


class FakeMatrix:
    """A matrix on the CPU, made of the memory that arrays show."""

    location = "host"
    host_bytes = 0
    weighted_gram_work = float("inf")

    def __init__(self, *arrays, dense=None, device, dtype, plan=None, **options):
        self.device, self.dtype, self.taken = device, np.dtype(dtype), (*arrays[:3], dense)
        *parts, shape = arrays if dense is None else (None,)
        self.inner = (
            _cpu.Matrix(*map(at_address, parts), shape)
            if dense is None
            else _cpu.Matrix.from_dense(at_address(dense))
        )
        self.shape, self.nnz, self.threads = self.inner.shape, self.inner.nnz, 1
        self.mean_squares = self.inner.mean_squares

    @classmethod
    def from_dense(cls, array, **options):
        return cls(dense=array, **options)

    @staticmethod
    def predict_format(m, d, nnz, value_bytes):
        return nnz * (4 + value_bytes)

    def report(self):
        one = {"candidates": [{"plan": {"kernel": "rows"}}], "chosen": 0}
        return {"normal": one, "transposed": one}

    def matvec(self, w, out):
        self.inner.matvec(w, out)

    def rmatvec_blocks(self, r, starts, out):
        self.inner.rmatvec_blocks(r, starts, out)


@pytest.fixture
def gpu(monkeypatch, tmp_path):
    info = {"name": "Abacus 9", "major": 9, "minor": 0, "free_bytes": 10**9}
    backend = SimpleNamespace(
        Matrix=FakeMatrix, device_count=lambda: 2, device_info=lambda device=0: info | {"id": device}
    )
    backend.Plan = lambda **plan: SimpleNamespace(**plan)
    for module in (devices, resident, gpu_memory):
        monkeypatch.setattr(module, "import_cuda", lambda: backend)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(device_cache, "_picked", {})


MATRICES = {
    "dense": lambda: (FakeArray(X), X),
    "dense of DLPack": lambda: (OnlyDLPack(X), X),
    "CuPy's": lambda: (FakeCsr(SPARSE), SPARSE),
    "PyTorch's": lambda: (FakeTensor(SPARSE), SPARSE),
}


@pytest.mark.parametrize("kind", MATRICES)
@pytest.mark.parametrize("device", ["auto", "cuda", "cuda:1"])
def test_x_is_used_where_it_is(gpu, kind, device):
    given, same = MATRICES[kind]()
    weights = np.arange(60.0)
    data = bmrm.Dataset(given, FakeArray(Y), sample_weight=FakeArray(weights), device=device)
    assert data.device == "cuda (Abacus 9)"
    assert data.matrix.device == 1
    taken = [part for part in data.matrix.taken if isinstance(part, DeviceArray)]
    assert len(taken) == (1 if "dense" in kind else 2)
    addresses = [part.__cuda_array_interface__["data"][0] for part in taken]
    expected = [X] if "dense" in kind else [SPARSE.indices, SPARSE.data]
    assert addresses == [array.ctypes.data for array in expected]
    found = bmrm.solve(data, lam=0.01, tol=1e-7)
    wanted = bmrm.solve(same, Y, lam=0.01, tol=1e-7, sample_weight=weights)
    assert found.objective == pytest.approx(wanted.objective, rel=1e-6)
    np.testing.assert_array_equal(found.predict(X), wanted.predict(X))


def test_little_of_x_is_copied_to_main_memory(gpu):
    given = FakeArray(X)
    bmrm.Dataset(given, Y)
    assert given.reads == X.shape[1]


def test_rows_of_weight_zero(gpu):
    weights = (np.arange(60) > 9).astype(float)
    found = bmrm.solve(FakeArray(X), Y, lam=0.01, tol=1e-7, sample_weight=weights)
    wanted = bmrm.solve(X, Y, lam=0.01, tol=1e-7, sample_weight=weights)
    assert found.objective == pytest.approx(wanted.objective, rel=1e-6)


def test_float32_stays(gpu):
    data = bmrm.Dataset(FakeArray(X.astype(np.float32)), Y, tol=1e-9)
    assert data.stored == "float32"


def test_repeated_entries_are_summed_in_a_copy(gpu):
    parts = np.array([1.0, 2.0, 3.0, 4.0]), np.array([0, 0, 1, 0], np.int32), np.array([0, 3, 4], np.int32)
    given = FakeCsr(sp.csr_matrix(parts, shape=(2, 2)))
    data = bmrm.Dataset(given, [1, -1])
    w = np.array([1.0, 10.0])
    out = np.empty(2)
    data.matrix.matvec(w, out)
    np.testing.assert_array_equal(out, [33.0, 4.0])
    assert given.data.shape == (4,)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (FakeArray(X.T), r"^X: found strides \(8, 32\), expected a C-contiguous array on the GPU$"),
        (FakeArray(X.astype(np.int64)), "^X: found int64 on a GPU, expected float32 or float64$"),
        (FakeArray(X[:, 0].copy()), "^X: found 1 dimensions, expected 2$"),
        (FakeArray(X[:0]), "^X: found 0 rows and 4 columns, expected at least one of each$"),
        (FakeCsr(SPARSE.astype(np.int32)), "^X, values: found int32 on a GPU, expected float32 or"),
    ],
)
def test_what_a_gpu_does_not_take(gpu, given, text):
    with pytest.raises(DataError, match=text):
        bmrm.Dataset(given, Y)


def test_another_device_is_refused(gpu):
    for device in ("cpu", "cuda:0"):
        with pytest.raises(ParameterError, match=f"found '{device}' for rows on GPU 1, expected cuda:1"):
            bmrm.Dataset(FakeArray(X), Y, device=device)


def test_what_needs_main_memory_says_so(gpu):
    result = bmrm.solve(X, Y, device="cpu")
    for call in (lambda: result.predict(FakeArray(X)), lambda: bmrm.select(FakeArray(X), Y, [0.1], 3)):
        with pytest.raises(DataError, match="X: found an array on a GPU or another device"):
            call()


def real_libraries():
    cuda = pytest.importorskip("bmrm.matrix._cuda", reason="the package was built without CUDA")
    if not cuda.device_count():
        pytest.skip("there is no CUDA device")
    found = {}
    if importlib.util.find_spec("cupy"):
        import cupy
        import cupyx.scipy.sparse

        found["cupy"] = cupy.asarray, cupyx.scipy.sparse.csr_matrix
    if importlib.util.find_spec("torch"):
        import torch

        def tensor(array):
            return torch.from_numpy(array).cuda()

        def rows(matrix):
            parts = map(tensor, (matrix.indptr, matrix.indices, matrix.data))
            return torch.sparse_csr_tensor(*parts, matrix.shape, check_invariants=True)

        if torch.cuda.is_available():
            found["torch"] = tensor, rows
    return found


@pytest.mark.filterwarnings("ignore:Sparse:UserWarning")  # PyTorch's first sparse tensor warns twice
@pytest.mark.parametrize("library", ["cupy", "torch"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_arrays_of_real_libraries(library, dtype):
    found = real_libraries()
    if library not in found:
        pytest.skip(f"{library} is not installed, or sees no GPU")
    dense, rows = found[library]
    rng = np.random.default_rng(2)
    A = rng.standard_normal((5000, 40)).astype(dtype)
    y = np.where(A @ rng.standard_normal(40) + rng.standard_normal(5000) > 0, 1, -1)
    B = sp.random_array((5000, 300), density=0.05, format="csr", rng=rng).astype(dtype)
    for host, device in ((A, dense(A)), (B, rows(B))):
        wanted = bmrm.solve(host, y, lam=1e-3, tol=1e-4, device="cuda", dtype=dtype)
        for _ in range(2):
            got = bmrm.solve(device, dense(y), lam=1e-3, tol=1e-4)
            assert got.device == wanted.device
            assert got.objective == pytest.approx(wanted.objective, rel=2e-4)
        with pytest.raises(ParameterError, match="for rows on GPU"):
            bmrm.Dataset(device, y, device="cpu")
    # Work that is under way when the array is given: the address must not be read before it is done.
    late = dense(A) * 0
    for _ in range(200):
        late = late + dense(A) / 200
    data = bmrm.Dataset(late, y, dtype=dtype)
    out = data.margins(np.ones(40))
    np.testing.assert_allclose(out, A.astype(float) @ np.ones(40), rtol=1e-3, atol=1e-3)
    # Values that are not finite are found on the device.
    A[7, 3] = np.nan
    with pytest.raises(DataError, match="not finite"):
        bmrm.Dataset(dense(A), y)
