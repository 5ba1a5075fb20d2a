"""The detector of novel rows, against scikit-learn's."""

import numpy as np
import pytest

pytest.importorskip("sklearn", minversion="1.6")

from sklearn.svm import OneClassSVM

from bmrm.estimators import BMRMOneClass

X = 3.0 + np.random.default_rng(0).standard_normal((200, 3))


def test_the_kernel_machine_with_a_linear_kernel_finds_the_same():
    peer = OneClassSVM(kernel="linear", nu=0.1, tol=1e-10).fit(X)
    found = BMRMOneClass(nu=0.1, tol=1e-10).fit(X)
    ours, theirs = found.decision_function(X), peer.decision_function(X)
    scale = np.abs(theirs).max() / np.abs(ours).max()  # its values are larger by nu and the number of rows
    np.testing.assert_allclose(scale * ours, theirs, atol=1e-5 * np.abs(theirs).max())
    clear = np.abs(theirs) > 1e-4 * np.abs(theirs).max()  # rows on the border fall to either side
    assert (found.predict(X)[clear] == peer.predict(X)[clear]).all()


def test_attributes():
    found = BMRMOneClass(nu=0.2).fit(X)
    assert found.coef_.shape == (1, 3)
    np.testing.assert_allclose(found.decision_function(X), (X @ found.coef_.T).ravel() + found.intercept_)
    np.testing.assert_allclose(found.score_samples(X) - found.offset_, found.decision_function(X))
    assert set(found.fit_predict(X)) == {1, -1}
    assert np.mean(found.predict(X) == -1) < 0.25


def test_lam_sets_the_scale_alone():
    one, ten = (BMRMOneClass(lam=lam, tol=1e-8).fit(X) for lam in (1.0, 10.0))
    np.testing.assert_allclose(one.coef_, 10.0 * ten.coef_, rtol=1e-3)


@pytest.mark.parametrize(
    ("options", "text"), [({"nu": 0.0}, "nu"), ({"nu": 1.5}, "nu"), ({"lam": 0.0}, "lam")]
)
def test_bad_input(options, text):
    with pytest.raises(ValueError, match=text):
        BMRMOneClass(**options).fit(X)
