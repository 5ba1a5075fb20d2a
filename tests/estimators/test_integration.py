"""The estimators inside of scikit-learn and next to other libraries: pipelines, searches, frames, files."""

import pickle
import subprocess
import sys

import joblib
import numpy as np
import pytest
import scipy.sparse as sp

pytest.importorskip("sklearn", minversion="1.6")

from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import StackingClassifier
from sklearn.feature_selection import RFE, SelectFromModel
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bmrm.estimators import (
    BMRMClassifier,
    BMRMClassifierCV,
    BMRMOneClass,
    BMRMRanker,
    BMRMRegressor,
    BMRMRegressorCV,
)

RNG = np.random.default_rng(0)
X = RNG.standard_normal((160, 5)) * [1.0, 10.0, 1.0, 1.0, 1.0]
SCORE = X[:, 0] + 0.1 * X[:, 1] + 0.5 * RNG.standard_normal(160)
Y = np.where(SCORE > 0, "yes", "no")
Y3 = np.array(["low", "middle", "high"])[np.digitize(SCORE, [-0.7, 0.7])]
NAMES = ["a", "b", "c", "d", "e"]


def fitted():
    return [
        BMRMClassifier("logistic").fit(X, Y),
        BMRMClassifier("logistic", multi_class="ovr").fit(X, Y3),
        BMRMRegressor().fit(X, SCORE),
        BMRMRanker().fit(X, np.round(SCORE)),
        BMRMOneClass().fit(X + 5.0),
        BMRMClassifierCV(lams=[1.0, 0.1], calibration="isotonic", cv=3).fit(X, Y),
        BMRMRegressorCV(lams=[1.0, 0.1], cv=3).fit(X, SCORE),
    ]


def test_a_grid_search_in_processes():
    pipeline = make_pipeline(StandardScaler(), BMRMClassifier(n_jobs=1))
    search = GridSearchCV(pipeline, {"bmrmclassifier__C": [0.01, 1.0]}, cv=3, n_jobs=2).fit(X, Y)
    assert search.score(X, Y) > 0.8
    threads = joblib.parallel_backend("threading")
    with threads:
        assert cross_val_score(BMRMClassifier(), X, Y, cv=3, n_jobs=2).min() > 0.7


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_meta_estimators(loss):
    base = BMRMClassifier(loss)
    calibrated = CalibratedClassifierCV(base, cv=3).fit(X, Y)
    assert calibrated.predict_proba(X).shape == (160, 2)
    assert calibrated.score(X, Y) > 0.8
    chosen = SelectFromModel(BMRMClassifier(loss, reg="l1", lam=0.05)).fit(X, Y)
    assert 1 <= chosen.transform(X).shape[1] < 5
    assert RFE(base, n_features_to_select=2).fit(X, Y).support_[0]
    assert OneVsRestClassifier(base).fit(X, Y3).score(X, Y3) > 0.6
    stack = StackingClassifier([("one", base), ("other", BMRMClassifier("squared_hinge"))], base, cv=3)
    assert stack.fit(X, Y).score(X, Y) > 0.8
    assert clone(base.fit(X, Y)).get_params() == base.get_params()


@pytest.mark.parametrize("way", ["pickle", "joblib"])
def test_fitted_estimators_can_be_stored(way, tmp_path):
    for estimator in fitted():
        if way == "pickle":
            other = pickle.loads(pickle.dumps(estimator))
        else:
            joblib.dump(estimator, tmp_path / "a.joblib")
            other = joblib.load(tmp_path / "a.joblib")
        np.testing.assert_array_equal(other.predict(X), estimator.predict(X))
        assert (other.status_, other.n_iter_) == (estimator.status_, estimator.n_iter_)


def test_skops_trusts_the_types_of_the_package_alone():
    skops = pytest.importorskip("skops.io")
    for estimator in fitted():
        stored = skops.dumps(estimator)
        types = skops.get_untrusted_types(data=stored)
        assert types
        assert all(name.startswith("bmrm.") for name in types), types
        other = skops.loads(stored, trusted=types)
        np.testing.assert_array_equal(other.predict(X), estimator.predict(X))


def test_a_result_is_not_kept():
    assert len(pickle.dumps(BMRMClassifier().fit(X, Y))) < 5000


def frames():
    pandas = pytest.importorskip("pandas")
    yield pandas.DataFrame(X, columns=NAMES), pandas.Series(Y)
    nullable = pandas.DataFrame(X, columns=NAMES).convert_dtypes()
    yield nullable, pandas.Series(Y, dtype="category")
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        return
    yield nullable.astype("double[pyarrow]"), pandas.Series(Y, dtype="string[pyarrow]")
    polars = pytest.importorskip("polars")
    yield polars.DataFrame(X, schema=NAMES), polars.Series(Y)


def test_frames():
    plain = BMRMClassifier("logistic").fit(X, Y)
    for frame, labels in frames():
        found = BMRMClassifier("logistic").fit(frame, labels)
        assert found.feature_names_in_.tolist() == NAMES
        np.testing.assert_array_equal(found.coef_, plain.coef_)
        assert (found.predict(frame) == plain.predict(X)).all()
        assert found.model_.feature_names == tuple(NAMES)
        assert (found.model_.predict(frame) == plain.predict(X)).all()
        swapped = frame[NAMES[::-1]]
        with pytest.raises(ValueError, match="feature names"):
            found.predict(swapped)


def test_sparse_matrices_with_long_indices():
    plain = BMRMClassifier("logistic").fit(sp.csr_array(X), Y)
    for wide in (sp.csr_array(X), sp.csr_matrix(X), sp.csc_array(X), sp.coo_array(X)):
        for name in ("indices", "indptr"):
            if hasattr(wide, name):
                setattr(wide, name, getattr(wide, name).astype(np.int64))
        found = BMRMClassifier("logistic").fit(wide, Y)
        np.testing.assert_array_equal(found.coef_, plain.coef_)
        np.testing.assert_array_equal(found.predict(wide), plain.predict(X))


def test_the_estimators_print_what_was_changed():
    assert repr(BMRMClassifier("logistic", C=2.0)) == "BMRMClassifier(C=2.0, loss='logistic')"
    assert "BMRMRegressor" in BMRMRegressor()._repr_html_()


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_without_scikit_learn_the_error_says_what_to_install():
    done = run("import sys; sys.modules['sklearn'] = None; import bmrm.estimators")
    assert done.stderr.rstrip().splitlines()[-1] == (
        "ImportError: bmrm.estimators needs scikit-learn 1.6 or later: pip install scikit-learn"
    )


def test_nothing_else_imports_scikit_learn():
    done = run(
        "import sys, bmrm, bmrm.cli.train; bmrm.solve; bmrm.select; assert 'sklearn' not in sys.modules"
    )
    assert done.returncode == 0, done.stderr
