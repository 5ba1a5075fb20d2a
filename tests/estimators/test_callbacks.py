"""Callbacks of scikit-learn 1.9 and later: a subtask for each pass, and an end on request."""

import numpy as np
import pytest

pytest.importorskip("sklearn", minversion="1.9")

from sklearn.callback import ProgressBar
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bmrm.errors import Interrupted
from bmrm.estimators import BMRMClassifier, BMRMClassifierCV, BMRMOneClass, BMRMRanker, BMRMRegressor

RNG = np.random.default_rng(0)
X = RNG.standard_normal((150, 5)) + 2.0 * np.eye(5)[0]
SCORE = X[:, 0] - 2.0 + RNG.standard_normal(150)
Y = np.where(SCORE > 0, "yes", "no")


class Recorder:
    """Notes the tasks, and ends a fit after a number of them."""

    def __init__(self, most=np.inf):
        self.most, self.begun, self.ended, self.scores, self.calls = most, [], [], [], []

    def setup(self, estimator, context):
        self.calls.append("setup")

    def teardown(self, estimator, context):
        self.calls.append("teardown")

    def on_fit_task_begin(self, estimator, context, *, X=None, y=None):
        self.begun.append(context.task_name)

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, metadata=None, fitted_estimator=None):
        self.ended.append((context.task_name, metadata))
        if fitted_estimator is not None and hasattr(fitted_estimator, "score") and y is not None:
            self.scores.append(fitted_estimator.score(X, y))
        return len(self.ended) >= self.most


@pytest.mark.parametrize(
    ("estimator", "y"),
    [
        (BMRMClassifier(lam=1e-3), Y),
        (BMRMClassifier("logistic", lam=1e-3), np.digitize(SCORE, [-1, 1])),
        (BMRMRegressor("absolute", lam=1e-3), SCORE),
        (BMRMRanker(lam=1e-3), np.digitize(SCORE, [-1, 1])),
        (BMRMOneClass(nu=0.3), None),
    ],
)
def test_a_subtask_for_each_pass(estimator, y):
    recorder = Recorder()
    estimator.set_callbacks(recorder).fit(X, y)
    assert recorder.calls == ["setup", "teardown"]
    assert recorder.begun == ["fit"] + (len(recorder.ended) - 1) * ["pass"]
    passes = [metadata for name, metadata in recorder.ended if name == "pass"]
    assert len(passes) == estimator.n_iter_
    assert passes[-1]["objective"] == pytest.approx(estimator.objective_)
    assert passes[-1]["gap"] <= 1e-4 * abs(estimator.objective_)
    if hasattr(estimator, "score"):
        assert recorder.scores[-1] == pytest.approx(estimator.score(X, y))


def test_a_true_answer_ends_the_fit():
    estimator = BMRMClassifier(lam=1e-4).set_callbacks(Recorder(2))
    with pytest.warns(ConvergenceWarning, match="status interrupted"):
        estimator.fit(X, Y)
    assert (estimator.n_iter_, estimator.status_) == (2, "interrupted")
    assert estimator.lower_bound_ <= BMRMClassifier(lam=1e-4).fit(X, Y).objective_
    assert estimator.predict(X).shape == (150,)


def test_a_model_for_each_class_reports_all_passes():
    recorder = Recorder()
    estimator = BMRMClassifier(lam=1e-3, multi_class="ovr").set_callbacks(recorder)
    estimator.fit(X, np.digitize(SCORE, [-1, 1]))
    assert len(recorder.ended) > 3
    assert recorder.scores == []  # no model of all classes exists before the last pass


def test_a_selection_reports_its_solves_and_can_be_ended():
    recorder = Recorder()
    BMRMClassifierCV(lams=[1.0, 0.1, 0.01], cv=3).set_callbacks(recorder).fit(X, Y)
    folds = [metadata["lam"] for name, metadata in recorder.ended if name == "fold"]
    assert folds == [1.0] * 3 + [0.1] * 3 + [0.01] * 3 + folds[-1:]
    short = BMRMClassifierCV(lams=[1.0, 0.1, 0.01], cv=3).set_callbacks(Recorder(4)).fit(X, Y)
    assert short.lams_.tolist() == [1.0]
    assert short.lam_ == 1.0
    assert short.status_ == "converged"
    with pytest.raises(Interrupted):
        BMRMClassifierCV(lams=[1.0, 0.1], cv=3).set_callbacks(Recorder(2)).fit(X, Y)


def test_in_a_pipeline_with_a_progress_bar(capsys):
    pytest.importorskip("rich")
    make_pipeline(StandardScaler(), BMRMClassifier()).set_callbacks(ProgressBar()).fit(X, Y)
    assert "BMRMClassifier" in capsys.readouterr().out


def test_without_callbacks_nothing_is_called():
    estimator = BMRMClassifier().fit(X, Y)
    assert not [name for name in vars(estimator) if "callback" in name]
