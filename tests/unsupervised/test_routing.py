"""Estimators in scikit-learn's metadata routing, names of parameters, and names of columns before a fit."""

import pickle
import subprocess
import sys

import numpy as np
import pytest

from bmrm import MDS, PCA, GaussianMixture, KernelDensity, KMeans, TruncatedSVD
from bmrm.errors import BmrmError, DataError, ParameterError

ESTIMATORS = (KMeans, GaussianMixture, PCA, TruncatedSVD, MDS, KernelDensity)


@pytest.fixture
def routing():
    sklearn = pytest.importorskip("sklearn")
    with sklearn.config_context(enable_metadata_routing=True):
        yield sklearn


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_requests_are_kept_and_cloned(routing, kind):
    from sklearn.base import clone

    name = "weights" if kind is MDS else "sample_weight"
    model = kind(2)
    assert model.get_metadata_routing().fit.requests[name] is None
    assert model.set_fit_request(**{name: True}) is model
    for each in (model, clone(model), pickle.loads(pickle.dumps(model))):
        assert each.get_metadata_routing().fit.requests[name] is True
    assert kind(2).get_metadata_routing().fit.requests[name] is None
    model.set_fit_request(**{name: "$UNCHANGED$"})
    assert model.get_metadata_routing().fit.requests[name] is True
    with pytest.raises(ParameterError, match=f"did you mean '{name}'"):
        model.set_fit_request(**{name + "s" if name[-1] != "s" else name[:-1]: True})


def test_a_search_passes_weights_to_fit_and_score(routing):
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(90, 2)), rng.integers(0, 3, 90).astype(float)
    mixture = GaussianMixture(random_state=0).set_fit_request(sample_weight=True)
    mixture.set_score_request(sample_weight=True)
    found = GridSearchCV(mixture, {"n_components": [1, 2]}, cv=3).fit(X, sample_weight=w)
    train = np.arange(30, 90)
    one = GaussianMixture(1, random_state=0).fit(X[train], sample_weight=w[train])
    expected = one.score(X[:30], sample_weight=w[:30])
    assert found.cv_results_["split0_test_score"][0] == pytest.approx(expected)
    pipeline = make_pipeline(
        StandardScaler().set_fit_request(sample_weight=False),
        KMeans(2, random_state=0).set_fit_request(sample_weight=True),
    )
    pipeline.fit(X, sample_weight=w)
    assert pipeline[-1].cluster_weights_.sum() == w.sum()


def test_requests_need_routing_to_be_switched_on():
    pytest.importorskip("sklearn")
    with pytest.raises(RuntimeError, match="enable_metadata_routing") as caught:
        KMeans(2).set_fit_request(sample_weight=True)
    assert isinstance(caught.value, BmrmError)


def test_nothing_imports_scikit_learn():
    text = (
        "import sys, numpy as np; from bmrm import KMeans; "
        "KMeans(1).set_params(n_clusters=2).fit(np.eye(2)); assert 'sklearn' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", text], check=True)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: KMeans(n_cluster=3), "n_cluster: no parameter of KMeans; did you mean 'n_clusters'?"),
        (lambda: KMeans(n_jobs=3), "n_jobs: no parameter of KMeans; did you mean 'threads'?"),
        (lambda: KMeans().set_params(max_iters=3), "did you mean 'max_iter'"),
        (lambda: GaussianMixture(covariance="full"), "did you mean 'covariance_type'?"),
        (lambda: GaussianMixture(init="kmeans"), "did you mean 'init_params'?"),
        (lambda: MDS(dissimilarity="precomputed"), "did you mean 'metric'?"),
        (lambda: PCA(whitened=True), "did you mean 'whiten'?"),
        (lambda: TruncatedSVD(max_iters=3), "did you mean 'max_iter'"),
        (lambda: MDS(metric=False).fit(np.eye(2)), "metric_mds chooses"),
        (lambda: KMeans(algorithm="auto").fit(np.eye(9)), "algorithm: found 'auto', expected lloyd or elkan"),
    ],
)
def test_another_name_is_answered_with_the_nearest(call, text):
    with pytest.raises(ParameterError) as caught:
        call()
    assert text in str(caught.value)


def test_classes_of_users_have_parameters_of_their_own():
    class Named(KMeans):
        def __init__(self, n_clusters=2, name="none"):
            super().__init__(n_clusters, random_state=0)
            self.name = name

    class Open(KMeans):
        def __init__(self, **words):
            super().__init__(**words)

    assert Named(3, name="one").fit(np.eye(4)).n_clusters == 3
    assert Named().get_params() == {"n_clusters": 2, "name": "none"}
    assert Open(n_clusters=3).n_clusters == 3
    for wrong in (lambda: Named(names=2), lambda: Open(n_cluster=3)):
        with pytest.raises(ParameterError, match="no parameter of"):
            wrong()


def test_arguments_that_change_nothing_are_taken():
    X = np.random.default_rng(0).normal(size=(40, 3))
    plain = KMeans(3, random_state=0).fit(X)
    taken = KMeans(3, random_state=0, n_init="auto", algorithm="elkan", copy_x=False, verbose=0).fit(X)
    np.testing.assert_array_equal(taken.labels_, plain.labels_)
    assert taken.get_params()["algorithm"] == "elkan"
    GaussianMixture(2, verbose_interval=5, random_state=0).fit(X)
    for jobs in (2, -1):
        np.testing.assert_array_equal(MDS(2, n_jobs=jobs).fit_transform(X), MDS(2).fit_transform(X))
    with pytest.raises(ParameterError, match="n_jobs: found 0, expected a positive number, or -1"):
        MDS(2, n_jobs=0).fit(X)


@pytest.mark.parametrize("kind", [KMeans, PCA, TruncatedSVD, MDS])
def test_names_of_columns_before_a_fit_are_an_error(kind):
    exceptions = pytest.importorskip("sklearn.exceptions")
    with pytest.raises(exceptions.NotFittedError, match="found no fitted model"):
        kind(2).get_feature_names_out()
    assert not hasattr(MDS(2), "dissimilarity_matrix_")


def test_a_warm_start_is_from_components_of_the_same_kind():
    rng = np.random.default_rng(1)
    X = np.r_[rng.normal(size=(60, 2)), rng.normal(size=(60, 2)) * [2, 0.5] + 5]
    types = ("full", "tied", "diag", "spherical")
    for old in types:
        for new in types:
            model = GaussianMixture(2, warm_start=True, random_state=0, covariance_type=old).fit(X)
            score, bic = model.score(X), model.bic(X)
            model.set_params(covariance_type=new)
            assert (model.score(X), model.bic(X)) == (score, bic)  # of the fitted model
            model.sample(3)
            if old == new:
                assert model.fit(X).lower_bound_ == pytest.approx(model.score(X))
                continue
            with pytest.raises(DataError, match=f"covariance_type '{old}', expected '{new}'"):
                model.fit(X)
    with pytest.raises(DataError, match="found 2 components of 2 columns, expected 3 of 2"):
        GaussianMixture(2, warm_start=True, random_state=0).fit(X).set_params(n_components=3).fit(X)
    with pytest.raises(DataError, match="expected 2 of 1"):
        GaussianMixture(2, warm_start=True, random_state=0).fit(X).fit(X[:, :1])


def test_criteria_of_weights_are_those_of_repeated_rows():
    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(200, 2)), rng.integers(0, 5, 200)
    repeated = np.repeat(X, w, axis=0)
    model = GaussianMixture(2, random_state=0).fit(X, sample_weight=w)
    for name in ("score", "bic", "aic"):
        of = getattr(model, name)
        assert of(X, sample_weight=w) == pytest.approx(of(repeated))
        assert of(X, sample_weight=np.ones(200)) == of(X)
    assert model.score(X, sample_weight=w) == pytest.approx(model.lower_bound_)
    far = np.r_[X, [[1e9, 1e9]]]
    assert model.score(far, sample_weight=[*w, 0]) == pytest.approx(model.score(X, sample_weight=w))
    with pytest.raises(DataError, match="sample_weight"):
        model.bic(X, sample_weight=np.ones(3))
    assert GaussianMixture(2, random_state=0, max_iter=0).fit(X).status_ == "max_iter"
