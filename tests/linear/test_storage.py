"""Solves on files whose values float32 rounds, from Python: certificates hold for the numbers of the file."""

import json
import signal
from fractions import Fraction

import numpy as np
import pytest

import bmrm
from bmrm.cli import train
from bmrm.errors import Interrupted, ParameterError
from bmrm.io import read_data
from bmrm.linear import storage
from bmrm.linear.models.checkpoint import Checkpoint

LAM = 1e-2


@pytest.fixture(autouse=True)
def every_size(monkeypatch):
    """Store small data like large data."""
    monkeypatch.setattr(storage, "MAX_FLOAT64_FILE_BYTES", -1)


def decimals(rows=60):
    """Numbers of three decimals, most of which float32 rounds."""
    rng = np.random.default_rng(0)
    y = np.where(np.arange(rows) % 2, 1.0, -1.0)
    return np.round(rng.standard_normal((rows, 5)) + 0.7 * y[:, None], 3), y


def identity_numbers():
    """Rows that differ only in bits that float32 does not have."""
    rng = np.random.default_rng(6)
    numbers = 2.0**24 + rng.integers(0, 2, 120)
    return np.column_stack([numbers, rng.standard_normal(120)]), np.where(numbers % 2, 1.0, -1.0)


def write(path, X, y):
    """Write dense rows as SVMlight text."""
    rows = (" ".join(f"{j + 1}:{v!r}" for j, v in enumerate(row) if v) for row in X.tolist())
    path.write_text("".join(f"{label:g} {row}\n" for label, row in zip(y.tolist(), rows, strict=True)))
    return str(path)


@pytest.fixture
def text(tmp_path):
    return write(tmp_path / "decimals", *decimals())


@pytest.fixture
def ids(tmp_path):
    return write(tmp_path / "ids", *identity_numbers())


def exact_hinge(X, y, w, lam=LAM):
    """J of the hinge loss in exact arithmetic."""
    weights = [Fraction(v) for v in w.tolist()]
    risk = Fraction(0)
    for row, label in zip(X.tolist(), y.tolist(), strict=True):
        margin = sum(Fraction(v) * each for v, each in zip(row, weights, strict=True))
        risk += max(Fraction(0), 1 - Fraction(label) * margin)
    return risk / len(y) + Fraction(lam) / 2 * sum(v * v for v in weights)


def test_the_certificate_holds_in_exact_arithmetic(text):
    """At w, and at the optimum of the numbers themselves, known to 1e-9."""
    X, y = decimals()
    data = read_data(text)
    result = bmrm.solve(data, lam=LAM, tol=1e-5)
    assert (result.status, result.stored) == ("converged", "float32")
    assert 0.0 < result.rounding < 1e-6
    here = exact_hinge(X, y, result.w)
    best = bmrm.solve(X, y, lam=LAM, tol=1e-9)
    assert result.lower_bound <= exact_hinge(X, y, best.w)
    assert here <= Fraction(result.objective)
    assert Fraction(result.objective) - here <= Fraction(result.rounding)
    # What float32 holds is another problem.
    stored = bmrm.solve(data.X, data.y, lam=LAM, tol=1e-5)
    assert result.objective > stored.objective
    assert result.lower_bound < stored.lower_bound
    np.testing.assert_array_equal(result.w, stored.w)


@pytest.mark.parametrize("loss", ["squared", "logistic", "hinge", "roc_area", "huber"])
def test_bounds_of_both_types_enclose_each_other(text, loss):
    single = bmrm.solve(read_data(text), loss=loss, lam=LAM)
    double = bmrm.solve(read_data(text, dtype="float64"), loss=loss, lam=LAM, tol=1e-9)
    assert (single.stored, double.stored, double.rounding) == ("float32", "float64", 0.0)
    assert single.lower_bound <= double.objective
    assert double.lower_bound <= single.objective


@pytest.mark.parametrize("words", [[], ["--tol", "1e-8"], ["-B", "1"], ["--dtype", "float32"]])
@pytest.mark.parametrize("name", ["text", "ids"])
def test_it_is_the_certificate_of_the_command(name, words, request, tmp_path, capsys):
    path = request.getfixturevalue(name)
    given = ["--loss", "logistic", "--lambda", str(LAM), "--allow-unconverged", "--json", "-q", *words]
    assert train.main([*given, path, str(tmp_path / "model")]) == 0
    report = json.loads(capsys.readouterr().out)
    options = {"--tol": {"tol": 1e-8}, "--dtype": {"dtype": "float32"}, "-B": {}}[words[0]] if words else {}
    if "-B" in words:
        options = {"fit_intercept": True, "penalize_intercept": True}
    result = bmrm.solve_file(path, "logistic", lam=LAM, **options)
    found = [result.objective, result.lower_bound, result.gap, result.rounding, result.stored, result.status]
    names = ("objective", "lower_bound", "gap", "rounding", "dtype", "status")
    assert found == [report[key] for key in names]
    result.save(tmp_path / "own")
    assert (tmp_path / "own").read_bytes() == (tmp_path / "model").read_bytes()


def test_numbers_of_float32_cost_nothing(tmp_path):
    X, y = decimals()
    X = np.round(8.0 * X) / 4.0
    data = read_data(write(tmp_path / "counts", X, y))
    found, exact = bmrm.solve(data, lam=LAM), bmrm.solve(data.X, data.y, lam=LAM)
    assert found.rounding == 0.0
    assert (found.objective, found.lower_bound) == (exact.objective, exact.lower_bound)


def test_values_that_float32_rounds_too_much(ids):
    X, y = identity_numbers()
    options = {"loss": "logistic", "lam": 1e-4, "fit_intercept": True}
    best = bmrm.solve(X, y, tol=1e-6, **options)
    kept = bmrm.solve_file(ids, dtype="float32", **options)
    assert (kept.status, kept.stored) == ("precision", "float32")
    assert kept.lower_bound <= best.objective
    seen = []
    again = bmrm.solve_file(ids, callback=lambda state: seen.append(state.iteration), **options)
    assert (again.status, again.stored, again.rounding) == ("converged", "float64", 0.0)
    assert again.lower_bound <= best.objective
    assert best.lower_bound <= again.objective
    assert seen == [row["iteration"] for row in again.history] == list(range(1, again.n_iter + 1))
    assert again.timings["reload"] > 0.0


def test_room_for_rounding_is_made_with_the_same_values(text):
    data = bmrm.Dataset(read_data(text))
    first = bmrm.solve(data, lam=LAM, solver="bmrm")
    tol = first.gap - first.rounding / 2
    found = bmrm.solve(data, lam=LAM, solver="bmrm", tol=tol, tol_kind="abs")
    assert (found.status, found.stored, found.tol) == ("converged", "float32", tol)
    assert found.gap <= tol
    assert found.n_iter > first.n_iter
    assert [row["iteration"] for row in found.history] == list(range(1, found.n_iter + 1))
    limited = bmrm.solve(data, lam=LAM, solver="bmrm", tol=tol, tol_kind="abs", max_iter=first.n_iter)
    assert limited.status == "max_iter"


@pytest.mark.parametrize("signalled", [False, True])
@pytest.mark.parametrize("whole", [False, True])
def test_an_interrupted_solve_has_the_certificate_too(text, whole, signalled):
    X, y = decimals()
    bounds = []

    def stop(state):
        bounds.append(state.bounds())
        if signalled:
            signal.raise_signal(signal.SIGINT)
        return not signalled

    def run():
        if whole:
            return bmrm.solve_file(text, lam=LAM, callback=stop)
        return bmrm.solve(read_data(text), lam=LAM, callback=stop)

    if signalled:
        with pytest.raises(Interrupted) as caught:
            run()
        result = caught.value.result
    else:
        result = run()
    assert (result.status, len(bounds)) == ("interrupted", 1)
    assert result.rounding > 0.0
    assert exact_hinge(X, y, result.w) <= Fraction(result.objective)
    assert bounds[0].rounding > 0.0
    assert bounds[0].objective == pytest.approx(result.objective)


def test_folds_hold_for_the_numbers_of_the_file(text):
    X, y = decimals()
    lams = [1e-3, 1e-2]
    exact = bmrm.select(X, y, lams, 3, loss="logistic", tol=1e-8)
    for given in (read_data(text), bmrm.Dataset(read_data(text))):
        found = bmrm.select(given, None, lams, 3, loss="logistic")
        assert found.result.rounding > 0.0
        assert found.result.tol == 1e-3
        assert set(found.statuses) == {"converged"}
        for one, other in zip(found.validations, exact.validations, strict=True):
            for here, there in zip(one.results, other.results, strict=True):
                assert here.lower_bound <= there.objective
                assert there.lower_bound <= here.objective
    data = bmrm.Dataset(read_data(text))
    one = bmrm.cross_validate(data, 3, loss="logistic", lam=1e-2)
    assert [result.rounding for result in one.results] == [r.rounding for r in found.validations[1].results]


def test_folds_that_share_their_cuts(tmp_path):
    """Their rows are in another order than those of the file."""
    X, y = decimals(9000)
    path = write(tmp_path / "long", X, y)
    found = bmrm.select(read_data(path), lams=[1e-2], folds=3, loss="logistic")
    exact = bmrm.select(X, y, [1e-2], 3, loss="logistic", tol=1e-8)
    for here, there in zip(found.validations[0].results, exact.validations[0].results, strict=True):
        assert 0.0 < here.rounding < 1e-6
        assert here.lower_bound <= there.objective
        assert there.lower_bound <= here.objective
    np.testing.assert_allclose(found.validations[0].values, exact.validations[0].values, atol=0.2)


def test_the_other_lam_of_a_path(text):
    found = bmrm.path(read_data(text), lams=[1e-1, 1e-2])
    assert all(result.rounding > 0.0 and result.status == "converged" for result in found)


def test_what_a_file_holds_comes_with_it(tmp_path):
    X, y = decimals()
    path = tmp_path / "ranking"
    rows = (" ".join(f"{j + 1}:{v!r}" for j, v in enumerate(row) if v) for row in X.tolist())
    path.write_text("".join(f"{k % 3} qid:{k // 6} {row}\n" for k, row in enumerate(rows)))
    found = bmrm.solve_file(path, "pairwise", lam=LAM, dtype="float64")
    qid = np.arange(60) // 6
    exact = bmrm.solve(X, np.arange(60) % 3, "pairwise", lam=LAM, groups=qid)
    assert found.objective == pytest.approx(exact.objective, rel=1e-3)
    assert (found.zero_based, found.text_checksum) == (False, read_data(path).checksum)
    data = read_data(path, query_id=True)
    given = bmrm.Dataset(data, y, groups=qid[::-1])
    np.testing.assert_array_equal(given.y, y)
    np.testing.assert_array_equal(given.groups, bmrm.Dataset(X, y, groups=qid[::-1]).groups)


@pytest.mark.parametrize("loss", ["exponential", "poisson"])
def test_a_loss_without_a_bound_takes_float64(text, tmp_path, loss):
    X, y = decimals()
    path = write(tmp_path / "data", X, np.abs(y)) if loss == "poisson" else text
    found = bmrm.solve_file(path, loss, lam=LAM)
    assert (found.stored, found.status, "reload" in found.timings) == ("float64", "converged", False)
    for run in (
        lambda: bmrm.solve(read_data(path), loss=loss, lam=LAM),
        lambda: bmrm.solve_file(path, loss, lam=LAM, dtype="float32"),
        lambda: bmrm.cross_validate(bmrm.Dataset(read_data(path)), 3, loss=loss),
    ):
        with pytest.raises(ParameterError, match="no certificate for values that float32 has rounded"):
            run()


def test_a_checkpoint_sets_the_type(text, tmp_path):
    words = ["-q", "--lambda", str(LAM), "--checkpoint", str(tmp_path / "state"), text]
    assert train.main([*words, str(tmp_path / "model")]) == 0
    state = Checkpoint.load(tmp_path / "state")
    assert bmrm.solve_file(text, lam=LAM, warm_start=state).stored == "float32"
    with pytest.raises(ParameterError, match=r"^dtype: found float64, expected float32 as in"):
        bmrm.solve_file(text, lam=LAM, warm_start=state, dtype="float64")


def test_values_are_rounded_by_the_reader_alone(text):
    data = read_data(text, dtype="float64")
    for run in (
        lambda: bmrm.Dataset(data, dtype="float32"),
        lambda: bmrm.solve(data, dtype="float32"),
        lambda: bmrm.select(data, dtype="float32"),
    ):
        with pytest.raises(ParameterError, match="expected dtype= of the reader"):
            run()
    single = read_data(text)
    wide = bmrm.solve(single, lam=LAM, dtype="float64")
    assert wide.rounding == bmrm.solve(single, lam=LAM).rounding > 0.0


def test_unknown_options_are_refused_before_reading():
    with pytest.raises(ParameterError, match="lamb: no argument of solve_file"):
        bmrm.solve_file("nowhere", lamb=1.0)
