"""Offsets: numbers added to the margins, wherever a margin is used."""

import inspect
import pickle
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp

import bmrm
from bmrm import losses
from bmrm.errors import DataError, ParameterError
from bmrm.linear.backends.choose import backend_of
from bmrm.linear.inputs import Options
from bmrm.linear.models import checkpoint
from bmrm.linear.models.checkpoint import Checkpoint
from bmrm.linear.models.model import Model
from bmrm.linear.plan import PlanOptions, make_plan
from bmrm.linear.selection.cross_validation import FoldProblem, cross_validate
from bmrm.linear.selection.one_against_rest import class_problems, solve_each
from bmrm.linear.solve import make_problem
from bmrm.linear.warm_start import problem_of
from bmrm.losses import CallableLoss

M, D, K = 60, 4, 3
NAMES = tuple(name for name, loss in losses.LOSSES.items() if loss.task != "structured")
SEVERAL = tuple(name for name in NAMES if losses.LOSSES[name].several)


def rows(loss, seed=0, m=M, d=D):
    """X, labels, options of the loss, and offsets."""
    rng = np.random.default_rng(seed)
    X, task = rng.standard_normal((m, d)), losses.LOSSES[loss].task
    options = {}
    if task == "binary":
        y = np.where(X[:, 0] + rng.standard_normal(m) > 0, 1, -1)
    elif task == "regression":
        y = X[:, 0] + rng.standard_normal(m)
    elif task == "count":
        y = rng.poisson(2.0, m)
    elif task == "novelty":
        y = None
    elif task in ("multilabel", "label_ranking"):
        y = (rng.random((m, K)) < 0.4).astype(int)
        y[:K] = np.eye(K)
    else:
        y = np.concatenate([np.arange(K), rng.integers(0, K, m - K)])
    if task == "ranking":
        options["groups"] = np.arange(m) // 10
    return X, y, options, rng.standard_normal((m, K) if losses.LOSSES[loss].several else m)


def solved(X, y, **options):
    return bmrm.solve(X, y, **{"lam": 0.05, "tol": 1e-7, "device": "cpu", **options})


# --- the same optimum by another way


@pytest.mark.parametrize("loss", NAMES)
def test_offsets_of_known_weights_are_a_prior_of_their_negatives(loss):
    # lam Omega(w + v) + R(X w + X v) is the plain problem in w + v.
    X, y, options, offset = rows(loss)
    v = np.random.default_rng(1).standard_normal((D, K) if offset.ndim == 2 else D)
    tol = 1e-3 if not losses.get(loss).by_rows else 1e-7
    plain = solved(X, y, loss=loss, tol=tol, **options)
    moved = solved(X, y, loss=loss, tol=tol, offset=X @ v, prior=-v, **options)
    assert moved.status == plain.status == "converged"
    assert moved.lower_bound <= plain.objective + 1e-12
    assert plain.lower_bound <= moved.objective + 1e-12
    distance = np.linalg.norm(moved.w + v - plain.w)
    assert distance <= np.sqrt(2.0 * plain.gap / 0.05) + np.sqrt(2.0 * moved.gap / 0.05) + 1e-9


@pytest.mark.parametrize("reg", ["l1", "elastic_net"])
@pytest.mark.parametrize("loss", ["hinge", "squared", "poisson", "multiclass"])
def test_offsets_under_penalties_with_kinks(loss, reg):
    X, y, options, offset = rows(loss)
    v = np.random.default_rng(1).standard_normal((D, K) if offset.ndim == 2 else D)
    plain = solved(X, y, loss=loss, reg=reg, tol=1e-6, **options)
    moved = solved(X, y, loss=loss, reg=reg, tol=1e-6, offset=X @ v, prior=-v, **options)
    assert moved.lower_bound <= plain.objective + 1e-12
    assert plain.lower_bound <= moved.objective + 1e-12
    assert moved.objective == pytest.approx(plain.objective, rel=2e-6)


@pytest.mark.parametrize("loss", ["squared", "absolute", "quantile", "huber", "epsilon_insensitive"])
def test_an_offset_of_a_regression_is_taken_from_the_labels(loss):
    X, y, _, offset = rows(loss)
    ours, other = (solved(X, z, loss=loss, offset=o) for z, o in ((y, offset), (y - offset, None)))
    assert ours.objective == pytest.approx(other.objective, rel=2e-7)
    np.testing.assert_allclose(ours.w, other.w, atol=1e-3)


@pytest.mark.parametrize("loss", ["poisson", "logistic", "hinge", "f_beta", "novelty"])
def test_one_offset_for_all_rows_moves_a_free_intercept(loss):
    X, y, _, _ = rows(loss)
    fit = {} if loss == "novelty" else {"fit_intercept": True}
    tol = 1e-4 if loss == "f_beta" else 1e-8
    plain = solved(X, y, loss=loss, tol=tol, **fit)
    moved = solved(X, y, loss=loss, tol=tol, offset=np.full(M, 0.75), **fit)
    extra = 0.75 * (loss == "novelty")  # its risk has the term + b
    assert moved.objective + extra == pytest.approx(plain.objective, rel=2.0 * tol, abs=1e-12)
    if losses.get(loss).smooth:
        assert moved.intercept == pytest.approx(plain.intercept - 0.75, abs=1e-3)


def test_poisson_rates_by_exposure_are_those_of_another_solver():
    rng = np.random.default_rng(3)
    X, exposure = rng.standard_normal((200, 3)), rng.uniform(0.1, 10.0, 200)
    y = rng.poisson(exposure * np.exp(0.3 + X @ [0.5, -0.2, 0.1]))
    log_exposure, lam = np.log(exposure), 1e-3

    def objective(p):
        u = X @ p[:3] + p[3] + log_exposure
        slope = (np.exp(u) - y) / len(y)
        value = (np.exp(u) - y * u).mean() + 0.5 * lam * p[:3] @ p[:3]
        return value, np.append(X.T @ slope + lam * p[:3], slope.sum())

    found = scipy.optimize.minimize(objective, np.zeros(4), jac=True, method="BFGS", options={"gtol": 1e-10})
    ours = solved(X, y, loss="poisson", lam=lam, offset=log_exposure, fit_intercept=True, tol=1e-10)
    assert ours.objective == pytest.approx(found.fun, rel=1e-9)
    np.testing.assert_allclose(np.append(ours.w, ours.intercept), found.x, atol=1e-5)
    # The predicted counts add up to those that were seen, since the intercept is free.
    assert ours.predict(X, offset=log_exposure).sum() == pytest.approx(y.sum(), rel=1e-6)


@pytest.mark.parametrize("loss", [name for name in NAMES if losses.LOSSES[name].by_rows])
def test_the_objective_is_that_of_margins_with_offsets(loss):
    X, y, options, offset = rows(loss)
    result = solved(X, y, loss=loss, offset=offset, **options)
    labels = backend_of(bmrm.Dataset(X, y)).labels(losses.get(loss))[0]
    u = result.decision_function(X, offset=offset)
    risk = losses.get(loss).value(u, labels).mean() + losses.get(loss).intercept_slope * np.sum(
        result.intercept
    )
    assert result.objective == pytest.approx(risk + 0.025 * np.sum(result.w**2), rel=1e-12)


# --- every way through a solve


WAYS = {
    "ascent": {"shape": (80, 400), "storage": "sparse", "lam": 1e-4},
    "rows": {"shape": (30, 200), "lam": 1e-2, "cuts_per_pass": 1},
    "newton": {"shape": (300, 5)},
    "blocks": {"shape": (300, 40), "cuts_per_pass": 7},
    "bmrm": {"shape": (60, 4), "solver": "bmrm", "tol": 1e-3},
    "interior": {"shape": (400, 12), "tol": 1e-9, "lam": 1e-5},
    "float32": {"shape": (100, 6), "dtype": np.float32},
}


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("loss", ["hinge", "logistic", "squared", "epsilon_insensitive", "poisson"])
@pytest.mark.parametrize("way", WAYS)
def test_bounds_of_every_kind_of_step_hold_those_of_a_feature_of_offsets(way, loss, free):
    # The offset as a feature that is held at the weight 1 by a strong penalty: its optimum is no larger, and
    # nearly the same.
    given = {"tol": 1e-6, **WAYS[way]}
    (m, d), storage = given.pop("shape"), given.pop("storage", "dense")
    X, y, _, offset = rows(loss, m=m, d=d)
    if storage == "sparse":
        X *= np.random.default_rng(2).random(X.shape) < 0.05
    if given.get("dtype") is not None:
        X, offset = X.astype(np.float32).astype(float), offset.astype(np.float32).astype(float)
    if free:
        given.pop("cuts_per_pass", None)
    stored = sp.csr_matrix(X) if storage == "sparse" else X
    ours = solved(stored, y, loss=loss, offset=offset, fit_intercept=free, **given)
    lam = given.get("lam", 0.05)
    strength, mean = np.append(np.ones(d), 1e5 / lam), np.append(np.zeros(d), 1.0)
    other = bmrm.solve(
        np.column_stack([X, offset]), y, loss=loss, lam=lam, feature_lambda=strength, prior=mean,
        fit_intercept=free, tol=1e-7, device="cpu",
    )  # fmt: skip
    assert ours.status == "converged"
    assert other.lower_bound <= ours.objective + 1e-12 * abs(ours.objective)
    assert ours.lower_bound <= other.objective + 1e-3 * abs(other.objective)
    assert ours.objective == pytest.approx(other.objective, rel=1e-3 + given["tol"])


def plan_of(X, y, loss, offset):
    data = bmrm.Dataset(X, y, offset=offset, device="cpu")
    names = {name: given.default for name, given in inspect.signature(bmrm.solve).parameters.items()}
    backend = backend_of(data)
    problem = make_problem(data, losses.get(loss), backend, Options.of({**names, "lam": 1e-4}))
    return make_plan(backend.facts(problem), PlanOptions())


@pytest.mark.parametrize("loss", ["hinge", "logistic", "squared_epsilon_insensitive", "multilabel"])
def test_ascent_in_the_dual_takes_offsets(loss):
    X, y, _, offset = rows(loss, m=80, d=400)
    X = sp.csr_matrix(X * (np.random.default_rng(2).random(X.shape) < 0.05))
    assert plan_of(X, y, loss, offset).step == "ascent"
    options = {"loss": loss, "lam": 1e-4, "tol": 1e-6, "offset": offset}
    by_ascent, by_cuts = solved(X, y, **options), solved(X, y, cuts_per_pass=1, **options)
    assert by_ascent.lower_bound <= by_cuts.objective
    assert by_cuts.lower_bound <= by_ascent.objective
    assert by_ascent.n_iter < by_cuts.n_iter


def test_ascent_that_takes_no_offsets_of_classes_is_left_out_with_its_reason():
    X, y, _, offset = rows("multiclass", m=80, d=400)
    X = sp.csr_matrix(X * (np.random.default_rng(2).random(X.shape) < 0.05))
    assert plan_of(X, y, "multiclass", None).step == "ascent"
    plan = plan_of(X, y, "multiclass", offset)
    assert plan.step == "cuts"
    assert "takes no offsets of several classes" in plan.reasons["first steps"]


def test_threads_change_no_bit():
    X, y, _, offset = rows("logistic", m=120_000, d=3)
    one, two = (solved(X, y, loss="logistic", offset=offset, threads=n, fit_intercept=True) for n in (1, 2))
    assert (one.w.tobytes(), one.lower_bound) == (two.w.tobytes(), two.lower_bound)


def test_a_function_of_margins_gets_them_with_offsets():
    X, y, _, offset = rows("squared")
    loss = CallableLoss(lambda u, y: ((u - y) ** 2 / 2, u - y), minimum=0.0)
    ours, other = (
        solved(X, y, loss=loss, offset=offset, tol=1e-5),
        solved(X, y, loss="squared", offset=offset),
    )
    assert ours.objective == pytest.approx(other.objective, rel=1e-5)


@pytest.mark.parametrize("loss", NAMES)
def test_weights_of_rows_with_offsets_are_repetitions(loss):
    if loss in ("f_beta", "precision_at_k", "recall_at_k", "prbep", "ndcg", "lambda_ndcg", "mrr", "pairwise"):
        pytest.skip("does not take weights as repetitions")
    X, y, _, offset = rows(loss)
    s = np.random.default_rng(5).integers(0, 3, M)
    s[: 2 * K] = 1
    each = np.repeat(np.arange(M), s)
    tol = 1e-4 if not losses.get(loss).by_rows else 1e-6
    weighted = solved(X, y, loss=loss, offset=offset, sample_weight=s, tol=tol)
    repeated = solved(X[each], None if y is None else y[each], loss=loss, offset=offset[each], tol=tol)
    assert weighted.lower_bound <= repeated.objective + 1e-12
    assert repeated.lower_bound <= weighted.objective + 1e-12


def test_several_labels_share_an_offset_and_classes_against_the_rest_do():
    X, y, _, offset = rows("multilabel")
    one, each = (solved(X, y, loss="multilabel", offset=o) for o in (offset[:, 0], np.tile(offset[:, :1], K)))
    assert one.w.tobytes() == each.w.tobytes()
    codes = y.argmax(axis=1)
    problems = class_problems(X, codes, K, offset=offset[:, 0], device="cpu")
    results = solve_each(problems, [None] * K, loss="logistic", lam=0.1)
    alone = solved(X, np.where(codes == 1, 1, -1), loss="logistic", lam=0.1, tol=1e-3, offset=offset[:, 0])
    assert results[1].w.tobytes() == alone.w.tobytes()


# --- folds, paths, warm starts, checkpoints


@pytest.mark.parametrize(
    ("loss", "options"),
    [
        ("logistic", {}),  # shared cuts
        ("logistic", {"fit_intercept": True}),
        ("hinge", {"reg": "l1"}),
        ("multiclass", {}),
        ("ordinal", {}),
    ],
)
def test_offsets_follow_their_rows_into_folds(loss, options):
    X, y, _, offset = rows(loss, m=90)
    data = bmrm.Dataset(X, y, offset=offset, device="cpu")
    problem = FoldProblem(data, 3, loss, 0, {"tol": 1e-5, **options})
    found = problem.validate(0.1)
    for fold, result in enumerate(found.results):
        out = problem.folds.fold_of == fold
        rest = solved(X[~out], y[~out], loss=loss, lam=0.1, tol=1e-5, offset=offset[~out], **options)
        assert result.objective == pytest.approx(rest.objective, rel=2e-5)
        np.testing.assert_allclose(
            found.values[out], result.decision_function(X[out], offset=offset[out]), atol=1e-9
        )


@pytest.mark.parametrize("loss", ["poisson", "softmax"])
def test_a_selection_scores_and_refits_with_offsets(loss):
    X, y, _, offset = rows(loss, m=90)
    data = bmrm.Dataset(X, y, offset=offset, device="cpu")
    lams = [0.3, 0.03]
    arrays = bmrm.select(X, y, lams, 3, loss=loss, offset=offset, device="cpu")
    resident = bmrm.select(data, lams=lams, folds=3, loss=loss)
    np.testing.assert_allclose(arrays.scores, resident.scores, rtol=1e-3)
    np.testing.assert_allclose(arrays.values, resident.values, atol=0.05)
    assert arrays.result.has_offset
    alone = solved(X, y, loss=loss, lam=arrays.lam, offset=offset, tol=1e-3)
    assert arrays.result.objective == pytest.approx(alone.objective, rel=2e-3)


def test_a_calibration_maps_values_with_offsets():
    X, y, _, offset = rows("hinge", m=200)
    found = bmrm.select(X, y, [0.1], 4, loss="hinge", offset=3.0 * offset, device="cpu")
    model = Model.from_result(found.result, calibration=found.calibrate())
    values = model.decision_function(X, offset=3.0 * offset)
    np.testing.assert_array_equal(
        model.predict_probability(X, offset=3.0 * offset), found.calibrate().probability(values)
    )
    assert np.corrcoef(found.values, values)[0, 1] > 0.99


def test_cross_validation_takes_offsets_from_the_data_alone():
    X, y, _, offset = rows("hinge")
    with pytest.raises(ParameterError, match="offset: give it to the Dataset, not to a cross validation"):
        cross_validate(bmrm.Dataset(X, y), 3, offset=offset)
    with pytest.raises(ParameterError, match="offset: give it to the Dataset, not to solve"):
        bmrm.solve(bmrm.Dataset(X, y), offset=offset)
    with pytest.raises(ParameterError, match="offset: give it to the Dataset, not to select"):
        bmrm.select(bmrm.Dataset(X, y), offset=offset)


def test_a_path_keeps_offsets_and_cuts_of_other_offsets_are_not_used():
    X, y, _, offset = rows("hinge")
    for found in bmrm.path(X, y, [0.3, 0.03], offset=offset, tol=1e-5, device="cpu"):
        alone = solved(X, y, lam=found.lam, offset=offset, tol=1e-5)
        assert found.objective == pytest.approx(alone.objective, rel=2e-5)
    data = bmrm.Dataset(X, y, offset=offset, device="cpu")
    first = bmrm.solve(data, lam=0.05, tol=1e-6)
    data.offset = -offset
    again = bmrm.solve(data, lam=0.05, tol=1e-6, warm_start=first)
    fresh = solved(X, y, offset=-offset, tol=1e-6)
    assert again.lower_bound <= fresh.objective
    assert fresh.lower_bound <= again.objective


def test_a_checkpoint_knows_its_offsets(tmp_path):
    X, y, _, offset = rows("hinge")
    first = solved(X, y, offset=offset, max_iter=3)
    checkpoint.save(tmp_path / "c", Model.from_result(first), problem_of(first), first.bundle.working())
    found = Checkpoint.load(tmp_path / "c")
    assert found.model.has_offset
    assert solved(X, y, offset=offset, warm_start=found).status == "converged"
    for other in (None, -offset):
        with pytest.raises(DataError, match="found a different checksum of offset"):
            solved(X, y, offset=other, warm_start=found)


# --- models and predictions


def test_a_model_says_that_it_needs_offsets_and_predicts_without_them_only_if_asked(tmp_path):
    X, y, _, offset = rows("poisson")
    result = solved(X, y, loss="poisson", offset=offset)
    result.save(tmp_path / "m")
    for model in (Model.from_result(result), Model.load(tmp_path / "m"), pickle.loads(pickle.dumps(result))):
        assert model.has_offset
        with pytest.raises(ParameterError, match=r"^offset: found none for a model trained with offsets"):
            model.predict(X)
        np.testing.assert_allclose(model.predict(X, offset=0), np.exp(X @ result.w))
        np.testing.assert_allclose(model.predict(X, offset=offset), np.exp(X @ result.w + offset))
    with pytest.raises(ParameterError, match="trained with offsets, which LIBLINEAR does not have"):
        Model.from_result(solved(*rows("hinge")[:2], offset=offset)).export_liblinear(tmp_path / "l")


def test_a_model_without_offsets_is_written_as_before_and_takes_some(tmp_path):
    X, y, _, offset = rows("hinge")
    result = solved(X, y)
    result.save(tmp_path / "m")
    assert rb"\"format_version\": 2" in (tmp_path / "m").read_bytes()
    model = Model.load(tmp_path / "m")
    assert not model.has_offset
    np.testing.assert_allclose(model.decision_function(X, offset=offset), X @ result.w + offset)


@pytest.mark.parametrize("loss", SEVERAL)
def test_classes_have_an_offset_each(loss):
    X, y, _, offset = rows(loss)
    result = solved(X, y, loss=loss, offset=offset, tol=1e-3)
    np.testing.assert_allclose(result.decision_function(X, offset=offset), X @ result.w + offset)
    if loss == "multilabel":
        return
    line = r"offset: found shape \(60,\), expected \(60, 3\): one number per row shifts all classes alike"
    with pytest.raises(DataError, match=line):
        solved(X, y, loss=loss, offset=offset[:, 0])
    with pytest.raises(DataError, match=line):
        result.predict(X, offset=offset[:, 0])


# --- what is refused


BAD = {
    "not finite": (
        lambda o: np.where(np.arange(M) == 4, np.nan, o),
        "offset: row 5 has nan, expected a finite",
    ),
    "infinite": (lambda o: np.where(np.arange(M) == 9, -np.inf, o), "offset: row 10 has -inf"),
    "short": (lambda o: o[:-1], r"offset: found shape \(59,\), expected \(60,\), one per row of X"),
    "a number": (lambda o: 1.0, r"offset: found shape \(\), expected"),
    "columns": (lambda o: np.tile(o[:, None], 2), r"offset: found shape \(60, 2\), expected \(60,\)"),
    "masked": (lambda o: np.ma.masked_less(o, 0.0), "offset: found masked values"),
    "complex": (lambda o: o + 1j, "offset: found complex numbers"),
    "text": (lambda o: o.astype(str), "offset: found text"),
    "sparse": (lambda o: sp.csr_matrix(o), "offset: found a sparse matrix"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_offsets_are_refused_by_one_line(kind):
    X, y, _, offset = rows("hinge")
    make, line = BAD[kind]
    result = solved(X, y)
    for use in (
        lambda bad: bmrm.solve(X, y, offset=bad),
        lambda bad: bmrm.select(X, y, [0.1], 3, offset=bad),
        lambda bad: bmrm.path(X, y, [0.1], offset=bad),
        lambda bad: result.predict(X, offset=bad),
    ):
        with pytest.raises(DataError, match=line) as error:
            use(make(offset))
        assert "\n" not in str(error.value)


def test_offsets_too_large_to_square_are_named():
    X, y, _, offset = rows("squared")
    offset[6] = 1e200
    with pytest.raises(DataError, match=r"offset: row 7 has 1e\+200, expected an absolute value of at most"):
        solved(X, y, loss="squared", offset=offset)


def test_a_structured_loss_takes_none():
    loss = losses.Structured(SimpleNamespace(n_features=2))
    with pytest.raises(ParameterError, match="takes no class_weight, offset"):
        bmrm.solve(["a"], ["b"], loss=loss, offset=[1.0])


@pytest.mark.parametrize("name", ["exposure", "base_margin", "init_score", "offsets"])
def test_names_of_other_libraries_lead_to_offset(name):
    X, y, _, offset = rows("hinge")
    with pytest.raises(ParameterError, match="did you mean 'offset'"):
        bmrm.solve(X, y, **{name: offset})
