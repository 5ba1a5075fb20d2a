"""The commands with joint losses: queries, measures, ordered classes."""

import json

import numpy as np
import pytest
from commands import two_classes, write_svmlight

import bmrm
from bmrm.linear.models.metrics import RankingMetrics
from bmrm.linear.models.model import Model


def write_ranking(path, X, y, qid):
    """Return SVMlight text with the query of each row."""
    lines = [
        f"{label:g} qid:{query} " + " ".join(f"{j + 1}:{value!r}" for j, value in enumerate(row))
        for row, label, query in zip(X.tolist(), y, qid, strict=True)
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


def ranked(seed=0, rows=80):
    rng = np.random.default_rng(seed)
    X = np.round(rng.standard_normal((rows, 4)), 3)
    y = np.clip(np.round(X @ [1.0, -1, 0.5, 0] + 0.5 * rng.standard_normal(rows) + 1), 0, 4)
    return X, y, rng.integers(1, 9, rows)  # not in order


@pytest.mark.parametrize("loss", ["pairwise", "ndcg", "lambda_ndcg", "mrr"])
def test_ranking_from_file_to_metrics(folder, bmrm_train, bmrm_predict, loss):
    X, y, qid = ranked()
    write_ranking(folder / "train.txt", X, y, qid)
    words = ["--k", "5"] if loss == "ndcg" else []
    outcome = bmrm_train("--loss", loss, *words, "--lambda", "1e-2", "--tol", "1e-5", "train.txt", "model")
    assert outcome.code == 0, outcome.err
    model = Model.load("model")
    assert (model.loss, model.task, model.classes) == (loss, "ranking", None)
    params = {"k": 5.0} if loss == "ndcg" else {}
    assert model.loss_params == params
    again = bmrm.solve(X, y, loss, groups=qid, lam=1e-2, tol=1e-5, **params)
    assert model.certificate.objective == pytest.approx(again.objective, rel=1e-12)
    report = json.loads(bmrm_predict("--json", "train.txt", "model", "out").out)
    scores = np.array((folder / "out").read_text().split(), float)
    np.testing.assert_allclose(scores, X @ model.w, rtol=1e-12)
    wanted = RankingMetrics(np.unique(qid, return_inverse=True)[1], 5 if loss == "ndcg" else 10)
    wanted.update(scores, y)
    assert {name: report[name] for name in wanted.report()} == wanted.report()
    assert report["ndcg"] > 0.8
    lines = bmrm_predict("train.txt", "model", "out").out.splitlines()
    assert lines[0] == f"NDCG = {report['ndcg']:.6g} (8 groups)"
    assert lines[2] == f"Pairs in the wrong order = {100 * report['pairwise_error']:g}%"


def test_a_row_without_a_query_is_named(data, folder, bmrm_train, bmrm_predict):
    outcome = bmrm_train("--loss", "pairwise", data, "model")
    assert outcome.code == 3
    assert "train.txt:1:" in outcome.err
    assert "expected qid: and an integer" in outcome.err
    assert outcome.err.count("\n") == 1
    Model(np.ones(5), 0.0, "pairwise", "ranking", None, lam=1.0).save("model")
    assert bmrm_predict(data, "model", "out").code == 3
    assert not (folder / "out").exists()


def test_queries_of_a_file_are_left_alone_by_other_losses(folder, bmrm_train):
    X, y = two_classes()
    write_ranking(folder / "train.txt", X, y, np.arange(60))
    assert bmrm_train("--loss", "roc_area", "train.txt", "model").code == 0


def test_queries_through_the_cache(folder, bmrm_train):
    write_ranking(folder / "train.txt", *ranked())
    found = [
        json.loads(bmrm_train("--json", "--cache", "--loss", "ndcg", "train.txt", "model").out)
        for _ in range(2)
    ]
    assert found[0]["objective"] == found[1]["objective"]


def test_queries_stay_together_in_cross_validation(folder, bmrm_train):
    write_ranking(folder / "train.txt", *ranked())
    outcome = bmrm_train("--json", "--loss", "pairwise", "-v", "4", "train.txt")
    report = json.loads(outcome.out)
    assert outcome.code == 0
    assert report["groups"] == 8
    assert 0 < report["pairwise_error"] < 0.3
    outcome = bmrm_train("--loss", "pairwise", "-v", "9", "train.txt")
    assert outcome.code == 2
    assert "number of groups, 8" in outcome.err


@pytest.mark.parametrize(
    ("loss", "words", "metric"),
    [
        ("roc_area", [], "auc"),
        ("f_beta", ["--beta", "2", "--intercept"], "f_beta"),
        ("precision_at_k", ["--k", "10"], "precision_at_k"),
        ("recall_at_k", ["--k", "0.7", "-B", "1"], "recall_at_k"),
        ("recall_at_k", [], "recall_at_k"),
        ("prbep", [], "break_even"),
    ],
)
def test_measures_from_file_to_metrics(data, folder, bmrm_train, bmrm_predict, loss, words, metric):
    outcome = bmrm_train("--loss", loss, *words, "--lambda", "1e-3", data, "model")
    assert outcome.code == 0, outcome.err
    model = Model.load("model")
    assert (model.loss, model.task, model.classes) == (loss, "binary", (-1.0, 1.0))
    report = json.loads(bmrm_predict("--json", data, "model", "out").out)
    assert 0.6 < report[metric] <= 1.0


@pytest.mark.parametrize("words", [["--intercept"], ["-B", "1"]])
def test_an_intercept_without_meaning_is_refused_before_the_data_is_read(folder, bmrm_train, words):
    outcome = bmrm_train("--loss", "roc_area", *words, "missing.txt")
    assert outcome.code == 2
    assert "loss roc_area: takes no intercept" in outcome.err


def test_ordered_classes_from_file_to_metrics(folder, bmrm_train, bmrm_predict):
    X, y, _ = ranked()
    write_svmlight(folder / "train.txt", X, 10 * y)
    outcome = bmrm_train(
        "--loss", "ordinal", "--lambda", "1e-3", "--checkpoint", "kept", "train.txt", "model"
    )
    assert outcome.code == 0, outcome.err
    model = Model.load("model")
    assert model.classes == (0.0, 10.0, 20.0, 30.0, 40.0)
    assert sorted(model.thresholds) == list(model.thresholds)
    assert Model.load("kept").thresholds == model.thresholds
    report = json.loads(bmrm_predict("--json", "train.txt", "model", "out").out)
    predicted = np.array((folder / "out").read_text().split(), float)
    assert report["accuracy"] == np.mean(predicted == 10 * y) > 0.6
    assert report["mae"] == pytest.approx(np.abs(predicted - 10 * y).mean())
    report = json.loads(bmrm_train("--json", "--loss", "ordinal", "-v", "3", "train.txt").out)
    assert report["accuracy"] > 0.4


def test_a_checkpoint_of_ordered_classes_has_thresholds(folder, bmrm_train):
    X, y, _ = ranked()
    write_svmlight(folder / "train.txt", X, y)
    outcome = bmrm_train(
        *("--loss", "ordinal", "--max-iter", "1", "--tol", "1e-9", "--checkpoint", "kept", "train.txt", "m")
    )
    assert outcome.code == 4
    assert len(Model.load("kept").thresholds) == 4


@pytest.mark.parametrize("loss", ["pairwise", "ordinal", "roc_area"])
def test_liblinear_has_no_such_model(folder, bmrm_train, loss):
    outcome = bmrm_train("--loss", loss, "--export", "liblinear", "missing.txt")
    assert outcome.code == 2
    assert f"LIBLINEAR has no model for the {loss} loss" in outcome.err
