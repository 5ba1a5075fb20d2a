"""scikit-learn estimators: `bmrm.solve` and `bmrm.select` as classifiers, regressors, ranker and detector.

An estimator only translates: scikit-learn validates X, y and weights, the core trains, and the certified
model is turned into fitted attributes. No other package imports it, and it is the only one
that needs scikit-learn.
"""

OLDEST = (1, 6)
"""The oldest scikit-learn that has `validate_data` and the tags that are used here."""

try:
    from sklearn import __version__ as _found
except ImportError:
    _found = "0"

if tuple(map(int, _found.split(".")[:2])) < OLDEST:
    raise ImportError("bmrm.estimators needs scikit-learn 1.6 or later: pip install scikit-learn")

from bmrm.estimators.classification import BMRMClassifier, BMRMClassifierCV  # noqa: E402
from bmrm.estimators.novelty import BMRMOneClass  # noqa: E402
from bmrm.estimators.ranking import BMRMRanker  # noqa: E402
from bmrm.estimators.regression import BMRMRegressor, BMRMRegressorCV  # noqa: E402

__all__ = [
    "BMRMClassifier",
    "BMRMClassifierCV",
    "BMRMOneClass",
    "BMRMRanker",
    "BMRMRegressor",
    "BMRMRegressorCV",
]
