"""Warnings name the line of the caller."""

import functools
import warnings

import numpy as np
import pytest

import bmrm
from bmrm import GaussianMixture, KMeans
from bmrm.base import notices
from bmrm.errors import ConvergenceWarning, DataConversionWarning


def test_a_warning_is_at_the_innermost_line_outside_of_the_package(monkeypatch):
    def outer():
        notices.warn("a text")

    decorated = functools.wraps(outer)(lambda: outer())
    with pytest.warns(UserWarning, match="a text") as seen:
        decorated()
    assert seen[0].filename == __file__
    monkeypatch.setattr(notices, "PACKAGE", __file__)  # this file is the package: pytest calls it
    with pytest.warns(UserWarning, match="a text") as seen:
        outer()
    assert seen[0].filename != __file__


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (lambda: KMeans(4, random_state=0).fit(np.zeros((10, 2))), ConvergenceWarning),
        (lambda: KMeans(4, random_state=0).fit_predict(np.zeros((10, 2))), ConvergenceWarning),
        (lambda: KMeans(4, random_state=0).fit_transform(np.zeros((10, 2))), ConvergenceWarning),
        (lambda: bmrm.solve(np.eye(2), [[1], [-1]]), DataConversionWarning),
    ],
)
def test_warnings_of_public_functions_name_this_file(call, kind):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("default")  # once per place
        for _ in range(3):
            call()
    assert [each.filename for each in seen] == [__file__]
    assert issubclass(seen[0].category, kind)


def test_another_line_warns_again_and_a_mixture_does_not_warn_of_clusters():
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("default")
        KMeans(4, random_state=0).fit(np.zeros((10, 2)))
        KMeans(4, random_state=0).fit(np.ones((12, 2)))
        GaussianMixture(4, random_state=0).fit(np.repeat(np.eye(3), 5, axis=0))
    assert len({each.lineno for each in seen}) == len(seen) == 2


def test_a_linear_estimator_warns_at_the_line_of_its_fit():
    estimators = pytest.importorskip("bmrm.estimators")
    X = np.random.default_rng(0).normal(size=(200, 5))
    with pytest.warns(UserWarning, match="before the gap was within") as seen:
        estimators.BMRMClassifier(max_iter=1, tol=1e-12).fit(X, X[:, 0] > 0.1)
    assert {each.filename for each in seen} == {__file__}


def test_a_pipeline_warns_at_the_line_of_its_fit():
    pipeline = pytest.importorskip("sklearn.pipeline")
    with pytest.warns(ConvergenceWarning, match="clusters are empty") as seen:
        pipeline.make_pipeline(KMeans(4, random_state=0)).fit(np.zeros((10, 2)))
    assert {each.filename for each in seen} == {__file__}
