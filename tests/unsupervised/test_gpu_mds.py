"""Multidimensional scaling on a GPU or the emulator: passes against full matrices, fits against the CPU."""

import numpy as np
import pytest
import scaling_cases as cases
from devices import cuda, gpu, large, on_device, sized
from scipy.spatial.distance import pdist, squareform

from bmrm import MDS
from bmrm.errors import DataError, ParameterError
from bmrm.matrix.gpu.device_arrays import DeviceArray
from bmrm.unsupervised.manifold._manifold import Pairs

pytestmark = gpu

SIZES = [(1, 1), (2, 1), (2, 2), (3, 2), (17, 3), (65, 2), (130, 5), (130, 12)]
SIZES += [pytest.param(*size, marks=large) for size in ((601, 2), (1500, 3))]


def there(value):
    """Put an array of pairs on the GPU, and leave features and flags."""
    return DeviceArray("pairs", on_device(value), None, None) if isinstance(value, np.ndarray) else value


def resident(n, **words):
    return cuda.ResidentPairs(n, **{k: v if k == "features" else there(v) for k, v in words.items()})


@pytest.mark.parametrize(("n", "p"), SIZES)
@pytest.mark.parametrize("make", [cuda.ResidentPairs, resident], ids=["uploaded", "in place"])
def test_passes_are_those_of_full_matrices(make, n, p):
    cases.check_passes(make, n, p)


def test_several_tiles():
    """More rows and columns than a tile has."""
    rng = np.random.default_rng(0)
    n = 1100
    D, X = cases.distances(rng.normal(size=(n, 4))).astype(np.float32), rng.normal(size=(n, 2))
    X[3] = X[4] = X[1000]
    pairs = cuda.ResidentPairs(n, delta=D)
    found, expected = pairs.descent(pairs.put(X)), Pairs.given(D, n).descent(X)
    cases.near(pairs.get(found[0]), expected[0])
    cases.near(found[1:], expected[1:])
    assert found[3] == 3


@pytest.mark.parametrize(("n", "p"), [(1, 1), (50, 3), pytest.param(5000, 2, marks=large)])
def test_vectors(n, p):
    cases.check_vectors(cuda.ResidentPairs, n, p)


def test_points_at_one_place_part():
    cases.check_coincident(cuda.ResidentPairs, Pairs.given)


@large
@pytest.mark.parametrize("n", [5000, 20_011])
def test_large_sums_are_right(n):
    """Rows in all parts of the tiles, by CuPy in float64."""
    cp = pytest.importorskip("cupy")
    rng = np.random.default_rng(n)
    F, X = rng.normal(size=(n, 4)), rng.normal(size=(n, 2))
    features, places = cp.asarray(F), cp.asarray(X)
    D = cp.empty((n, n), cp.float32)
    for i in range(0, n, 1000):
        D[i : i + 1000] = cp.sqrt(((features[i : i + 1000, None] - features[None]) ** 2).sum(axis=2))
    pairs = cuda.ResidentPairs(n, delta=DeviceArray("D", D, 2, None))  # waits until D is there
    direction, stress, squares, together = pairs.descent(pairs.put(X))
    found, total, far = pairs.get(direction), 0.0, 0.0
    for i in range(0, n, 1000):
        u = places[i : i + 1000, None] - places[None]
        d = cp.sqrt((u**2).sum(axis=2))
        delta = D[i : i + 1000].astype(cp.float64)
        ratio = cp.where(d > 0.0, delta / cp.where(d > 0.0, d, 1.0), 0.0) - 1.0
        cases.near(found[i : i + 1000], cp.asnumpy((ratio[:, :, None] * u).sum(axis=1)), 1e-10)
        total += float(((delta - d) ** 2).sum())
        far += float((d**2).sum())
    cases.near([stress, squares], [total / 2, far / 2])
    assert together == 0


def spread(n, seed=0, axes=6):
    return np.random.default_rng(seed).normal(size=(n, axes))


@pytest.mark.parametrize("relax", [False, True])
@pytest.mark.parametrize(
    "kind", ["square", "half", "in place", "float32", "weighted", "missing", "features", "stored"]
)
def test_a_fit_is_that_of_the_cpu(kind, relax):
    n = sized(60, 300)
    X = spread(n)
    D = squareform(pdist(X))
    given, weights, options = D, None, {"metric": "precomputed"}
    if kind == "half":
        given = pdist(X)
    if kind == "float32":
        given = D.astype(np.float32)
    if kind == "weighted":
        weights = 1.0 / (1.0 + D)
    if kind == "missing":
        gaps = np.triu(np.random.default_rng(1).random(D.shape) < 0.1, 1)
        given = np.where(gaps | gaps.T, np.nan, D)
    if kind in ("features", "stored"):
        given, options = X, {"store": "half" if kind == "stored" else "features"}
    start = spread(n, 3, 2)
    few = {"relax": relax, "max_iter": 12, "eps": 0.0, **options}
    here = MDS(2, device="cpu", **few).fit(given, init=start, weights=weights)
    device, there = ("auto", on_device(given)) if kind == "in place" else ("cuda", given)
    on_gpu = MDS(2, device=device, **few).fit(there, init=start, weights=weights)
    again = MDS(2, device=device, **few).fit(there, init=start, weights=weights)
    assert on_gpu.embedding_.tobytes() == again.embedding_.tobytes()
    assert on_gpu.history_ == again.history_
    assert on_gpu.placement_.gpu == 0
    assert on_gpu.placement_.device == "cuda:0"
    assert here.placement_.gpu is None
    np.testing.assert_allclose(on_gpu.history_, here.history_, rtol=1e-9)
    np.testing.assert_allclose(on_gpu.embedding_, here.embedding_, atol=1e-6)
    assert (np.diff(on_gpu.history_) < 0).all()


@pytest.mark.parametrize("kind", ["in place", "float64", "weights", "features"])
def test_a_stress_in_float32_is_within_its_error(kind):
    n = sized(60, 600)
    X = spread(n)
    D = squareform(pdist(X))
    W = 1.0 / (1.0 + D**2) if kind == "weights" else None
    words = {"store": "features"} if kind == "features" else {"metric": "precomputed"}
    given = {"in place": on_device(D.astype(np.float32)), "features": X}.get(kind, D)
    if kind == "in place":
        D = D.astype(np.float32).astype(np.float64)
    found = MDS(2, device="auto" if kind == "in place" else "cuda", dtype="float32", max_iter=10, **words)
    found.fit(given, weights=W)
    assert found.placement_.gpu == 0
    assert (found.embedding_ == np.float64(np.float32(found.embedding_))).all()
    d = squareform(pdist(found.embedding_))
    stress = ((1.0 if W is None else W) * (D - d) ** 2).sum() / 2
    assert abs(found.raw_stress_ - stress) <= found.stress_error_ < 1e-4 * stress
    assert (np.diff(found.history_) < 0).all()


@pytest.mark.parametrize("init", ["classical_mds", "landmark", "random"])
def test_whole_fits_end_at_the_same_stress(init):
    D = squareform(pdist(spread(sized(40, 400), 5, 3))).astype(np.float32)
    options = {"metric": "precomputed", "init": init, "random_state": 1, "eps": 1e-12, "max_iter": 3000}
    there = MDS(3, **options).fit(on_device(D))
    here = MDS(3, device="cpu", **options).fit(D)
    assert there.placement_.gpu == 0
    assert there.status_ in ("converged", "precision")
    if init != "random":
        assert there.normalized_stress_ == pytest.approx(here.normalized_stress_, abs=1e-5)
    assert there.gradient_norm_ <= 1e-2 * np.sqrt(there.raw_stress_ + 1.0)
    test = there.check_minimum(on_device(D))
    assert test.verdict in ("minimum", "flat", "saddle", "not stationary")


@pytest.mark.parametrize("init", ["classical_mds", "landmark"])
def test_starts_and_the_test_of_a_minimum_are_those_of_the_cpu(init):
    D = squareform(pdist(np.random.default_rng(5).normal(size=(40, 3))))
    options = {"metric": "precomputed", "init": init, "random_state": 1, "eps": 1e-13, "max_iter": 2000}
    there = MDS(2, device="cuda", **options).fit(D)
    here = MDS(2, device="cpu", **options).fit(D)
    assert there.raw_stress_ == pytest.approx(here.raw_stress_, rel=1e-9)
    one, other = there.check_minimum(D), here.check_minimum(D)
    assert one.verdict == other.verdict
    assert one.least_eigenvalue == pytest.approx(other.least_eigenvalue, abs=1e-3)


def test_new_points_are_placed():
    X = spread(sized(40, 200), 2)
    D = squareform(pdist(X))
    model = MDS(2, metric="precomputed").fit(on_device(D))
    np.testing.assert_array_equal(model.transform(on_device(D[:5])), model.transform(D[:5]))


def test_bad_pairs_on_the_gpu():
    D = squareform(pdist(spread(70)))
    model = MDS(2, metric="precomputed")

    def spoiled(row, column, value, both=True):
        bad = D.copy()
        bad[row, column] = value
        if both:
            bad[column, row] = value
        return on_device(bad)

    for bad, words in (
        (spoiled(3, 40, -1.0), "row 4, column 41 has -1, expected at least 0"),
        (spoiled(3, 40, np.inf), "row 4, column 41 has inf, expected a finite number"),
        (spoiled(3, 40, 9.0, both=False), "row 4, column 41 has 9, and row 41, column 4"),
        (spoiled(8, 8, 1.0), "row 9, column 9 has 1, expected 0 on the diagonal"),
        (spoiled(8, 8, np.inf), "row 9, column 9 has inf, expected 0 on the diagonal"),
        (spoiled(8, 8, np.nan), "row 9, column 9 has nan, expected 0 on the diagonal"),
        (on_device(np.zeros((3, 4))), "expected a square matrix"),
        (on_device(np.zeros(5)), "found 5 numbers"),
        (on_device(np.zeros((4, 4), np.int64)), "found int64 on a GPU"),
    ):
        with pytest.raises(DataError, match=words):
            model.fit(bad)
    with pytest.raises(DataError, match="row 4, column 41 has nan, expected a number"):
        model.fit(on_device(D), weights=spoiled(3, 40, np.nan))
    with pytest.raises(DataError, match=r"found a largest one of .* on a GPU"):
        model.fit(on_device(D), weights=on_device(np.full_like(D, 1e200)))
    rounded = model.fit(on_device(D + 1e-8 * np.eye(70))).embedding_
    np.testing.assert_array_equal(model.fit(on_device(D)).embedding_, rounded)
    with pytest.raises(AttributeError, match="found 70 points with given dissimilarities"):
        _ = model.dissimilarity_matrix_
    with pytest.raises(ParameterError, match="device='cpu'"):
        MDS(2, metric="precomputed", metric_mds=False).fit(on_device(D))
    with pytest.raises(ParameterError, match="at most 16"):
        MDS(17, metric="precomputed", device="cuda").fit(D)
    with pytest.raises(DataError, match="groups of points"):
        model.fit(on_device(np.where(np.add.outer(np.arange(70), np.arange(70)) % 2, np.nan, D)))


def test_memory_goes_back():
    # So many that a leak would be larger than what other processes take meanwhile.
    n, rounds = sized(200, 5000), sized(3, 40)
    features, size = spread(n), 8 * n * (n - 1) // 2
    free = cuda.device_info()["free_bytes"]
    for _ in range(rounds):
        pairs = cuda.ResidentPairs(n, features=features, stored=True)
        assert pairs.device_bytes >= size
        pairs.close()
    assert cuda.device_info()["free_bytes"] >= free - rounds * size // 2
