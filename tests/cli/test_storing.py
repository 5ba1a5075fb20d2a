"""The type in which values are stored, and certificates that hold for the numbers of the file."""

import gc
import json
import os
import signal
import subprocess
import sys
import weakref

import mpi
import numpy as np
import pytest
from commands import start_python, two_classes, write_svmlight
from scipy.sparse import csr_array, save_npz

import bmrm
import bmrm.linear.solve
from bmrm.cli import storing
from bmrm.io.cache import SUFFIX, read_cached_dtype
from bmrm.linear import storage
from bmrm.linear.models.checkpoint import Checkpoint
from bmrm.linear.models.model import Model

LAM = 1e-4
solving = sys.modules["bmrm.linear.solve"]
EVERY_SIZE = "from bmrm.linear import storage; storage.MAX_FLOAT64_FILE_BYTES = -1; "
COMMAND = f"import sys; {EVERY_SIZE}from bmrm.cli.train import main; sys.exit(main())"


@pytest.fixture(autouse=True)
def every_size(monkeypatch):
    """Store small data like large data."""
    monkeypatch.setattr(storage, "MAX_FLOAT64_FILE_BYTES", -1)


def identity_numbers():
    """Write rows that differ only in bits that float32 does not have."""
    rng = np.random.default_rng(6)
    numbers = 2.0**24 + rng.integers(0, 2, 120)
    return np.column_stack([numbers, rng.standard_normal(120)]), np.where(numbers % 2, 1.0, -1.0)


def logistic(X, y, model, lam=LAM):
    """Return J of the numbers in float64."""
    margins = y * (X @ model.w + model.intercept)
    return np.logaddexp(0.0, -margins).mean() + 0.5 * lam * float(model.w @ model.w)


@pytest.fixture
def ids(folder):
    write_svmlight(folder / "ids", *identity_numbers())
    return "ids"


WORDS = ("--loss", "logistic", "--lambda", LAM, "--json", "-q")


def trained(outcome, code=0):
    assert outcome.code == code, outcome.err
    return json.loads(outcome.out)


def holds(report, X, y, optimum=None, lam=LAM):
    """Check that a certificate holds for the numbers of the file."""
    here = logistic(X, y, Model.load(report["model"]), lam)
    close = 1e-8 * here  # margins are small differences of large numbers
    assert report["lower_bound"] <= here <= report["objective"] + close
    assert report["objective"] - here <= report["rounding"] + close
    if optimum is not None:
        assert report["lower_bound"] <= optimum


def test_numbers_that_float32_rounds_too_much_are_read_again(ids, bmrm_train, bmrm_predict):
    X, y = identity_numbers()
    report = trained(bmrm_train(*WORDS, "--intercept", ids, "model"))
    assert (report["status"], report["dtype"], report["rounding"]) == ("converged", "float64", 0.0)
    best = bmrm.solve(X, y, "logistic", lam=LAM, fit_intercept=True, tol=1e-6)
    holds(report, X, y, best.objective)
    assert report["timings"]["train.reload"] > 0.0
    assert "120/120" in bmrm_predict(ids, "model", os.devnull).out


def test_decimals_stay_float32(data, bmrm_train):
    X, y = two_classes()
    report = trained(bmrm_train(*WORDS, data, "model"))
    assert (report["status"], report["dtype"]) == ("converged", "float32")
    assert 0.0 < report["rounding"] < 1e-5 * report["objective"]
    holds(report, X, y, bmrm.solve(X, y, "logistic", lam=LAM, tol=1e-8).objective)
    certificate = Model.load("model").certificate
    assert (certificate.dtype, certificate.rounding) == ("float32", report["rounding"])


def test_a_tighter_tolerance_needs_float64(data, bmrm_train):
    X, y = two_classes()
    report = trained(bmrm_train(*WORDS, "--tol", "1e-8", data, "model"))
    assert (report["status"], report["dtype"], report["rounding"]) == ("converged", "float64", 0.0)
    holds(report, X, y)


def test_numbers_of_float32_cost_nothing(folder, bmrm_train):
    X, y = two_classes()
    write_svmlight(folder / "counts", np.round(8.0 * X) / 4.0, y)
    single, double = (
        trained(bmrm_train(*WORDS, "--dtype", dtype, "counts", "model")) for dtype in ("auto", "float64")
    )
    assert (single["dtype"], single["rounding"]) == ("float32", 0.0)
    assert all(single[key] == double[key] for key in ("objective", "lower_bound", "status", "iterations"))


def test_float32_on_request_comes_with_advice(ids, bmrm_train):
    X, y = identity_numbers()
    report = trained(bmrm_train(*WORDS, "--intercept", "--dtype", "float32", ids, "model"), 4)
    assert (report["status"], report["dtype"]) == ("precision", "float32")
    assert report["rounding"] > report["gap"] / 2
    holds(report, X, y, bmrm.solve(X, y, "logistic", lam=LAM, fit_intercept=True, tol=1e-6).objective)
    words = bmrm_train("--loss", "logistic", "--intercept", "--dtype", "float32", ids, "model").out
    assert "values are stored as float32, try --dtype float64" in words


def test_small_data_are_float64_at_once(data, bmrm_train, monkeypatch):
    monkeypatch.undo()
    report = trained(bmrm_train(*WORDS, data, data.parent / "model"))
    assert (report["dtype"], report["rounding"]) == ("float64", 0.0)
    assert report["objective"] == pytest.approx(
        logistic(*two_classes(), Model.load(report["model"])), rel=1e-14
    )


def test_what_cannot_be_read_twice_is_float64_at_once(data, folder):
    for name in ("-", "/dev/stdin"):
        process = start_python(COMMAND, *WORDS, name, "model", cwd=folder, stdin=subprocess.PIPE)
        report = json.loads(process.communicate(data.read_text())[0])
        assert (report["dtype"], report["rounding"]) == ("float64", 0.0)


@pytest.mark.parametrize("loss", ["exponential", "poisson"])
def test_losses_without_a_bound_are_float64_at_once(folder, bmrm_train, loss):
    X, y = two_classes()
    write_svmlight(folder / "data", X, np.abs(y) if loss == "poisson" else y)
    report = trained(bmrm_train("--json", "-q", "--loss", loss, "data", "model"))
    assert (report["dtype"], report["status"]) == ("float64", "converged")
    assert "train.reload" not in report["timings"]


def test_numbers_beyond_float32(folder, bmrm_train):
    X, y = two_classes()
    X[3, 2] = 1e39
    write_svmlight(folder / "text", X, y)
    np.savez(folder / "npz", y=y)
    save_npz(folder / "matrix.npz", csr_array(X))
    with np.load(folder / "matrix.npz") as archive:
        np.savez(folder / "matrix.npz", **archive, y=y)
    for name in ("text", "matrix.npz"):
        report = trained(bmrm_train("--json", "-q", "--lambda", "1", "--allow-unconverged", name, "model"))
        assert report["dtype"] == "float64"
        outcome = bmrm_train("--dtype", "float32", name, "model")
        assert (outcome.code, outcome.err.count("\n")) == (3, 1)


def test_reading_a_matrix_file_reports_rounding(folder, bmrm_train):
    for X, dtype in zip(
        (np.round(two_classes()[0] * 4.0), two_classes()[0]), ("exact", "rounded"), strict=True
    ):
        save_npz(folder / "matrix.npz", csr_array(X))
        with np.load(folder / "matrix.npz") as archive:
            np.savez(folder / "matrix.npz", **archive, y=two_classes()[1])
        report = trained(bmrm_train("--json", "-q", "matrix.npz", "model"))
        assert report["dtype"] == "float32"
        assert (report["rounding"] > 0.0) == (dtype == "rounded")


def test_a_cache_of_float64_serves_the_next_training(ids, bmrm_train):
    words = (*WORDS, "--intercept", "--cache", ids, "model")
    first = trained(bmrm_train(*words))
    assert read_cached_dtype(ids) == np.float64
    before = os.stat(ids + SUFFIX).st_mtime_ns
    second = trained(bmrm_train(*words))
    assert (first["dtype"], second["dtype"]) == ("float64", "float64")
    assert "train.reload" not in second["timings"]
    assert os.stat(ids + SUFFIX).st_mtime_ns == before


def test_a_cache_keeps_what_is_known_about_rounding(data, bmrm_train):
    fresh, cached = (trained(bmrm_train(*WORDS, "--cache", data, "model")) for _ in range(2))
    assert "load.cache" in cached["timings"]
    assert fresh["rounding"] == cached["rounding"] > 0.0


def test_a_resume_takes_the_type_of_the_checkpoint(ids, data, bmrm_train):
    for name, dtype, other in ((ids, "float64", "float32"), (data, "float32", "float64")):
        words = (*WORDS, *(["--intercept"] if name == ids else []))
        whole = trained(bmrm_train(*words, "--checkpoint", "state", name, "model"))
        assert Checkpoint.load("state").model.certificate.dtype == dtype
        again = trained(bmrm_train(*words, "--resume", "state", name, "model"))
        assert (again["dtype"], again["status"]) == (dtype, "converged")
        assert again["objective"] <= whole["objective"] * (1.0 + 1e-9)
        outcome = bmrm_train(*words, "--dtype", other, "--resume", "state", name, "model")
        assert (outcome.code, f"expected {dtype}" in outcome.err) == (2, True)


def test_running_states_hold_for_the_numbers_of_the_file(data, bmrm_train, monkeypatch):
    """A checkpoint's objective is at least J of the file, and training can continue from it."""
    X, y = two_classes()
    monkeypatch.setattr("bmrm.cli.observer.CHECKPOINT_INTERVAL_SECONDS", 0.0)
    monkeypatch.setattr("bmrm.cli.observer.MAX_CHECKPOINT_SHARE", 1e9)
    bmrm_train(*WORDS, "--max-iter", "1", "--checkpoint", "state", data, "model")
    model = Checkpoint.load("state").model
    assert logistic(X, y, model) <= model.certificate.objective
    assert model.certificate.rounding > 0.0
    assert trained(bmrm_train(*WORDS, "--resume", "state", data, "model"))["status"] == "converged"


def test_room_for_rounding_is_made_with_the_same_values(data, bmrm_train, monkeypatch):
    """If only rounding makes the gap too wide, more passes close it, without reading again."""
    words = ("--json", "-q", "--lambda", "1e-2", "--solver", "bmrm")
    first = trained(bmrm_train(*words, data, "model"))
    gap = first["gap"] - first["rounding"]
    assert first["rounding"] < gap / 4
    loads = []
    load = storing.load
    monkeypatch.setattr(storing, "load", lambda *given: loads.append(given) or load(*given))
    tol = gap + first["rounding"] / 2
    report = trained(bmrm_train(*words, "--tol-kind", "abs", "--tol", repr(tol), data, "model"))
    assert (report["status"], report["dtype"], len(loads)) == ("converged", "float32", 1)
    assert report["gap"] <= tol
    assert report["iterations"] > first["iterations"]


@pytest.mark.parametrize("failure", [MemoryError(), OSError(5, "Input/output error"), KeyboardInterrupt()])
def test_what_was_trained_is_not_lost_if_the_data_cannot_be_read_again(ids, bmrm_train, monkeypatch, failure):
    X, y = identity_numbers()
    load, calls = storing.load, []

    def failing(options, group):
        calls.append(options.dtype)
        if len(calls) == 2:
            if isinstance(failure, OSError):
                raise bmrm.errors.DataError(str(failure))
            raise failure
        return load(options, group)

    monkeypatch.setattr(storing, "load", failing)
    interrupted = isinstance(failure, KeyboardInterrupt)
    outcome = bmrm_train("--loss", "logistic", "--lambda", LAM, "--json", "--intercept", ids, "model")
    report = trained(outcome, 130 if interrupted else 4)
    assert calls == ["float32", "float64"]
    assert report["status"] == ("interrupted" if interrupted else "precision")
    assert report["dtype"] == "float32"
    assert ("rounded to float32" in outcome.err) != interrupted
    holds(report, X, y)


@pytest.mark.parametrize(("module", "place"), [(storing, "load"), (solving, "solve")])
def test_a_signal_after_float32_keeps_what_was_trained(ids, bmrm_train, monkeypatch, module, place):
    X, y = identity_numbers()
    known, calls = getattr(module, place), []

    def struck(*words, **keywords):
        calls.append(words)
        if len(calls) == 2:
            signal.raise_signal(signal.SIGINT)
            if place == "solve":  # before its first iteration
                raise bmrm.errors.Interrupted
        return known(*words, **keywords)

    monkeypatch.setattr(module, place, struck)
    outcome = bmrm_train("--loss", "logistic", "--lambda", LAM, "--json", "--intercept", ids, "model")
    report = trained(outcome, 130)
    assert (report["status"], report["dtype"], len(calls)) == ("interrupted", "float32", 2)
    holds(report, X, y)


def test_training_does_not_continue_with_data_that_changed(ids, folder, bmrm_train, monkeypatch):
    load, calls = storing.load, []

    def changing(options, group):
        calls.append(options.dtype)
        if len(calls) == 2:
            with (folder / ids).open("a") as file:
                file.write("+1 1:1\n")
        return load(options, group)

    monkeypatch.setattr(storing, "load", changing)
    outcome = bmrm_train("--loss", "logistic", "--lambda", LAM, "--json", "--intercept", ids, "model")
    assert trained(outcome, 4)["dtype"] == "float32"
    assert "has changed since" in outcome.err


def test_limits_are_for_both_readings(ids, bmrm_train):
    X, y = identity_numbers()
    report = trained(bmrm_train(*WORDS, "--intercept", "--max-iter", "3", "--tol", "1e-9", ids, "model"), 4)
    assert report["iterations"] == 3
    assert report["status"] == "max_iter"
    holds(report, X, y)


def test_the_count_of_iterations_continues(ids, folder, bmrm_train):
    report = trained(bmrm_train(*WORDS, "--intercept", "--log-jsonl", "log", ids, "model"))
    numbers = [json.loads(line)["iteration"] for line in (folder / "log").read_text().splitlines()]
    assert numbers == list(range(1, report["iterations"] + 1))


GRID = ("--loss", "logistic", "--json", "-q", "-v", "3", "-C", "--lambdas", "1e-3,1e-2")


def folds_hold(report, X, y, grid):
    """Certificates of folds hold for the numbers of the file: compare with exact solves."""
    found = bmrm.select(X, y, grid, 3, loss="logistic", tol=1e-6)
    for row, exact in zip(report["selection"]["grid"], found.validations, strict=True):
        for bound, objective, result in zip(
            row["lower_bounds"], row["objectives"], exact.results, strict=True
        ):
            assert bound <= result.objective
            assert result.lower_bound <= objective


def test_a_selection_holds_for_the_numbers(data, bmrm_train):
    X, y = two_classes()
    report = trained(bmrm_train(*GRID, data, "model"))
    assert (report["dtype"], report["status"]) == ("float32", "converged")
    assert report["rounding"] > 0.0
    assert report["options"]["tol"] == 1e-3
    holds(report, X, y, lam=report["lambda"])
    folds_hold(report, X, y, [1e-3, 1e-2])


def test_a_selection_that_rounding_spoils_is_repeated(ids, bmrm_train):
    X, y = identity_numbers()
    report = trained(bmrm_train(*GRID, ids, "model"))
    assert (report["dtype"], report["status"], report["rounding"]) == ("float64", "converged", 0.0)
    holds(report, X, y, lam=report["lambda"])
    folds_hold(report, X, y, [1e-3, 1e-2])
    report = trained(bmrm_train(*GRID, "--dtype", "float32", ids, "model"), 4)
    assert (report["dtype"], report["status"]) == ("float32", "precision")
    assert "precision" in report["selection"]["grid"][0]["statuses"]
    holds(report, X, y, lam=report["lambda"])
    folds_hold(report, X, y, [1e-3, 1e-2])


@pytest.mark.parametrize("loss", ["multiclass", "roc_area", "squared"])
def test_selections_of_other_losses(folder, bmrm_train, loss):
    X, y = two_classes(90)
    write_svmlight(folder / "data", X, np.arange(90) % 3 if loss == "multiclass" else y)
    report = trained(bmrm_train(*GRID, "--loss", loss, "data", "model"))
    assert report["status"] == "converged"
    assert report["rounding"] > 0.0
    single = {row["lambda"]: row for row in report["selection"]["grid"]}
    double = trained(bmrm_train(*GRID, "--loss", loss, "--dtype", "float64", "data", "model"))
    for row in double["selection"]["grid"]:
        assert (np.array(single[row["lambda"]]["lower_bounds"]) <= row["objectives"]).all()
        assert (np.array(row["lower_bounds"]) <= single[row["lambda"]]["objectives"]).all()


def test_folds_without_a_grid_are_of_the_numbers_themselves(data, folder, bmrm_train):
    words = ("--loss", "logistic", "--json", "-q", "-v", "3")
    assert trained(bmrm_train(*words, data))["dtype"] == "float64"
    write_svmlight(folder / "counts", np.round(2.0 * two_classes()[0]), two_classes()[1])
    assert trained(bmrm_train(*words, "counts"))["dtype"] == "float32"


def test_the_dry_run_reports_both_types(data, folder, bmrm_train):
    rounded = json.loads(bmrm_train("--dry-run", "--json", data).out)
    assert rounded["bytes_as_float64"] - rounded["bytes"]["total"] == 2 * 4 * rounded["nnz"]
    assert "if float32 rounds the values too much" in bmrm_train("--dry-run", data).out
    write_svmlight(folder / "counts", np.round(2.0 * two_classes()[0]), two_classes()[1])
    exact = json.loads(bmrm_train("--dry-run", "--json", "counts").out)
    assert exact["bytes_as_float64"] == exact["bytes"]["total"]


@pytest.mark.parametrize("weights", ["replicated", "owned"])
def test_ranks_read_again_together(ids, bmrm_train, weights):
    pytest.importorskip("mpi4py")
    words = [*map(str, WORDS), "--bias", "1", "--weights", weights]
    done = mpi.run(2, "-c", COMMAND, *words, ids, "model")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["dtype"], report["status"]) == ("float64", "converged")
    alone = trained(bmrm_train(*WORDS, "--bias", "1", ids, "alone"))
    assert report["lower_bound"] <= alone["objective"]
    assert alone["lower_bound"] <= report["objective"]


@pytest.mark.parametrize("weights", ["replicated", "owned"])
def test_ranks_add_up_their_rounding(data, bmrm_train, weights):
    pytest.importorskip("mpi4py")
    words = [*map(str, WORDS), "--weights", weights]
    done = mpi.run(2, "-c", COMMAND, *words, str(data), "model")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["dtype"], report["status"]) == ("float32", "converged")
    alone = trained(bmrm_train(*WORDS, data, "alone"))
    assert report["rounding"] == pytest.approx(alone["rounding"], rel=0.5)
    holds(report, *two_classes())


@pytest.mark.parametrize("loss", ["exponential", "roc_area"])
def test_float32_on_request_is_refused_where_no_bound_is_known(data, bmrm_train, loss):
    """For a loss of margins taken together that is several ranks."""
    words = ["--loss", loss, "--dtype", "float32", str(data), "model"]
    if loss == "roc_area":
        pytest.importorskip("mpi4py")
        assert bmrm_train(*words).code == 0
        done = mpi.run(2, "-c", COMMAND, *words)
        code, err = done.returncode, done.stderr
    else:
        code, _, err = bmrm_train(*words)
    assert (code, "float32 has rounded; read them as float64" in err) == (2, True)


def test_values_are_released_before_they_are_read_again(ids, bmrm_train, monkeypatch):
    """There may be too little memory for both types of values and the cuts."""
    load, seen = storing.load, []

    def watching(options, group):
        gc.collect()
        assert not any(each() for each in seen)
        dataset = load(options, group)
        seen.extend(map(weakref.ref, (dataset.source, dataset)))
        return dataset

    monkeypatch.setattr(storing, "load", watching)
    words = (*WORDS, "--intercept", "--checkpoint", "state", ids, "model")
    assert trained(bmrm_train(*words))["dtype"] == "float64"
    assert len(seen) == 4
