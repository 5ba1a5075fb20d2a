"""``bmrm-info``: what is in a model file, as text and as JSON."""

import json
import os
from datetime import UTC, datetime

import numpy as np
import pytest

from bmrm import Model


def facts(bmrm_info, *words):
    code, out, err = bmrm_info("--json", *words)
    assert (code, err) == (0, "")
    return json.loads(out)


def test_a_model_is_described(data, bmrm_train, bmrm_info):
    trained = json.loads(
        bmrm_train("--loss", "huber_hinge", "--h", "0.25", "-B", "1", "--json", data, "m").out
    )
    os.utime("m", (1e9, 1e9))
    found, model = facts(bmrm_info, "m"), Model.load("m")
    assert (found["format"], found["loss"]) == ("bmrm", {"name": "huber_hinge", "h": 0.25})
    assert (found["reg"], found["lambda"], found["classes"]) == ({"name": "l2"}, 1e-4, [-1.0, 1.0])
    assert found["changed"] == datetime.fromtimestamp(1e9, UTC).isoformat()
    assert found["library_version"] == model.library_version
    for name in ("status", "iterations", "objective", "lower_bound", "gap"):
        assert found["certificate"][name] == trained[name]
    assert (found["n_features"], found["weights"], found["first_feature"]) == (5, 5, 1)
    weights = {each["feature"] - 1: each["weight"] for each in found["top_weights"]}
    assert weights == dict(enumerate(model.w.tolist()))
    assert list(map(abs, weights.values())) == sorted(map(abs, model.w.tolist()), reverse=True)
    assert found["data"] == {"rows": 60, "nnz": 300, "text_checksum": model.training.text_checksum}
    assert len(facts(bmrm_info, "--top", "2", "m")["top_weights"]) == 2


def test_a_checkpoint_says_what_its_data_were(data, bmrm_train, bmrm_info):
    assert bmrm_train("-q", "--checkpoint", "c", data, "m").code == 0
    found = facts(bmrm_info, "c")
    assert (found["format"], found["data"]["rows"]) == ("checkpoint", 60)
    assert found["data"]["X"]
    assert "data         60 rows, 300 stored values" in bmrm_info("c").out


def test_the_text_has_one_fact_per_line(data, bmrm_train, bmrm_info):
    bmrm_train("-q", "--reg", "l1", "--lambda", "0.125", "--calibrate", "platt", data, "m")
    code, out, err = bmrm_info("--top", "1", "m")
    assert (code, err) == (0, "")
    for line in ("loss         hinge (binary)", "penalty      l1, lambda 0.125", "classes      -1, 1"):
        assert line in out.splitlines()
    assert "calibration  platt" in out
    assert "\nstatus       converged after " in out
    assert out.splitlines()[-2].split() == ["feature", "weight"]


def test_classes_and_features_from_zero(folder, bmrm_info):
    w = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, -3.0]])
    Model(w, np.zeros(3), "softmax", "multiclass", (2.0, 4.0, 7.0), lam=1.0, zero_based=True).save("m")
    found = facts(bmrm_info, "m")
    assert found["top_weights"] == [
        {"feature": 1, "class": 7.0, "weight": -3.0},
        {"feature": 0, "class": 4.0, "weight": 1.0},
    ]
    assert found["certificate"] is None
    assert bmrm_info("m").out.splitlines()[-1].split() == ["0", "4", "1"]


def test_features_with_names(folder, bmrm_info):
    names = ("age", "size\x1b[31m", "height")
    Model(np.array([0.0, 1.0, -3.0]), 0.0, "squared", "regression", None, lam=1.0, feature_names=names).save(
        "m"
    )
    assert facts(bmrm_info, "m")["top_weights"] == [
        {"feature": 3, "name": "height", "weight": -3.0},
        {"feature": 2, "name": names[1], "weight": 1.0},
    ]
    lines = [line.split() for line in bmrm_info("m").out.splitlines()[-3:]]
    assert lines == [["feature", "name", "weight"], ["3", "height", "-3"], ["2", "size\\x1b[31m", "1"]]


def test_liblinears_text(folder, bmrm_info):
    text = "solver_type L1R_LR\nnr_class 2\nlabel 3 5\nnr_feature 2\nbias -1\nw\n0.5 \n0 \n"
    (folder / "m").write_text(text)
    found = facts(bmrm_info, "m")
    assert (found["format"], found["reg"]["name"], found["lambda"]) == ("liblinear", "l1", None)
    assert (found["nonzero_weights"], found["library_version"]) == (1, None)
    assert "certificate  none" in bmrm_info("m").out


@pytest.mark.parametrize(("words", "code"), [(["missing"], 3), (["train.txt"], 3), ([], 2), (["a", "b"], 2)])
def test_failures_are_one_line(words, code, data, bmrm_info):
    outcome = bmrm_info(*words)
    assert (outcome.code, outcome.out) == (code, "")
    assert len(outcome.err.splitlines()) == 1
