"""KernelDensity: scikit-learn's names over `bmrm.pairs.kde`."""

import pickle

import numpy as np
import pytest

from bmrm import KernelDensity, pairs
from bmrm.errors import BmrmError, DataError, ParameterError


def rows(n=400, d=2):
    return np.random.default_rng(0).normal(size=(n, d))


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_densities_are_those_of_pairs(kind):
    X, w = rows().astype(kind), np.random.default_rng(1).integers(0, 3, 400)
    model = KernelDensity(0.3, kernel="linear").fit(X, sample_weight=w)
    wanted = pairs.kde(X, X[:50] + 1, bandwidth=0.3, kernel="linear", weights=w, log=True)
    assert model.score_samples(X[:50] + 1).tolist() == wanted.values.tolist()
    assert model.density(X[:50] + 1).error_bound.tolist() == wanted.error_bound.tolist()
    assert model.score(X) == model.score_samples(X).sum()
    again = pickle.loads(pickle.dumps(model))
    assert again.score(X) == model.score(X)


def test_scikit_learn_finds_a_bandwidth():
    pytest.importorskip("sklearn")
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X = 5.0 * rows() + 3.0
    pipeline = make_pipeline(StandardScaler(), KernelDensity())
    found = GridSearchCV(pipeline, {"kerneldensity__bandwidth": [0.01, 0.4, 5.0]}, cv=3).fit(X)
    assert found.best_params_ == {"kerneldensity__bandwidth": 0.4}
    assert found.best_estimator_.score_samples(X).shape == (400,)


def test_rules_of_bandwidths():
    sklearn = pytest.importorskip("sklearn.neighbors")
    for rule in ("scott", "silverman"):
        assert (
            KernelDensity(rule).fit(rows()).bandwidth_
            == sklearn.KernelDensity(bandwidth=rule).fit(rows()).bandwidth_
        )


@pytest.mark.parametrize("kernel", ["gaussian", "tophat"])
def test_samples_have_the_moments_of_the_density(kernel):
    X, w = np.array([[0.0, 0.0], [4.0, 0.0], [9.0, 9.0]], np.float32), [3.0, 1.0, 0.0]
    model = KernelDensity(0.5, kernel=kernel).fit(X, sample_weight=w)
    found = model.sample(20_000, random_state=0)
    assert found.shape == (20_000, 2)
    assert (found == model.sample(20_000, random_state=0)).all()
    spread = 0.25 if kernel == "gaussian" else 0.25 / 4  # of a coordinate in a disc of radius 1/2
    np.testing.assert_allclose(found.mean(axis=0), [1.0, 0.0], atol=0.05)
    np.testing.assert_allclose(found.var(axis=0), [3.0 + spread, spread], rtol=0.05)
    if kernel == "tophat":
        assert np.isfinite(model.score_samples(found)).all()
    assert model.sample().shape == (1, 2)


def test_errors():
    with pytest.raises(BmrmError, match="KernelDensity: found no fitted model"):
        KernelDensity().score_samples(rows())
    with pytest.raises(ParameterError, match="kernel: found 'cosin'"):
        KernelDensity(kernel="cosin").fit(rows())
    with pytest.raises(ParameterError, match="bandwidth: found 0"):
        KernelDensity(0.0).fit(rows())
    with pytest.raises(DataError, match="sample_weight: found only zeros"):
        KernelDensity().fit(rows(), sample_weight=np.zeros(400))
    with pytest.raises(DataError, match="X: found 3 columns, expected 2 as in fit"):
        KernelDensity().fit(rows()).score_samples(rows(d=3))
    with pytest.raises(ParameterError, match="kernel: found 'linear', expected gaussian or tophat"):
        KernelDensity(kernel="linear").fit(rows()).sample()
    with pytest.raises(ParameterError, match="n_samples"):
        KernelDensity().fit(rows()).sample(0)
