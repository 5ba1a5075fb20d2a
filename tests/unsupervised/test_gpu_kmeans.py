"""KMeans on a GPU or the emulator, against the CPU."""

import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from devices import gpu, large, on_device, sized

from bmrm import KMeans
from bmrm.errors import DataError, ParameterError

pytestmark = gpu


ROWS = sized(600, 20_000)


def rows(dtype=np.float32, n=ROWS):
    rng = np.random.default_rng(0)
    centers = 4 * rng.normal(size=(12, 6))
    return (centers[rng.integers(0, 12, n)] + rng.normal(size=(n, 6))).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_fit_is_that_of_the_cpu(dtype, weighted):
    X = rows(dtype)
    weights = np.random.default_rng(1).integers(0, 4, len(X)).astype(float) if weighted else None
    options = {"init": X[:12].astype(np.float64), "max_iter": 15, "tol": 0.0}
    one = KMeans(12, device="cpu", **options).fit(X, sample_weight=weights)
    other = KMeans(12, device="cuda", **options).fit(X, sample_weight=weights)
    assert (one.placement_.device, other.placement_.device) == ("cpu", "cuda:0")
    np.testing.assert_array_equal(one.labels_, other.labels_)
    np.testing.assert_allclose(one.cluster_centers_, other.cluster_centers_, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(one.history_, other.history_, rtol=1e-12)
    again = KMeans(12, device="cuda", **options).fit(X, sample_weight=weights)
    assert again.cluster_centers_.tobytes() == other.cluster_centers_.tobytes()


def test_seeding_and_starts_work_and_are_repeatable():
    X = rows()
    found = [KMeans(12, n_init=3, random_state=0, device="cuda").fit(X) for _ in range(2)]
    assert found[0].cluster_centers_.tobytes() == found[1].cluster_centers_.tobytes()
    best = KMeans(12, n_init=3, random_state=0, device="cpu").fit(X).inertia_
    assert found[0].inertia_ < sized(1.3, 1.05) * best
    assert KMeans(12, init="random", random_state=0, device="cuda").fit(X).inertia_ < 2 * best


def test_empty_clusters_get_rows():
    X = np.array([[0.0], [1.0], [2.0], [10.0], [30.0]])
    init = np.array([[1.0], [100.0], [200.0]])
    found = KMeans(3, init=init, max_iter=1, device="cuda").fit(X)
    np.testing.assert_array_equal(found.cluster_centers_.ravel(), [1.0, 30.0, 10.0])


def test_new_rows_are_labelled_and_measured():
    X, new = rows(np.float64), rows(np.float64)[::7] + 0.3
    model = KMeans(12, random_state=0, device="cpu").fit(X)
    there = KMeans.of_centers(model.cluster_centers_, device="cuda")
    np.testing.assert_array_equal(model.predict(new), there.predict(new))
    np.testing.assert_allclose(model.transform(new), there.transform(new), rtol=1e-12)
    assert np.isclose(model.score(new), there.score(new), rtol=1e-12)
    proofs = [each.certificate(X, samples=0) for each in (model, there)]
    assert proofs[0].moves_left == proofs[1].moves_left
    np.testing.assert_allclose(proofs[0].lower_bound, proofs[1].lower_bound, rtol=1e-10)


@pytest.mark.parametrize("kind", [np.array, sp.csr_array])
@pytest.mark.parametrize("exponent", [-700, 400])
def test_a_power_of_two_changes_no_digit(kind, exponent):
    n = sized(300, 3000)
    X, w = rows(np.float64, n), np.random.default_rng(1).random(n) + 0.5
    options = {"init": "k-means||", "random_state": 0, "device": "cuda"}
    one = KMeans(12, **options).fit(kind(X), sample_weight=w)
    far = KMeans(12, **options).fit(kind(np.ldexp(X, exponent)), sample_weight=np.ldexp(w, -exponent))
    np.testing.assert_array_equal(far.labels_, one.labels_)
    np.testing.assert_array_equal(far.cluster_centers_, np.ldexp(one.cluster_centers_, exponent))
    assert far.history_ == np.ldexp(one.history_, exponent).tolist()
    assert far.inertia_error_ < 1e-9 * far.inertia_


def test_tiny_rows_on_a_gpu_are_refused():
    with pytest.raises(DataError, match=r"found a largest value of .* on a GPU, expected"):
        KMeans(2).fit(on_device(np.ldexp(rows(np.float64, 100), -700)))


def test_arrays_on_a_gpu_stay_there():
    X = rows()
    there = on_device(X)
    found = KMeans(12, random_state=0).fit(there)
    assert found.placement_.device == "cuda:0"
    assert (
        found.cluster_centers_.tobytes()
        == KMeans(12, random_state=0, device="cuda").fit(X).cluster_centers_.tobytes()
    )
    np.testing.assert_array_equal(found.predict(there), found.labels_)
    with pytest.raises(ParameterError, match="for rows on GPU 0"):
        KMeans(12, device="cpu").fit(there)


@large
@pytest.mark.parametrize("here", [False, True])
def test_a_callable_gets_the_rows_on_the_gpu(here):
    cp = pytest.importorskip("cupy")
    X = rows()
    given = []

    def init(there, k, rng):
        given.append(there)
        found = there[rng.integers(0, len(there), k)]
        return cp.asnumpy(found) if here else found

    found = KMeans(12, init=init, n_init=1, random_state=0).fit(cp.asarray(X))
    assert isinstance(given[0], cp.ndarray)
    first = X[np.random.default_rng(0).integers(0, len(X), 12)].astype(np.float64)
    expected = KMeans(12, init=first, device="cuda").fit(X)
    assert found.cluster_centers_.tobytes() == expected.cluster_centers_.tobytes()


@large
def test_auto_is_the_cpu_for_few_rows_and_the_gpu_for_many():
    few = rows(n=200)
    KMeans(3, device="cuda").fit(few)  # starts the GPU
    assert KMeans(3).fit(few).placement_.device == "cpu"
    many = np.tile(rows(), (40, 1))
    found = KMeans(64, random_state=0, max_iter=5, threads=2).fit(many)
    assert found.placement_.device == "cuda:0"
    assert "the CPU takes" in found.placement_.reason


@large
def test_auto_decides_about_sparse_rows_too():
    rng = np.random.default_rng(0)
    few = sp.random_array((200, 30), density=0.2, format="csr", rng=rng)
    KMeans(3, device="cuda").fit(few)  # starts the GPU
    assert KMeans(3).fit(few).placement_.device == "cpu"
    many = sp.random_array((400_000, 300), density=0.1, format="csr", rng=rng)
    options = {"random_state": 0, "max_iter": 3, "init": "random", "n_init": 1}
    found = KMeans(64, threads=2, **options).fit(many)
    assert found.placement_.device == "cuda:0"
    assert "the CPU takes" in found.placement_.reason
    here = KMeans(64, device="cpu", **options).fit(many)
    np.testing.assert_array_equal(found.labels_, here.labels_)


@large  # another process
def test_the_command_runs_on_a_gpu(tmp_path):
    np.save(tmp_path / "rows.npy", rows())
    command = [sys.executable, "-m", "bmrm.cli.cluster", "rows.npy", "-k", "12", "--device", "cuda", "--json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert '"device": "cuda:0"' in done.stdout
