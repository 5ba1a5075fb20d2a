"""Multidimensional scaling on a GPU, with the kernels run on the CPU (emulated_scaling.py)."""

import shutil

import emulated_scaling
import numpy as np
import pytest
import scaling_cases as cases
from scipy.spatial.distance import pdist, squareform

from bmrm import MDS
from bmrm.errors import DataError
from bmrm.matrix.gpu import placement as choose
from bmrm.unsupervised.manifold import gpu as scaling
from bmrm.unsupervised.manifold._manifold import Pairs

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")


class ArrayThere:
    """An array that another library has put on a GPU."""

    def __init__(self, array):
        self._array = array
        self.__cuda_array_interface__ = {
            "shape": array.shape,
            "typestr": array.dtype.str,
            "data": (array.ctypes.data, False),
            "strides": None,
            "version": 3,
        }

    def __getitem__(self, part):
        return ArrayThere(np.ascontiguousarray(self._array[part]))

    def get(self):
        return self._array.copy()


@pytest.fixture(scope="session")
def module():
    return emulated_scaling.Module(emulated_scaling.load())


@pytest.fixture
def fits(module, monkeypatch):
    """Let `MDS` find the emulated GPU."""
    monkeypatch.setattr(scaling, "import_cuda", lambda: module)
    monkeypatch.setattr(choose, "pointer_device", lambda address: 0)


@pytest.mark.parametrize(("n", "p"), [(1, 1), (2, 1), (3, 2), (17, 3), (65, 2), (140, 5), (70, 12)])
def test_passes_are_those_of_full_matrices(module, n, p):
    cases.check_passes(module.ResidentPairs, n, p)


def test_several_tiles(module):
    """More rows and columns than a tile has."""
    rng = np.random.default_rng(0)
    n = 1100
    D, X = cases.distances(rng.normal(size=(n, 4))).astype(np.float32), rng.normal(size=(n, 2))
    X[3] = X[4] = X[1000]
    pairs = module.ResidentPairs(n, delta=D)
    found, expected = pairs.descent(pairs.put(X)), Pairs.given(D, n).descent(X)
    cases.near(pairs.get(found[0]), expected[0])
    cases.near(found[1:], expected[1:])
    assert found[3] == 3


def test_vectors(module):
    cases.check_vectors(module.ResidentPairs, 50, 3)


def test_points_at_one_place_part(module):
    cases.check_coincident(module.ResidentPairs, Pairs.given)


@pytest.mark.parametrize("relax", [False, True])
@pytest.mark.parametrize("kind", ["in place", "weighted", "missing", "features"])
def test_a_fit_is_that_of_the_cpu(fits, kind, relax):
    rng = np.random.default_rng(4)
    X, start = rng.normal(size=(60, 9)), rng.normal(size=(60, 2))
    D = squareform(pdist(X))
    given, weights, options = D, None, {"metric": "precomputed"}
    if kind == "weighted":
        weights = 1.0 / (1.0 + D)
    if kind == "missing":
        gaps = np.triu(rng.random(D.shape) < 0.1, 1)
        given = np.where(gaps | gaps.T, np.nan, D)
    if kind == "features":
        given, options = X, {"store": "features"}
    there = ArrayThere(given) if kind == "in place" else given
    few = {"relax": relax, "max_iter": 12, "eps": 0.0, **options}
    here = MDS(2, device="cpu", **few).fit(given, init=start, weights=weights)
    on_gpu = MDS(2, device="auto" if kind == "in place" else "cuda", **few).fit(
        there, init=start, weights=weights
    )
    assert on_gpu.placement_.device == "cuda:0"
    np.testing.assert_allclose(on_gpu.history_, here.history_, rtol=1e-10)
    np.testing.assert_allclose(on_gpu.embedding_, here.embedding_, atol=1e-8)


def test_starts_and_the_test_of_a_minimum(fits):
    D = squareform(pdist(np.random.default_rng(5).normal(size=(40, 3))))
    for init in ("classical_mds", "landmark"):
        options = {"metric": "precomputed", "init": init, "random_state": 1, "eps": 1e-13, "max_iter": 2000}
        there = MDS(2, device="cuda", **options).fit(D)
        here = MDS(2, device="cpu", **options).fit(D)
        assert there.raw_stress_ == pytest.approx(here.raw_stress_, rel=1e-9)
        one, other = there.check_minimum(D), here.check_minimum(D)
        assert one.verdict == other.verdict
        assert one.least_eigenvalue == pytest.approx(other.least_eigenvalue, abs=1e-3)


def test_bad_pairs(fits):
    D = squareform(pdist(np.random.default_rng(6).normal(size=(70, 4))))
    for row, column, value, words in (
        (3, 40, -1.0, "row 4, column 41 has -1, expected at least 0"),
        (3, 40, np.inf, "row 4, column 41 has inf, expected a finite number"),
        (40, 3, 9.0, "row 4, column 41 has .* and row 41, column 4 has 9"),
        (8, 8, 1.0, "row 9, column 9 has 1, expected 0 on the diagonal"),
        (8, 8, np.inf, "row 9, column 9 has inf, expected 0 on the diagonal"),
        (8, 8, np.nan, "row 9, column 9 has nan, expected 0 on the diagonal"),
    ):
        bad = D.copy()
        bad[row, column] = value
        with pytest.raises(DataError, match=words):
            MDS(2, metric="precomputed").fit(ArrayThere(bad))
    rounded = D + 1e-8 * np.eye(70)
    one, other = (MDS(2, metric="precomputed").fit(ArrayThere(each)) for each in (D, rounded))
    np.testing.assert_array_equal(other.embedding_, one.embedding_)
    with pytest.raises(AttributeError, match="found 70 points with given dissimilarities"):
        _ = one.dissimilarity_matrix_
    with pytest.raises(DataError, match=r"found a largest one of .* on a GPU"):
        MDS(2, metric="precomputed").fit(ArrayThere(D), weights=ArrayThere(np.full_like(D, 1e200)))
    weights = np.ones_like(D)
    weights[2, 5] = np.nan
    with pytest.raises(DataError, match="weights: row 3, column 6 has nan, expected a number"):
        MDS(2, metric="precomputed").fit(ArrayThere(D), weights=ArrayThere(weights))
    far = np.where(np.add.outer(np.arange(70), np.arange(70)) % 2, np.nan, D)
    with pytest.raises(DataError, match="2 groups of points"):
        MDS(2, metric="precomputed").fit(ArrayThere(far))
