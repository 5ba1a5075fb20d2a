"""X, y and weights as arrays of other libraries: used without a copy, or refused in one line."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp

import bmrm
from bmrm.base.arguments import matrix
from bmrm.base.sparse_tensors import as_scipy
from bmrm.errors import DataError
from bmrm.io import Csr
from bmrm.matrix.resident import validate_matrix

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 4))
Y = np.where(X[:, 0] - X[:, 1] > 0, 1, -1)
SPARSE = sp.random(60, 4, 0.5, format="csr", random_state=1)
DLPACK_CPU, DLPACK_CUDA = 1, 2
ON_DEVICE = r"^[a-zX ]+: found an array on a GPU or another device, expected .* in main memory"


class DLPackArray:
    """An array that has DLPack and nothing else."""

    def __init__(self, array, device=DLPACK_CPU):
        self.array, self.device = array, device

    def __dlpack__(self, **options):
        assert self.device == DLPACK_CPU, "memory of a device is not read"
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.device, 0


class OldDLPackArray(DLPackArray):
    """An array whose ``__dlpack__`` knows none of the keywords of 2023."""

    def __dlpack__(self):
        return self.array.__dlpack__()


class CudaArray:
    """An array on a device, with no DLPack, as Numba's."""

    def __init__(self, array):
        self.shape, self.dtype = array.shape, array.dtype
        self.__cuda_array_interface__ = {
            "shape": array.shape,
            "typestr": array.dtype.str,
            "data": (0, True),
            "version": 3,
        }

    def __array__(self, dtype=None, copy=None):
        raise AssertionError("memory of a device is not read")


def torch_tensor(array):
    return pytest.importorskip("torch").from_numpy(array)


def jax_array(array):
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    return jax.numpy.asarray(array)


def strict_array(array):
    return pytest.importorskip("array_api_strict").asarray(array, copy=False)


FOREIGN = {
    "dlpack": DLPackArray,
    "old dlpack": OldDLPackArray,
    "torch": torch_tensor,
    "jax": jax_array,
    "strict": strict_array,
}
foreign = pytest.mark.parametrize("kind", FOREIGN)


@foreign
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_matrix_shares_the_memory_of_a_foreign_array(kind, dtype):
    given = FOREIGN[kind](X.astype(dtype))
    first, second = matrix("X", given), validate_matrix(given)
    assert first.dtype == second.dtype == dtype
    assert np.shares_memory(first, second)
    np.testing.assert_array_equal(first, X.astype(dtype))


@foreign
def test_a_foreign_array_trains_and_predicts_like_numpys(kind):
    make = FOREIGN[kind]
    weights, groups = np.arange(1.0, 61.0), np.arange(60) // 6
    wanted = bmrm.solve(X, Y, lam=0.01, sample_weight=weights)
    found = bmrm.solve(make(X), make(Y), lam=0.01, sample_weight=make(weights))
    assert found.objective == wanted.objective
    np.testing.assert_array_equal(found.w, wanted.w)
    np.testing.assert_array_equal(found.predict(make(X)), wanted.predict(X))
    assert found.predict(X).dtype == Y.dtype
    options = {"loss": "pairwise", "lam": 0.01}
    ranked = [bmrm.solve(f(X), f(Y), groups=f(groups), **options).objective for f in (make, np.asarray)]
    assert ranked[0] == ranked[1]


@foreign
def test_idle_rows_and_class_weights_with_foreign_labels(kind):
    make, labels = FOREIGN[kind], Y.copy()
    labels[:3] = 7
    weights = (np.arange(60) >= 3).astype(float)
    options = {"lam": 0.01, "sample_weight": weights, "class_weight": {1: 2.0, -1: 1.0}}
    found, wanted = (bmrm.solve(f(X), f(labels), **options) for f in (make, np.asarray))
    assert found.objective == wanted.objective
    picked, expected = (bmrm.select(f(X), f(Y), [0.1, 0.01], 3).result for f in (make, np.asarray))
    assert picked.objective == expected.objective


def test_labels_are_copied():
    labels = Y.copy()
    data = bmrm.Dataset(X, DLPackArray(labels))
    labels[:] = 0
    np.testing.assert_array_equal(data.y, Y)


def test_read_only_arrays_are_shared():
    frozen = X.copy()
    frozen.flags.writeable = False
    assert np.shares_memory(validate_matrix(frozen), frozen)
    wanted = bmrm.solve(X, Y, lam=0.01).objective
    assert bmrm.solve(frozen, Y, lam=0.01).objective == wanted
    rows = SPARSE.copy()
    for part in (rows.data, rows.indices, rows.indptr):
        part.flags.writeable = False
    found = validate_matrix(rows)
    assert np.shares_memory(found.data, rows.data)
    assert np.shares_memory(found.indices, rows.indices)


@pytest.fixture
def torch():
    found = pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CS", UserWarning)  # "in beta state", once per process
        found.eye(2).to_sparse_csr()
        found.eye(2).to_sparse_csc()
    return found


class SparseTensor:
    """What is used of a sparse tensor in compressed rows."""

    layout = "torch.sparse_csr"

    def __init__(self, pointers, indices, values, shape):
        self.parts, self.shape = (pointers, indices, values), shape

    def crow_indices(self):
        return self.parts[0]

    def col_indices(self):
        return self.parts[1]

    def values(self):
        return self.parts[2]


def assert_shared(given):
    found = validate_matrix(given)
    assert isinstance(found, Csr)
    assert np.shares_memory(found.data, SPARSE.data)
    assert np.shares_memory(found.indices, SPARSE.indices)
    assert bmrm.solve(given, Y, lam=0.01).objective == bmrm.solve(SPARSE, Y, lam=0.01).objective


def test_a_sparse_tensor_is_shared():
    assert_shared(SparseTensor(SPARSE.indptr, SPARSE.indices, SPARSE.data, SPARSE.shape))


def test_a_sparse_tensor_of_pytorch_is_shared(torch):
    parts = [torch.from_numpy(part) for part in (SPARSE.indptr, SPARSE.indices, SPARSE.data)]
    assert_shared(torch.sparse_csr_tensor(*parts, SPARSE.shape, check_invariants=True))


def test_a_damaged_sparse_tensor_is_refused():
    far = SPARSE.indices.copy()
    far[5] = 99
    with pytest.raises(DataError, match=r"^X: found the column 99, expected 0 to 3"):
        bmrm.solve(SparseTensor(SPARSE.indptr, far, SPARSE.data, SPARSE.shape), Y)
    with pytest.raises(DataError, match=r"^X: index pointer size 60 should be 61"):
        bmrm.solve(SparseTensor(SPARSE.indptr[:-1], SPARSE.indices, SPARSE.data, SPARSE.shape), Y)
    by_columns = SparseTensor(np.arange(0, 5), np.array([0, 1, 2, 70]), np.ones(4), SPARSE.shape)
    by_columns.layout, by_columns.ccol_indices = "torch.sparse_csc", by_columns.crow_indices
    by_columns.row_indices = by_columns.col_indices
    with pytest.raises(DataError, match=r"^X: .*(indices|index)"):
        bmrm.solve(by_columns, Y)


@pytest.mark.parametrize("convert", ["to_sparse_csr", "to_sparse_csc", "to_sparse"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_sparse_tensors_of_each_layout(torch, convert, dtype):
    dense = (SPARSE.toarray() * 100).round().astype(dtype)
    given = getattr(torch.from_numpy(dense), convert)()
    np.testing.assert_array_equal(Csr.from_scipy(given).to_scipy().toarray(), dense)
    result, wanted = (bmrm.solve(A, Y, lam=0.01) for A in (given, sp.csr_array(dense)))
    assert result.objective == wanted.objective
    np.testing.assert_array_equal(result.predict(given), wanted.predict(dense))
    folds = [bmrm.select(A, Y, [0.1, 0.01], 3) for A in (given, sp.csr_array(dense))]
    assert folds[0].result.objective == folds[1].result.objective


def test_repeated_entries_of_a_sparse_tensor_are_summed(torch):
    places, values = torch.tensor([[1, 0, 1], [0, 1, 0]]), torch.tensor([2.0, 1.0, 3.0])
    given = torch.sparse_coo_tensor(places, values, (2, 2), check_invariants=True)
    np.testing.assert_array_equal(Csr.from_scipy(given).to_scipy().toarray(), [[0.0, 1.0], [5.0, 0.0]])


def test_sparse_tensors_of_labels(torch):
    flags = np.stack([Y > 0, X[:, 2] > 0], axis=1).astype(float)
    given = torch.from_numpy(flags).to_sparse()
    weights = (np.arange(60) > 0).astype(float)
    found, wanted = (
        bmrm.solve(X, labels, loss="multilabel", lam=0.1, sample_weight=weights) for labels in (given, flags)
    )
    assert found.objective == wanted.objective


def test_other_sparse_tensors_are_refused(torch):
    stack = torch.from_numpy(np.ones((2, 3, 4))).to_sparse()
    with pytest.raises(DataError, match=r"^X: found a sparse tensor of 3 dimensions, expected 2$"):
        bmrm.solve(stack, [1, -1])

    class Blocks:
        layout, shape = "torch.sparse_bsr", (2, 2)

    with pytest.raises(DataError, match=r"^X: found the layout torch\.sparse_bsr, expected"):
        as_scipy("X", Blocks())


def test_a_tensor_with_a_gradient_is_refused(torch):
    with pytest.raises(DataError, match=r"^X: Can't call numpy\(\) on Tensor that requires grad"):
        bmrm.solve(torch.from_numpy(X).requires_grad_(), Y)


@pytest.mark.parametrize("make", [CudaArray, lambda given: DLPackArray(given, DLPACK_CUDA)])
def test_arrays_on_a_device_are_refused_where_main_memory_is_needed(make):
    for call in (
        lambda: bmrm.select(make(X), Y),
        lambda: bmrm.solve(X, Y).predict(make(X)),
    ):
        with pytest.raises(DataError, match=ON_DEVICE):
            call()


def test_sparse_matrices_on_a_device_are_refused():
    class CudaCsr:
        """As CuPy's."""

        data, indices, indptr = CudaArray(SPARSE.data), CudaArray(SPARSE.indices), CudaArray(SPARSE.indptr)
        shape, ndim = SPARSE.shape, 2

        def tocsr(self):
            return self

    with pytest.raises(DataError, match=ON_DEVICE):
        bmrm.solve(X, Y).predict(CudaCsr())


def test_a_device_that_dlpack_does_not_know_is_refused(torch):
    with pytest.raises(DataError, match="X: found an array on another device, expected one on a CUDA GPU"):
        bmrm.solve(torch.ones((60, 4), device="meta"), Y)
