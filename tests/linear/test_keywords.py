"""Keywords that do not exist, contradict each other or are meant for another argument: one line each."""

import warnings

import numpy as np
import pytest

import bmrm
from bmrm.errors import ParameterError

X = np.random.default_rng(1).standard_normal((12, 3))
Y = np.where(X[:, 0] > 0, 1, -1)
DATA = bmrm.Dataset(X, Y)


UNKNOWN = "no argument of solve and no parameter of a loss"
LAYOUTS = "expected one of auto, replicated, owned; did you mean 'sample_weight'?"


@pytest.mark.parametrize(
    ("keywords", "text"),
    [
        ({"n_jobs": 2}, f"n_jobs: {UNKNOWN}; did you mean 'threads'?"),
        ({"max_itr": 2}, f"max_itr: {UNKNOWN}; did you mean 'max_iter'?"),
        ({"lambda_": 2}, f"lambda_: {UNKNOWN}; did you mean 'lam'?"),
        ({"epsilom": 0.1}, f"epsilom: {UNKNOWN}; did you mean 'epsilon'?"),
        ({"xyz": 2}, f"xyz: {UNKNOWN}"),
        ({"regularizer": "l1"}, f"regularizer: {UNKNOWN}; did you mean 'reg'?"),
        ({"tau": 0.5}, "loss hinge: unknown parameter 'tau'"),
        ({"lam": 1.0, "C": 1.0}, "lam, C: found both, expected one of them"),
        ({"lam": "1e-3"}, "lam: found '1e-3', expected a number"),
        ({"weights": np.ones(12)}, f"weights: found an array of shape (12,), {LAYOUTS}"),
        ({"weights": [1.0] * 12}, f"weights: found a list, {LAYOUTS}"),
    ],
)
def test_one_line(keywords, text):
    with pytest.raises(ParameterError) as caught:
        bmrm.solve(X, Y, **keywords)
    assert str(caught.value) == text
    if "lam" not in keywords:
        with pytest.raises(ParameterError) as caught:
            bmrm.path(X, Y, [0.1], **keywords)
        assert str(caught.value) == text


def test_loss_names_are_suggested():
    with pytest.raises(ParameterError, match="did you mean 'logistic'"):
        bmrm.solve(X, Y, "logistics")
    with pytest.raises(ParameterError, match=r"loss: found 'zzz', expected one of [^;]*$"):
        bmrm.losses.get("zzz")


def test_keywords_of_a_cross_validation():
    with pytest.raises(ParameterError, match=r"max_itr: no option of a cross validation; .* 'max_iter'"):
        bmrm.cross_validate(DATA, 3, max_itr=3)
    with pytest.raises(ParameterError, match=r"n_jobs: no option of a cross validation; .* 'threads'"):
        bmrm.select(X, Y, [0.1], 3, n_jobs=3)
    with pytest.raises(ParameterError, match=r"sampel_weight: no option .* 'sample_weight'"):
        bmrm.select(X, Y, [0.1], 3, sampel_weight=np.ones(12))
    for name in ("sample_weight", "groups", "threads"):
        with pytest.raises(
            ParameterError, match=f"{name}: give it to the Dataset, not to a cross validation"
        ):
            bmrm.cross_validate(DATA, 3, **{name: np.ones(12)})
    with pytest.raises(ParameterError, match=r"data: found an array of shape \(12, 3\), expected a Dataset"):
        bmrm.cross_validate(X, 3)
    with pytest.raises(ParameterError, match="lam, C: found both"):
        bmrm.cross_validate(DATA, 3, lam=0.1, C=1.0)
    assert {bmrm.cross_validate(DATA, 3, lam=lam).results[0].lam for lam in (None, 1e-4)} == {1e-4}


def test_a_device_is_text():
    with pytest.raises(
        ParameterError, match=r"device: found array.*, expected one of auto, cpu, cuda, cuda:N"
    ):
        bmrm.solve(X, Y, device=np.ones(3))


def test_a_column_of_labels_is_a_vector():
    """For every task with one number per row, with a warning."""
    wide = {
        "pairwise": {"groups": np.arange(12) // 4},
        "poisson": {},
        "squared": {},
        "hinge": {},
        "softmax": {},
    }
    for loss, options in wide.items():
        column = np.abs(X[:, :1]) if loss == "poisson" else Y[:, None]
        with pytest.warns(bmrm.errors.DataConversionWarning, match=r"found shape \(12, 1\)"):
            found = bmrm.solve(X, column, loss, lam=0.1, **options)
        assert found.objective == bmrm.solve(X, column[:, 0], loss, lam=0.1, **options).objective


def test_the_default_of_lam():
    assert bmrm.solve(X, Y).lam == 1e-4
    assert bmrm.solve(X, Y, lam=None, C=None).lam == 1e-4
    assert bmrm.solve(X, Y, C=0.5).lam == pytest.approx(1 / 6)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.longdouble, np.array])
def test_numbers_of_other_types(kind):
    """Also if warnings are errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for keywords in ({"lam": kind(0.125)}, {"C": kind(0.125)}, {"tol": kind(0.125), "max_time": kind(8)}):
            right = {name: float(value) for name, value in keywords.items()}
            assert (bmrm.solve(X, Y, **keywords).w == bmrm.solve(X, Y, **right).w).all()
        ratio = {"reg": "elastic_net", "l1_ratio": kind(0.25), "loss": "quantile", "tau": kind(0.25)}
        assert bmrm.solve(X, Y, **ratio).reg_params == {"l1_ratio": 0.25}
