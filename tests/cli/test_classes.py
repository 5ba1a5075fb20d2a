"""The commands with several classes and several labels per row."""

import functools
import json

import numpy as np
import pytest

import bmrm.cli.dry_run
import bmrm.io
from bmrm.linear.models.model import Model

LABELS = (-2, 3, 5, 10)


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    classes = np.concatenate([np.arange(4), rng.integers(0, 4, 116)])
    return np.round(2.0 * np.eye(4)[classes] + rng.normal(size=(120, 4)), 3), classes


def text(X):
    return [" ".join(f"{j + 1}:{value}" for j, value in enumerate(row)) for row in X.tolist()]


@pytest.fixture
def classes_file(rows, tmp_path):
    X, classes = rows
    path = tmp_path / "classes.txt"
    path.write_text("".join(f"{LABELS[c]} {row}\n" for c, row in zip(classes, text(X), strict=True)))
    return path


@pytest.fixture
def sets_file(rows, tmp_path):
    X, _ = rows
    path = tmp_path / "sets.txt"
    sets = [",".join(str(j + 1) for j in np.flatnonzero(row > 1)) for row in X]
    path.write_text("".join(f"{labels} {row}\n" for labels, row in zip(sets, text(X), strict=True)))
    return path


def test_softmax_from_file_to_probabilities(rows, classes_file, tmp_path, bmrm_train, bmrm_predict):
    model, out = tmp_path / "model", tmp_path / "out"
    trained = bmrm_train("--loss", "softmax", "-B", "1", "--json", classes_file, model)
    assert trained.code == 0, trained
    assert json.loads(trained.out)["status"] == "converged"
    plain = bmrm_predict(classes_file, model, out)
    labels = [int(line) for line in out.read_text().splitlines()]
    right = np.mean(np.array(labels) == np.array(LABELS)[rows[1]])
    assert plain.out.startswith(f"Accuracy = {100 * right:g}%")
    assert "Macro F1 = " in plain.out
    assert "Log loss = " in plain.out
    scored = bmrm_predict("--probability", "--json", classes_file, model, out)
    shares = np.array([line.split() for line in out.read_text().splitlines()], float)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_array_equal(np.array(LABELS)[shares.argmax(axis=1)], labels)
    actual = shares[np.arange(120), rows[1]]
    assert json.loads(scored.out)["log_loss"] == pytest.approx(-np.log(actual).mean(), rel=1e-9)
    bmrm_predict("--decision-values", classes_file, model, out)
    values = np.array([line.split() for line in out.read_text().splitlines()], float)
    np.testing.assert_allclose(np.exp(values) / np.exp(values).sum(axis=1)[:, None], shares, rtol=1e-9)


@pytest.mark.parametrize("loss", ["softmax", "multiclass"])
def test_free_intercepts(loss, rows, classes_file, tmp_path, bmrm_train, bmrm_predict):
    free, held, again = tmp_path / "free", tmp_path / "held", tmp_path / "again"
    words = ("--loss", loss, "--lambda", "1", "-e", "1e-6")
    assert bmrm_train(*words, "--intercept", classes_file, free).code == 0
    assert bmrm_train(*words, "-B", "1", classes_file, held).code == 0
    models = [Model.load(path) for path in (free, held)]
    assert models[0].certificate.objective < models[1].certificate.lower_bound
    if loss == "softmax":
        X, classes = rows
        shares = models[0].predict_probability(X).mean(axis=0)
        np.testing.assert_allclose(shares, np.bincount(classes) / len(classes), atol=1e-6)
    started = bmrm_train(*words, "--intercept", "--warm-start", free, classes_file, again)
    assert started.code == 0
    assert Model.load(again).certificate.objective == pytest.approx(models[0].certificate.objective, rel=1e-6)
    assert bmrm_train("--dry-run", *words, "--intercept", classes_file).code == 0
    assert bmrm_train(*words, "--intercept", "-v", "3", classes_file).code == 0


def test_costs_change_the_model(classes_file, tmp_path, bmrm_train):
    costs, models = tmp_path / "costs", [tmp_path / "plain", tmp_path / "costly"]
    costs.write_text("0 1 1 9\n1,0,1,9\n1 1 0 9\n1 1 1 0\n")
    bmrm_train("--loss", "multiclass", classes_file, models[0])
    assert bmrm_train("--loss", "multiclass", "--costs", costs, classes_file, models[1]).code == 0
    objectives = [Model.load(model).certificate.objective for model in models]
    assert objectives[0] < objectives[1]


@pytest.mark.parametrize("loss", ["multilabel", "multilabel_ranking"])
def test_sets_of_labels(loss, rows, sets_file, tmp_path, bmrm_train, bmrm_predict):
    model, out = tmp_path / "model", tmp_path / "out"
    assert bmrm_train("--loss", loss, "-B", "1", "--lambda", "1e-2", sets_file, model).code == 0
    scored = bmrm_predict(sets_file, model, out)
    lines = out.read_text().split("\n")[:-1]
    assert len(lines) == 120
    if loss == "multilabel":
        predicted = [{int(label) for label in line.split(",") if label} for line in lines]
        actual = [set((np.flatnonzero(row > 1) + 1).tolist()) for row in rows[0]]
        wrong = sum(len(a ^ b) for a, b in zip(actual, predicted, strict=True))
        assert f"Hamming loss = {wrong / 480:.6g}" in scored.out
        assert wrong < 100
    else:
        assert {tuple(sorted(line.split(","))) for line in lines} == {("1", "2", "3", "4")}
        assert "Ranking loss = " in scored.out


def test_folds_dry_run_and_a_warm_start(classes_file, tmp_path, bmrm_train):
    folded = bmrm_train("--loss", "multiclass", "-v", "3", classes_file)
    assert folded.out.startswith("Cross Validation Accuracy = ")
    sizes = [
        json.loads(bmrm_train("--dry-run", "--json", "--loss", loss, "--max-cuts", "50", classes_file).out)
        for loss in ("hinge", "multiclass")
    ]
    bundles = [size["bytes"]["bundle"] for size in sizes]
    assert bundles == [8 * 50 * (4 + 50), 8 * 50 * (16 + 50)]
    model, again = tmp_path / "model", tmp_path / "again"
    bmrm_train("--loss", "multiclass", "-B", "2", classes_file, model)
    log = tmp_path / "log"
    words = ("--loss", "multiclass", "-B", "2", "--warm-start", model, "--log-jsonl", log)
    assert bmrm_train(*words, classes_file, again).code == 0
    first = json.loads(log.read_text().splitlines()[0])["objective"]
    assert first <= Model.load(model).certificate.objective * (1 + 1e-9)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--loss", "softmax", "--costs", "costs"], 2, "unknown parameter 'costs'"),
        (["--loss", "multiclass", "--costs", "costs"], 3, "2 classes, expected the 4"),
        (["--loss", "multiclass", "--costs", "ragged"], 3, "ragged:2: found '1', expected 2 numbers"),
        (["--loss", "multiclass", "--costs", "wide"], 3, "1 rows of 3 costs"),
        (["--loss", "multiclass", "--costs", "words"], 3, "words:1: found 'a b', expected numbers"),
        (["--loss", "multiclass", "--costs", "long"], 3, "3 rows of 2 costs"),
        (["--loss", "multiclass", "--costs", "nan"], 3, "nan:1: found '0 nan', expected numbers"),
        (["--loss", "multiclass", "--costs", "digits"], 3, "digits:1: found '0 1_0', expected numbers"),
        (["--loss", "multiclass", "--costs", "negative"], 3, "negative: costs: row 1, column 2 has -1"),
        (["--loss", "multiclass", "--costs", "diagonal"], 3, "diagonal: costs: row 2 has 1 on the diagonal"),
        (["--loss", "multiclass", "--costs", "nowhere"], 3, "nowhere: No such file"),
        (["--loss", "multilabel", "--export", "liblinear"], 2, "no model for the multilabel loss"),
        (["--loss", "hinge"], 3, "expected two classes"),
    ],
)
def test_one_clear_line(words, code, message, classes_file, tmp_path, monkeypatch, bmrm_train):
    monkeypatch.chdir(tmp_path)
    for name, content in {
        "costs": "0 1\n1 0\n",
        "ragged": "0 1\n1\n",
        "wide": "0 1 2\n",
        "words": "a b\n",
        "long": "0 1\n1 0\n1 1\n0 0\n",
        "nan": "0 nan\n1 0\n",
        "digits": "0 1_0\n1 0\n",
        "negative": "0 -1\n1 0\n",
        "diagonal": "0 1\n1 1\n",
    }.items():
        (tmp_path / name).write_text(content)
    outcome = bmrm_train(*words, classes_file, "model")
    assert (outcome.code, outcome.out) == (code, "")
    assert message in outcome.err
    assert outcome.err.count("\n") == 1
    assert not (tmp_path / "model").exists()


def test_sets_of_labels_need_a_loss_for_them(sets_file, tmp_path, bmrm_train, bmrm_predict, classes_file):
    outcome = bmrm_train("--loss", "multiclass", sets_file, tmp_path / "model")
    assert (outcome.code, "several labels per row" in outcome.err) == (3, True)
    bmrm_train("--loss", "multiclass", classes_file, tmp_path / "model")
    outcome = bmrm_predict(sets_file, tmp_path / "model", tmp_path / "out")
    assert (outcome.code, "several labels" in outcome.err) == (3, True)


def test_rows_without_labels_in_small_chunks(sets_file, tmp_path, monkeypatch, bmrm_train, bmrm_predict):
    """Rows without a label come before the first row with several, in a separate chunk."""
    sets_file.write_text(" 1:1\n2 1:1\n" * 100 + sets_file.read_text())
    words = ("--loss", "multilabel", "-B", "1", sets_file)
    model, whole, parts = (tmp_path / name for name in ("model", "whole", "parts"))
    assert bmrm_train("-q", *words, model).code == 0
    scores, size = bmrm_predict(sets_file, model, whole), bmrm_train("--dry-run", *words)
    assert (scores.code, size.code) == (0, 0)
    small = functools.partial(bmrm.io.iter_svmlight, rows_bytes=500)
    for module in (bmrm.io, bmrm.cli.dry_run):
        monkeypatch.setattr(module, "iter_svmlight", small)
    assert bmrm_predict(sets_file, model, parts) == scores
    assert bmrm_train("--dry-run", *words) == size
    assert whole.read_bytes() == parts.read_bytes()
