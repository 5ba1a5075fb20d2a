"""Frames in and out of the estimators, as scikit-learn's users know them."""

import pickle

import numpy as np
import pytest

from bmrm import MDS, PCA, GaussianMixture, KernelDensity, KMeans, TruncatedSVD
from bmrm.errors import DataError, ParameterError

pandas = pytest.importorskip("pandas")

NAMES = ["height", "weight", "age"]
TRANSFORMERS = [KMeans(3, random_state=0), PCA(2), TruncatedSVD(2), MDS(2)]


def frame(rows=40):
    X = np.random.default_rng(0).normal(size=(rows, 3))
    return pandas.DataFrame(X, columns=NAMES, index=range(100, 100 + rows))


@pytest.mark.parametrize(
    "model", [*TRANSFORMERS, GaussianMixture(2), KernelDensity()], ids=lambda m: type(m).__name__
)
def test_columns_of_other_names_are_refused(model):
    X = frame()
    model.fit(X)
    assert model.feature_names_in_.tolist() == NAMES
    methods = [
        getattr(model, name)
        for name in ("predict", "transform", "score_samples", "score")
        if hasattr(model, name)
    ]
    assert methods
    for method in methods:
        method(X)
        method(X.to_numpy())
        with pytest.raises(DataError, match="X: found 'weight' as column 1, expected 'height'"):
            method(X[["weight", "height", "age"]])
        with pytest.raises(DataError, match="X: found no column 'age'"):
            method(X.rename(columns={"age": "years"}))
    model.fit(X.to_numpy())
    assert not hasattr(model, "feature_names_in_")


@pytest.mark.parametrize("model", TRANSFORMERS, ids=lambda m: type(m).__name__)
def test_a_transformer_returns_the_frame_that_is_asked_for(model):
    X = frame()
    values = model.fit(X).transform(X)
    prefix = type(model).__name__.lower()
    names = [f"{prefix}{j}" for j in range(values.shape[1])]
    assert (type(values), model.get_feature_names_out().tolist()) == (np.ndarray, names)
    assert model.set_output(transform="pandas") is model
    for found in (model.transform(X), model.fit_transform(X), pickle.loads(pickle.dumps(model)).transform(X)):
        assert found.columns.tolist() == names
        assert found.index.tolist() == X.index.tolist()
        assert np.array_equal(found.to_numpy(), values)
    assert model.transform(X.to_numpy()).index.tolist() == list(range(40))
    model.set_output()
    assert isinstance(model.transform(X), pandas.DataFrame)
    assert isinstance(model.set_output(transform="default").transform(X), np.ndarray)
    with pytest.raises(ParameterError, match="transform: found 'numpy', expected one of default, pandas"):
        model.set_output(transform="numpy")


def test_frames_of_polars():
    polars = pytest.importorskip("polars")
    X = polars.DataFrame(frame().to_dict("list"))
    model = PCA(2).set_output(transform="polars").fit(X)
    assert model.feature_names_in_.tolist() == NAMES
    found = model.transform(X)
    assert (type(found), found.columns) == (polars.DataFrame, ["pca0", "pca1"])
    assert np.array_equal(found.to_numpy(), model.set_output(transform="default").transform(X))


def test_scikit_learn_sets_the_output():
    sklearn = pytest.importorskip("sklearn")
    from sklearn.compose import make_column_transformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X = frame()
    with sklearn.config_context(transform_output="pandas"):
        assert list(PCA(2).fit_transform(X).columns) == ["pca0", "pca1"]
    assert isinstance(PCA(2).fit_transform(X), np.ndarray)
    found = make_pipeline(StandardScaler(), PCA(2)).set_output(transform="pandas").fit_transform(X)
    assert (list(found.columns), found.index[0]) == (["pca0", "pca1"], 100)
    parts = make_column_transformer((PCA(1), NAMES[:2]), (KMeans(2, random_state=0), NAMES[2:]))
    found = parts.set_output(transform="pandas").fit_transform(X)
    assert list(found.columns) == ["pca__pca0", "kmeans__kmeans0", "kmeans__kmeans1"]
    assert sklearn.base.clone(PCA(2).set_output(transform="pandas")).fit(X).transform(X).shape == (40, 2)
