"""Mapped files of another type or order than compiled code reads, and data sets, after a fit."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

import bmrm
from bmrm import PCA, GaussianMixture, KMeans, TruncatedSVD
from bmrm.distributed import rows
from bmrm.errors import DataError

MODELS = {
    "pca": lambda: PCA(2),
    "lanczos": lambda: PCA(2, svd_solver="lanczos", random_state=0),
    "svd": lambda: TruncatedSVD(2),
    "k-means": lambda: KMeans(3, random_state=0, max_iter=3, tol=0.0),
    "mixture": lambda: GaussianMixture(2, random_state=0, max_iter=2),
}
FORMS = {
    "Fortran": lambda X: np.asfortranarray(X.astype(np.float32)),
    "float16": lambda X: X.astype(np.float16),
    "uint8": lambda X: X,
    "int64": lambda X: X.astype(np.int64),
    "truth values": lambda X: X > 100,
    "big-endian": lambda X: X.astype(">f4"),
    "part": lambda X: np.ascontiguousarray(X.astype(np.float64)),
}


def mapped(folder, array):
    np.save(folder / "x.npy", array)
    return np.load(folder / "x.npy", mmap_mode="r")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("model", MODELS)
def test_a_mapped_file_gives_the_bits_of_rows_in_memory(form, model, tmp_path, monkeypatch):
    monkeypatch.setattr(rows, "MAX_CONVERTED_BYTES", 1 << 12)
    X = FORMS[form](np.random.default_rng(0).integers(0, 200, (500, 6)).astype(np.uint8))
    M = mapped(tmp_path, X)
    if form == "part":
        M, X = M[:, 1:], X[:, 1:]
    there, here = MODELS[model]().fit(M), MODELS[model]().fit(np.array(X))
    method = "predict" if model in ("k-means", "mixture") else "transform"
    for name in ("components_", "cluster_centers_", "means_"):
        if hasattr(here, name):
            np.testing.assert_array_equal(getattr(there, name), getattr(here, name))
    np.testing.assert_allclose(getattr(there, method)(M), getattr(here, method)(np.array(X)), rtol=1e-12)


@pytest.mark.parametrize("model", ["pca", "svd", "k-means", "mixture"])
def test_no_copy_of_the_whole_file(model, tmp_path):
    M = mapped(tmp_path, np.asfortranarray(np.random.default_rng(0).random((400_000, 16), np.float32)))
    MODELS[model]().fit(np.random.default_rng(0).normal(size=(100, 16)))
    tracemalloc.start()
    MODELS[model]().fit(np.asarray(M[:1000])) if model == "mixture" else MODELS[model]().fit(M)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 48e6  # 51 MB as float64


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e200])
def test_values_are_checked_block_by_block(value, tmp_path, monkeypatch):
    monkeypatch.setattr(rows, "MAX_CONVERTED_BYTES", 1 << 10)
    X = np.zeros((300, 3), ">f8")
    X[257, 1] = value
    text = "absolute values of at most" if value == 1e200 else "row 258, column 2 has (nan|inf), expected"
    for model in (PCA(1), KMeans(2)):
        with pytest.raises(DataError, match=text):
            model.fit(mapped(tmp_path, X))


@pytest.mark.parametrize("sparse", [False, True])
def test_a_data_set_is_taken_after_the_fit(sparse):
    rng = np.random.default_rng(0)
    X = np.where(rng.random((50, 4)) < 0.5, rng.normal(size=(50, 4)), 0.0)
    data = bmrm.Dataset(sp.csr_array(X) if sparse else X)
    for model in (PCA(2), TruncatedSVD(2)):
        places = model.fit(data).transform(data)
        np.testing.assert_allclose(places, model.transform(X), atol=1e-12)
        np.testing.assert_array_equal(model.fit_transform(data), places)
    pca = PCA(2).fit(data)
    np.testing.assert_allclose(pca.score(data), pca.score(X), rtol=1e-9)
    np.testing.assert_allclose(pca.score_samples(data), pca.score_samples(X), rtol=1e-9)
    with pytest.raises(DataError, match="found 3 columns, expected 4"):
        pca.transform(bmrm.Dataset(X[:, :3]))


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, np.longdouble])
def test_numpys_numbers_are_numbers(kind):
    X = np.random.default_rng(0).normal(size=(40, 5))
    assert PCA(kind(0.5)).fit(X).n_components_ == PCA(0.5).fit(X).n_components_
    for whole in (np.int8(2), np.int64(2), np.uint16(2)):
        assert PCA(whole).fit(X).n_components_ == 2
        assert TruncatedSVD(whole).fit(X).components_.shape == (2, 5)


@pytest.mark.parametrize("exponent", [-600, 450])
@pytest.mark.parametrize("model", ["k-means", "pca"])
def test_a_mapped_file_of_an_extreme_scale(model, exponent, tmp_path):
    X = np.ldexp(np.random.default_rng(0).normal(size=(300, 3)), exponent)
    np.save(tmp_path / "x.npy", X.astype(">f8"))
    mapped, there = MODELS[model]().fit(np.load(tmp_path / "x.npy", mmap_mode="r")), MODELS[model]().fit(X)
    name = "cluster_centers_" if model == "k-means" else "components_"
    np.testing.assert_array_equal(getattr(mapped, name), getattr(there, name))
