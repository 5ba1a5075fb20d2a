"""Estimators whose rows do not fit on a GPU, or the emulator: the CPU has some of the other blocks."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from devices import gpu, sized

from bmrm import PCA, GaussianMixture, KMeans, TruncatedSVD
from bmrm.distributed import blocks
from bmrm.distributed.row_set import RowSet
from bmrm.errors import ParameterError
from bmrm.matrix.gpu import cache
from bmrm.unsupervised.decomposition import gpu as gram

pytestmark = gpu

BLOCK_ROWS, COLUMNS = 1024, 3
N = 9 * BLOCK_ROWS + 100
STAY = 2
"""Of ten blocks; eight are copied in each pass or are the CPU's."""


@pytest.fixture(autouse=True)
def few_blocks_stay(monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_BYTES", BLOCK_ROWS * COLUMNS * 8)
    for module in (blocks, gram):
        monkeypatch.setattr(module, "room_for_blocks", lambda *of: 1 << 40)
        monkeypatch.setattr(module, "count_resident", lambda number, *of: STAY if number > 1 else 1)


@pytest.fixture(autouse=True)
def no_rates(monkeypatch, tmp_path):
    """Forget what was measured, and leave no rate to other tests, whose blocks the CPU would get."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "_known_times", {})


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    return 4 * rng.normal(size=(4, COLUMNS))[rng.integers(0, 4, N)] + rng.normal(size=(N, COLUMNS))


@pytest.fixture
def weights(rows):
    return np.random.default_rng(1).integers(0, 3, len(rows)).astype(float)


def bits(model, names):
    return [np.asarray(getattr(model, name)).tobytes() for name in names]


def expect_split(model, eighths):
    text = f"the CPU computes {eighths} of 8 blocks that do not fit, rows {(10 - eighths) * 1024} to {N - 1}"
    assert model.placement_.reason.endswith(text) == (eighths > 0)


SHARES = (0, 3, 8)


def fits(make, rows, weights):
    """Return models by share, on two numbers of threads each, whose bits do not differ."""
    found = []
    for eighths in SHARES:
        model, other = (make(eighths / 8, threads).fit(rows, sample_weight=weights) for threads in (1, 3))
        expect_split(model, eighths)
        found.append((model, other))
    return found


@pytest.mark.parametrize("init", ["k-means++", "k-means||"])
@pytest.mark.parametrize("form", ["dense", "float32", "sparse"])
def test_k_means(rows, weights, form, init):
    given = rows.astype(np.float32) if form == "float32" else rows
    if form == "sparse":
        given = sp.csr_array(np.where(rows > 0.0, rows, 0.0))
    stored = given.nnz * 12 + 8 * N if form == "sparse" else given.nbytes
    passes = sized(2, 6) if form == "sparse" else 6  # the emulator takes long for a sparse row
    options = {"init": init, "random_state": 0, "max_iter": passes}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "BLOCK_BYTES", 1025 * stored // N)
        found = fits(
            lambda share, threads: KMeans(4, device="cuda", cpu_share=share, threads=threads, **options),
            given,
            weights,
        )
        alone = KMeans(4, device="cpu", **options).fit(given, sample_weight=weights)
        for model, other in found:
            names = ("cluster_centers_", "labels_", "history_")
            assert bits(model, names) == bits(other, names)
            np.testing.assert_array_equal(model.labels_, alone.labels_)
            np.testing.assert_allclose(model.cluster_centers_, alone.cluster_centers_, rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(model.history_, alone.history_, rtol=1e-9)
        model = found[1][0]
        np.testing.assert_array_equal(model.predict(given), model.labels_)
        np.testing.assert_allclose(model.transform(given), alone.transform(given), rtol=1e-6, atol=1e-6)
        mine, theirs = (each.certificate(given, weights, samples=0) for each in (model, alone))
        assert mine.moves_left == theirs.moves_left
        assert mine.inertia == pytest.approx(theirs.inertia)


@pytest.mark.parametrize(("start", "kind"), [("kmeans", "full"), ("random_from_data", "diag")])
def test_mixtures(rows, weights, kind, start):
    options = {"covariance_type": kind, "init_params": start, "random_state": 0, "max_iter": 3}
    found = fits(
        lambda share, threads: GaussianMixture(3, device="cuda", cpu_share=share, threads=threads, **options),
        rows,
        weights,
    )
    alone = GaussianMixture(3, device="cpu", **options).fit(rows, sample_weight=weights)
    for model, other in found:
        names = ("weights_", "means_", "covariances_", "lower_bounds_")
        assert bits(model, names) == bits(other, names)
        np.testing.assert_allclose(model.covariances_, alone.covariances_, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(model.predict_proba(rows), alone.predict_proba(rows), rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("make", [PCA, TruncatedSVD])
def test_components(rows, weights, make, tmp_path):
    np.save(tmp_path / "X.npy", rows + 7.0)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    found = fits(
        lambda share, threads: make(2, device="cuda", cpu_share=share, threads=threads), mapped, weights
    )
    alone = make(2, device="cpu").fit(rows + 7.0, sample_weight=weights)
    for model, other in found:
        names = ("components_", "singular_values_", "singular_value_bounds_")
        assert bits(model, names) == bits(other, names)
        np.testing.assert_allclose(model.singular_values_, alone.singular_values_, rtol=1e-12)
        low, high = model.singular_value_bounds_.T
        assert (low <= alone.singular_value_bounds_[:, 1]).all()
        assert (alone.singular_value_bounds_[:, 0] <= high).all()


def test_without_a_share_of_the_cpu_bits_are_those_of_rows_that_stay(monkeypatch, rows):
    options = {"device": "cuda", "random_state": 0, "max_iter": 4}
    found = KMeans(4, cpu_share=0, **options).fit(rows)
    monkeypatch.setattr(blocks, "count_resident", lambda number, *of: number)
    whole = KMeans(4, cpu_share=1, **options).fit(rows)  # there is nothing to share
    assert whole.placement_.reason == "as given"
    assert found.cluster_centers_.tobytes() == whole.cluster_centers_.tobytes()


@pytest.mark.parametrize(
    "model", [KMeans(4, max_iter=2, random_state=0), GaussianMixture(2, max_iter=1, random_state=0), PCA(2)]
)
def test_the_share_follows_from_measured_rates(monkeypatch, rows, model):
    names = []

    def known(device, name, measure):
        names.append(name)
        return 24.0 if "row" in name.split(" of ")[0] else 3.0  # 24 bytes of a row, at 3 s each

    assert "the CPU" not in model.set_params(device="cuda").fit(rows).placement_.reason
    monkeypatch.setattr(cache, "known_time", known)
    expect_split(model.set_params(cpu_share="auto").fit(rows), 6)
    monkeypatch.setattr(cache, "stored_time", lambda device, name: known(device, name, None))
    found = model.set_params(cpu_share=None).fit(rows)
    expect_split(found, 6)
    assert len(names) == 4
    assert "cores" in names[0]


def test_rates_are_measured_once(monkeypatch, rows):
    monkeypatch.setattr("bmrm.distributed.blocks.MEASURED_VALUES", 1 << 12)
    monkeypatch.setattr("bmrm.matrix.gpu.cpu_share.DENSE_ROWS", 256)
    models = KMeans(3, max_iter=1), GaussianMixture(2, max_iter=1, covariance_type="diag"), PCA(2)
    for model in models:
        model.set_params(device="cuda", cpu_share="auto").fit(rows)
    measured = dict(cache._known_times)
    assert sum("a row of" in name for _, name in measured) >= 3
    for model in models:
        model.fit(rows)
    assert cache._known_times == measured


def test_sparse_rows_stream_unless_a_share_is_asked_for(monkeypatch, rows):
    monkeypatch.setattr(cache, "known_time", lambda *of: pytest.fail("nothing needs a rate"))
    X = sp.csr_array(np.where(rows > 0.0, rows, 0.0))
    found = KMeans(3, device="cuda", max_iter=1, random_state=0, cpu_share="auto").fit(X)
    assert "the CPU" not in found.placement_.reason


class _Held:
    def load(self, X, weights=None):
        pass


def shared_blocks(rows):
    cpu = blocks.CpuBlocks(3, lambda part: part)
    return blocks.RowBlocks(RowSet(rows), BLOCK_ROWS, STAY, lambda X, weights: _Held(), cpu=cpu)


def test_an_error_of_one_side_ends_the_other(rows):
    parts, seen = shared_blocks(rows), []
    assert parts.on_cpu.bounds == (7 * BLOCK_ROWS, N)

    def of(i):
        seen.append(i)
        if parts.on[i] is parts.on_cpu:
            raise MemoryError("of the CPU")
        return i

    with pytest.raises(MemoryError, match="of the CPU"):
        list(parts.each(of))

    def fails(i):
        if parts.on[i] is parts.on_cpu:
            return i
        raise MemoryError("of the GPU")

    with pytest.raises(MemoryError, match="of the GPU"):
        list(parts.each(fails))
    assert list(parts.each(lambda i: i)) == list(range(8))


@pytest.mark.parametrize("make", [KMeans, GaussianMixture, PCA, TruncatedSVD])
def test_shares_that_are_no_eighths_are_refused(rows, make):
    with pytest.raises(ParameterError, match="cpu_share"):
        make(2, cpu_share=0.3).fit(rows)
