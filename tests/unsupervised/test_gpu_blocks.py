"""Mixtures and components of rows of which a GPU, or the emulator, holds some blocks at a time."""

from __future__ import annotations

import gc
import time
import weakref

import numpy as np
import pytest
from devices import gpu

from bmrm import PCA, GaussianMixture, TruncatedSVD
from bmrm.distributed import blocks
from bmrm.distributed.row_set import RowSet
from bmrm.unsupervised.decomposition import gpu as gram

pytestmark = gpu

BLOCK_ROWS = 1024
COLUMNS = 3
RESIDENT = (6, 2, 0)
"""Numbers of the six blocks of the rows below that stay."""


@pytest.fixture
def limit(monkeypatch):
    """Return a function that sets how many blocks stay."""
    monkeypatch.setattr(blocks, "BLOCK_BYTES", BLOCK_ROWS * COLUMNS * 8)
    monkeypatch.setattr(gram, "room_for_blocks", lambda *of: 1 << 40)

    def limit(resident):
        monkeypatch.setattr(gram, "count_resident", lambda *words: resident)

    return limit


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    n = 5 * BLOCK_ROWS + 100
    return 4 * rng.normal(size=(4, COLUMNS))[rng.integers(0, 4, n)] + rng.normal(size=(n, COLUMNS))


@pytest.fixture
def weights(rows):
    return np.random.default_rng(1).integers(0, 3, len(rows)).astype(float)


def bits(model, names):
    return [np.asarray(getattr(model, name)).tobytes() for name in names]


def expect_note(model, resident):
    note = f"; {resident} of 6 blocks of 1024 rows stay there, the others are copied in each pass"
    assert model.placement_.reason.endswith(note) == (resident < 6)


@pytest.mark.parametrize(("start", "kind"), [("kmeans", "full"), ("random_from_data", "diag")])
def test_mixtures_have_the_bits_of_rows_that_stay(limit, rows, weights, kind, start):
    options = {"covariance_type": kind, "init_params": start, "random_state": 0, "max_iter": 3}
    names = ("weights_", "means_", "covariances_", "lower_bounds_")
    found, shares = [], []
    for resident in RESIDENT:
        limit(resident)
        model = GaussianMixture(3, device="cuda", **options).fit(rows, sample_weight=weights)
        expect_note(model, resident)
        found.append(bits(model, names))
        shares.append(model.predict_proba(rows))
    assert found[0] == found[1] == found[2]
    np.testing.assert_array_equal(shares[0], shares[2])
    alone = GaussianMixture(3, device="cpu", **options).fit(rows, sample_weight=weights)
    np.testing.assert_allclose(model.covariances_, alone.covariances_, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(shares[0], alone.predict_proba(rows), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("make", [PCA, TruncatedSVD])
def test_components_have_the_bits_of_rows_that_stay(limit, rows, weights, make, tmp_path):
    np.save(tmp_path / "X.npy", rows + 7.0)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    found = []
    for resident in RESIDENT:
        limit(resident)
        model = make(2, device="cuda").fit(mapped, sample_weight=weights)
        expect_note(model, resident)
        found.append(bits(model, ("components_", "singular_values_", "singular_value_bounds_")))
    assert found[0] == found[1] == found[2]
    alone = make(2, device="cpu").fit(rows + 7.0, sample_weight=weights)
    np.testing.assert_allclose(model.singular_values_, alone.singular_values_, rtol=1e-12)


def test_a_mixture_counts_what_its_k_means_takes(limit, rows, monkeypatch):
    asked = []

    def count(*words):
        asked.append(words)
        return blocks.count_resident(*words)

    monkeypatch.setattr(gram, "count_resident", count)
    GaussianMixture(3, device="cuda", max_iter=1, random_state=0).fit(rows)
    PCA(2, device="cuda").fit(rows)
    (number, block, slot, _, columns), (_, least, same, _, nothing) = asked
    assert (number, columns, nothing) == (6, blocks.COLUMN_BYTES * len(rows), 0)
    assert slot > block > least == same > BLOCK_ROWS * COLUMNS * 8


@pytest.mark.parametrize("resident", RESIDENT)
def test_memory_goes_back_before_python_looks_for_cycles(limit, rows, resident):
    limit(resident)
    gc.disable()
    try:
        held = gram.DeviceGram(RowSet(rows, None), 0)
        held.scatter()
        blocks_of = weakref.ref(held.blocks)
        del held
        until = time.monotonic() + 10  # the thread that copies may still hold the last block
        while blocks_of() is not None and time.monotonic() < until:
            time.sleep(0.01)
        assert blocks_of() is None
    finally:
        gc.enable()
