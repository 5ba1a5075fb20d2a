"""``bmrm-train -C``, ``--lambdas`` and ``--calibrate``, and ``bmrm-predict`` with their models."""

import json
import os
import re
import signal

import numpy as np
import pytest
from commands import two_classes, write_svmlight

import bmrm
from bmrm.cli.report import edge_note, edge_of_grid
from bmrm.linear.models.calibration import Isotonic, Platt
from bmrm.linear.models.model import Model
from bmrm.linear.selection import cross_validation as crossval

GRID = "1e-3,1e-2,0.1,1"


def arrays():
    return two_classes()


def numbers(path):
    return [float(line) for line in path.read_text().splitlines()]


def test_it_trains_with_what_select_picks(data, folder, bmrm_train):
    outcome = bmrm_train("-C", "--lambdas", GRID, "-v", "4", "--loss", "logistic", data, "model")
    assert outcome.code == 0
    X, y = arrays()
    lams = [float(lam) for lam in GRID.split(",")]
    found = bmrm.select(X, y, lams, 4, loss="logistic")
    model = Model.load("model")
    assert model.lam == found.lam
    assert model.certificate.status == "converged"
    np.testing.assert_allclose(model.w, found.result.w, rtol=1e-9)
    assert outcome.err.strip() == str(found).strip()
    assert outcome.out.splitlines()[0] == (
        f"lambda       {found.lam:.6g} (C = {1 / (60 * found.lam):.6g}): "
        f"accuracy {found.mean[found.chosen]:.6g} +- {found.standard_error[found.chosen]:.2g} over 4 folds"
        + edge_note("lambda", edge_of_grid(found.lam, lams))
    )
    assert outcome.out.splitlines()[-1] == "model        model"
    assert sorted(os.listdir(folder)) == ["model", "train.txt"]


def test_json_has_the_grid_and_the_certificate(data, bmrm_train):
    outcome = bmrm_train(
        "-C", "--lambdas", GRID, "--metric", "loss", "--rule", "1se", "--json", data, "model"
    )
    report = json.loads(outcome.out)
    assert report["status"] == "converged"
    chosen = report["selection"]
    assert (chosen["folds"], chosen["metric"], chosen["rule"]) == (5, "loss", "1se")
    assert [row["lambda"] for row in chosen["grid"]] == [1e-3, 1e-2, 0.1, 1.0]
    assert chosen["lambda"] == report["lambda"] == chosen["one_standard_error"] >= chosen["best"]
    for row in chosen["grid"]:
        assert row["mean"] == pytest.approx(np.mean(row["scores"]))
        assert row["statuses"] == ["converged"] * 5
        assert all(low <= high for low, high in zip(row["lower_bounds"], row["objectives"], strict=True))
    assert outcome.err.splitlines()[0].split()[0] == "lam"
    assert report["options"]["lambdas"] == [1e-3, 1e-2, 0.1, 1.0]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_scores_that_overflow_are_null(folder, bmrm_train):
    X, y = two_classes()
    y[0] = 1e200
    words = ["-v", "3", "--loss", "absolute", "--json", write_svmlight(folder / "data", X, y)]
    report = json.loads(bmrm_train(*words).out)
    assert (report["rows"], report["mse"]) == (60, None)
    for row in json.loads(bmrm_train("--lambdas", "1e-3,1", "--metric", "mse", *words).out)["selection"][
        "grid"
    ]:
        assert (row["mean"], row["standard_error"]) == (None, None)
        assert row["scores"].count(None) == 1


def test_the_default_grid(data, bmrm_train):
    report = json.loads(bmrm_train("-C", "--json", data, "model").out)
    lams = [row["lambda"] for row in report["selection"]["grid"]]
    assert lams == pytest.approx(np.logspace(-1.5, -6, 10))


def test_a_grid_without_a_model(data, folder, bmrm_train):
    outcome = bmrm_train("-v", "3", "--lambdas", "1e-3:1:4", data)
    assert outcome.code == 0
    assert outcome.out.startswith("lambda  ")
    assert [float(line.split()[0]) for line in outcome.err.splitlines()[1:]] == [1.0, 0.1, 0.01, 0.001]
    assert os.listdir(folder) == ["train.txt"]
    report = json.loads(bmrm_train("-v", "3", "--lambdas", "1e-3:1:4", "--json", data).out)
    assert set(report) == {"selection", "dtype", "timings", "options"}


def test_a_plot(data, folder, bmrm_train):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed; the extra `plot` installs it")
    assert bmrm_train("-q", "-C", "--lambdas", GRID, "--plot", "scores.png", data, "model") == (0, "", "")
    assert (folder / "scores.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("method", ["platt", "isotonic"])
def test_calibrated_probabilities(method, data, folder, bmrm_train, bmrm_predict):
    outcome = bmrm_train("--calibrate", method, "--lambda", "0.01", "--class-weight", "1=2", data, "model")
    assert outcome.code == 0
    assert "Cross Validation Log loss = " in outcome.out
    X, y = arrays()
    found = bmrm.select(X, y, [0.01], 5, class_weight={1.0: 2.0})
    model = Model.load("model")
    assert isinstance(model.calibration, {"platt": Platt, "isotonic": Isotonic}[method])
    expected = found.calibrate(method).probability(model.decision_function(two_classes()[0]))
    outcome = bmrm_predict("--probability", data, "model", "out")
    np.testing.assert_allclose(numbers(folder / "out"), expected, rtol=1e-9, atol=1e-12)
    assert [line.split(" = ")[0] for line in outcome.out.splitlines()] == [
        "Accuracy", "AUC", "F1", "Precision/recall break-even", "Log loss", "Brier score",
    ]  # fmt: skip
    report = json.loads(bmrm_predict("--probability", "--json", data, "model", "out").out)
    assert report["brier"] == pytest.approx(np.mean((expected - (y > 0)) ** 2), rel=1e-9)


@pytest.mark.parametrize("words", [["-v", "3"], ["-C", "-v", "3", "--lambdas", GRID, "--calibrate", "platt"]])
def test_rows_of_weight_zero_are_as_good_as_removed(words, folder, bmrm_train):
    """Folds, scores, the selected lambda and the calibration are those of a file without these rows."""
    X, y = two_classes()
    weights = np.random.default_rng(1).choice([0.0, 0.5, 2.0], 60)
    some = np.flatnonzero(weights)
    write_svmlight(folder / "all", X, np.where(weights > 0, y, 7.0))
    write_svmlight(folder / "some", X[some], y[some])
    np.savetxt(folder / "weights of all", 3.0 * weights)
    np.savetxt(folder / "weights of some", weights[some])
    found = []
    for data in ("all", "some"):
        model = ["model"] if "-C" in words else []
        outcome = bmrm_train(
            *words, "-e", "1e-7", "--json", "--sample-weight", f"weights of {data}", data, *model
        )
        assert outcome.code == 0
        found.append(json.loads(outcome.out))
    if "-C" not in words:
        assert found[0]["rows"] == found[1]["rows"] == len(some)
        for key in ("correct", "accuracy", "auc", "f1", "break_even"):
            assert found[0][key] == pytest.approx(found[1][key], rel=1e-12)
        return
    one, other = (each["selection"] for each in found)
    assert one["lambda"] == other["lambda"]
    for row, same in zip(one["grid"], other["grid"], strict=True):
        assert row["scores"] == pytest.approx(same["scores"], rel=1e-12)
    assert found[0]["calibration"]["log_loss"] == pytest.approx(found[1]["calibration"]["log_loss"], rel=1e-3)


def test_an_accuracy_with_weights_says_so(data, folder, bmrm_train):
    (folder / "weights").write_text("".join(f"{1 + i % 3}\n" for i in range(60)))
    out = bmrm_train("-v", "3", "--sample-weight", "weights", data).out
    report = json.loads(bmrm_train("-v", "3", "--sample-weight", "weights", "--json", data).out)
    assert 60 * report["accuracy"] != report["correct"]
    assert out.splitlines()[0] == (
        f"Cross Validation Accuracy = {100 * report['accuracy']:g}% (weighted; {report['correct']}/60 rows)"
    )


def test_cost_is_of_all_rows(data, bmrm_train):
    bmrm_train("-q", "--calibrate", "platt", "-c", "0.5", data, "model")
    assert Model.load("model").lam == pytest.approx(1 / (0.5 * 60), rel=1e-15)


def test_a_calibrated_choice(data, bmrm_train):
    report = json.loads(
        bmrm_train("-C", "--lambdas", GRID, "--calibrate", "platt", "--json", data, "model").out
    )
    assert set(report["calibration"]) == {"method", "log_loss", "brier"}
    assert Model.load("model").calibration.method == "platt"


def test_liblinears_table_of_probabilities(data, folder, bmrm_train, bmrm_predict):
    bmrm_train("-q", "--calibrate", "platt", data, "model")
    assert bmrm_predict("-q", "-b", "1", data, "model", "out").code == 0
    lines = (folder / "out").read_text().splitlines()
    assert lines[0] == "labels 1 -1"
    bmrm_predict("-q", data, "model", "labels")
    bmrm_predict("-q", "--probability", data, "model", "column")
    for line, label, p in zip(lines[1:], numbers(folder / "labels"), numbers(folder / "column"), strict=True):
        found = [float(word) for word in line.split()]
        assert found[0] == label
        assert found[1:] == pytest.approx([p, 1 - p], abs=1e-15)
    bmrm_predict("-q", "-b", "0", data, "model", "plain")
    assert (folder / "plain").read_text() == (folder / "labels").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--lambdas", "1,2"], "--lambdas: only with -C, -v or --calibrate"),
        (["--rule", "1se"], "--rule: only with -C"),
        (["-v", "3", "--rule", "1se"], "--rule: only with -C or --lambdas"),
        (["-v", "3", "--plot", "a.png"], "--plot: only with -C or --lambdas"),
        (["-C", "--lambda", "1"], "--lambda: not with a grid of lambda"),
        (["-C", "-c", "1"], "--cost: not with a grid of lambda"),
        (["-C", "--lambdas", "1,one"], "--lambdas: found one, expected a positive number"),
        (["-C", "--lambdas", "1,1"], "expected each number once"),
        (["-C", "--lambdas", "1:0.1:5"], "expected MIN:MAX:COUNT"),
        (["-C", "--lambdas", "1e-9:1:1000000000"], "COUNT <= 1000"),
        (["-C", "--checkpoint", "x"], "--checkpoint: has no meaning in a cross validation"),
        (["-v", "3", "--export", "liblinear"], "writes no model"),
        (["--calibrate", "platt", "--export", "liblinear"], "cannot store --calibrate"),
        (["--calibrate", "platt", "--loss", "squared"], "--calibrate: found loss squared"),
        (["-C", "--metric", "mse"], "metric: found 'mse', expected one of accuracy, auc, loss for hinge"),
        (["-C", "--metric", "beauty"], "found beauty; bmrm-train --help-all lists them"),
        (["-C", "-v", "61"], "folds: found 61"),
        (["-C", "--plot", "scores.xyz"], "scores.xyz: found suffix 'xyz'"),
    ],
)
def test_bad_usage_is_one_line(words, message, data, folder, bmrm_train):
    outcome = bmrm_train(*words, data, "model")
    assert outcome.code == 2
    assert outcome.err.count("\n") == 1
    assert message in outcome.err
    assert os.listdir(folder) == ["train.txt"]


def test_outputs_that_cannot_be_written(data, folder, bmrm_train):
    assert bmrm_train("-C", "--lambdas", GRID, "--plot", "missing/a.png", data, "model").code == 1
    assert os.listdir(folder) == ["train.txt"]
    outcome = bmrm_train("-C", "--lambdas", GRID, data, "/dev/full")
    assert outcome.code == 1
    assert "No space left" in outcome.err


def test_bad_labels_are_found_before_training(folder, bmrm_train):
    X, y = two_classes()
    write_svmlight(folder / "data", X, y * 1.5)
    outcome = bmrm_train("-C", "--export", "liblinear", "data", "model")
    assert outcome.code == 2
    assert os.listdir(folder) == ["data"]


def test_a_limit_is_code_4(data, bmrm_train):
    assert bmrm_train("-q", "-C", "--lambdas", GRID, "--max-iter", "1", "-e", "1e-9", data, "model").code == 4
    assert Model.load("model").certificate.status == "max_iter"


@pytest.mark.parametrize("shares", [True, False], ids=["shared cuts", "in step"])
@pytest.mark.parametrize("when", ["first", "middle", "last"])
def test_an_interrupt_leaves_nothing(shares, when, data, folder, bmrm_train, monkeypatch):
    engine = crossval._Shared if shares else crossval._Apart
    solve, calls = engine._solve, []

    def interrupted(self, *words):
        calls.append(words)
        if len(calls) == {"first": 1, "middle": 7, "last": 21}[when]:
            signal.raise_signal(signal.SIGINT)
        return solve(self, *words)

    monkeypatch.setattr(engine, "_solve", interrupted)
    monkeypatch.setattr("bmrm.linear.selection.cross_validation.FoldProblem._may_share", lambda self: shares)
    outcome = bmrm_train("-C", "--lambdas", GRID, data, "model")
    assert len(calls) >= {"first": 1, "middle": 7, "last": 21}[when]
    assert outcome == (130, "", "bmrm-train: interrupted, nothing written\n")
    assert os.listdir(folder) == ["train.txt"]


def test_verbose_prints_each_solve(data, bmrm_train):
    outcome = bmrm_train("--verbose", "-C", "--lambdas", GRID, "-v", "3", data, "model")
    lines = [line for line in outcome.err.splitlines() if line.startswith("solve ")]
    assert len(lines) == 13
    assert lines[0].startswith("solve 1 of 13  lambda 1  without fold 1  objective ")
    assert "all rows" in lines[-1]


def test_penalties_reach_the_folds_and_the_model(data, folder, bmrm_train):
    X, y = arrays()
    factors = np.linspace(0.5, 2.0, X.shape[1])
    (folder / "factors").write_text("".join(f"{value}\n" for value in factors.tolist()))
    words = "--reg", "elastic_net", "--l1-ratio", "0.3", "--feature-lambda", "factors", "--loss", "logistic"
    outcome = bmrm_train("-C", "--lambdas", GRID, *words, data, "model")
    assert outcome.code == 0
    lams = [float(lam) for lam in GRID.split(",")]
    found = bmrm.select(
        X, y, lams, 5, loss="logistic", reg="elastic_net", l1_ratio=0.3, feature_lambda=factors
    )
    model = Model.load("model")
    assert (model.reg, model.reg_params) == ("elastic_net", {"l1_ratio": 0.3, "feature_lambda": True})
    assert model.lam == found.lam
    np.testing.assert_allclose(model.w, found.result.w, rtol=1e-9)


@pytest.mark.parametrize("words", [["-C"], ["-v", "5"], ["--calibrate", "platt", "--lambdas", "0.1"]])
def test_a_fold_whose_other_rows_have_one_class_is_named(words, folder, bmrm_train):
    lines = [f"{1 if i == 4 else -1} 1:{i} 2:{i * i % 7}\n" for i in range(30)]
    (folder / "rare.svm").write_text("".join(lines))
    outcome = bmrm_train(*words, "--loss", "roc_area", "rare.svm", "model")
    assert outcome.code == 3
    expected = r"bmrm-train: fold [1-5] of 5 held out: loss roc_area: found 0 positive and 24 negative rows"
    assert re.match(expected, outcome.err)
    assert outcome.err.count("\n") == 1


@pytest.mark.parametrize(
    ("chosen", "grid", "note"),
    [
        (0.1, [0.1, 1.0, 10.0], "; lambda is the smallest of its grid, a smaller one may be better"),
        (10.0, [0.1, 1.0, 10.0], "; lambda is the largest of its grid, a larger one may be better"),
        (1.0, [0.1, 1.0, 10.0], ""),
        (1.0, [1.0], ""),
    ],
)
def test_a_choice_at_the_edge_of_the_grid_says_so(chosen, grid, note):
    assert edge_note("lambda", edge_of_grid(chosen, grid)) == note


def test_the_edge_of_the_grid_is_printed(data, folder, bmrm_train):
    (folder / "three").write_text("".join(f"{i % 3} {i % 3 + 1}:{i}\n" for i in range(1, 31)))
    for words, name in ((["train.txt"], "lambda"), (["-s", "2", "three"], "C")):
        outcome = bmrm_train("-C", "--lambdas", "100,1000", *words, "m")
        assert f"; {name} is the " in outcome.out
    document = json.loads(bmrm_train("-C", "--json", "--lambdas", "100,1000", data, "m").out)
    assert document["selection"]["edge_of_grid"] in ("smallest", "largest")
