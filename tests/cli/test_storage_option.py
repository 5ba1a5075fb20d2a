"""``bmrm-train --storage``: dense rows from text in every kind of training, in the plan and in the report."""

import json

import numpy as np
import pytest
from commands import two_classes, write_svmlight

from bmrm.base import host_memory
from bmrm.io import row_storage
from bmrm.io.row_storage import Costs, StorageRule
from bmrm.matrix import row_storage as measured

FAST_DENSE = StorageRule("auto", lambda *size: Costs((9.0, 1.0), (9.0, 1.0)))


@pytest.fixture
def full(folder):
    """Rows without zeros."""
    X, y = two_classes()
    return write_svmlight(folder / "full.txt", X + 10.0, y)


@pytest.fixture
def dense_pays(monkeypatch):
    """Let dense rows pay for small data."""
    monkeypatch.setattr(row_storage, "MIN_VALUES", 1)
    costs = FAST_DENSE._costs
    monkeypatch.setattr(measured, "storage_rule", lambda asked, device: StorageRule(asked, costs))
    monkeypatch.setattr("bmrm.cli.dry_run.storage_rule", lambda asked, device: StorageRule(asked, costs))


@pytest.mark.parametrize("how", [(), ("-v", "3"), ("-C", "--lambdas", "0.01,0.1"), ("--calibrate", "platt")])
def test_every_kind_of_training(full, bmrm_train, how):
    found = {}
    for kind in ("sparse", "dense"):
        outcome = bmrm_train("--json", "--quiet", "--tol", "1e-6", *how, "--storage", kind, full, "model")
        assert outcome.code == 0
        found[kind] = json.loads(outcome.out)
        assert (found[kind]["storage"], found[kind]["options"]["storage"]) == (kind, kind)
    if "objective" in found["dense"]:
        assert found["dense"]["objective"] == pytest.approx(found["sparse"]["objective"], rel=2e-6)


def test_predictions_are_the_same(full, bmrm_train, bmrm_predict):
    values = {}
    for kind in ("sparse", "dense"):
        assert bmrm_train("--quiet", "--tol", "1e-8", "--storage", kind, full, kind).code == 0
        assert bmrm_predict("--quiet", full, kind, f"{kind}.out").code == 0
        values[kind] = np.loadtxt(f"{kind}.out")
    np.testing.assert_array_equal(values["dense"], values["sparse"])


def test_small_data_stay_sparse(full, bmrm_train):
    outcome = bmrm_train("--json", "--quiet", full, "model")
    assert json.loads(outcome.out)["storage"] == "sparse"


@pytest.mark.parametrize("asked", ["auto", "dense", "sparse"])
def test_a_dry_run_has_the_plan_of_the_training(full, bmrm_train, dense_pays, asked):
    words = ["--storage", asked, full]
    train = bmrm_train("--verbose", "2", *words, "model")
    dry = bmrm_train("--dry-run", "--verbose=2", *words)
    lines = [line for line in train.err.splitlines() if line.startswith("plan: ")]
    assert dry.err.splitlines() == lines
    kind = "sparse" if asked == "sparse" else "dense"
    assert lines[0].startswith(f"plan: storage        {kind}: ")
    assert lines[0].endswith("0.11 of the time" if asked == "auto" else "as given")


def test_the_cache_keeps_dense_rows(full, bmrm_train, dense_pays):
    reports = [json.loads(bmrm_train("--json", "--quiet", "--cache", full, "model").out) for _ in range(2)]
    assert [report["storage"] for report in reports] == ["dense", "dense"]
    assert "load.parse" in reports[0]["timings"]
    assert "load.parse" not in reports[1]["timings"]
    assert reports[0]["objective"] == reports[1]["objective"]


def test_an_unknown_storage(full, bmrm_train):
    outcome = bmrm_train("--storage", "full", full, "model")
    assert outcome.code == 2
    assert "--storage" in outcome.err


def test_dense_rows_that_do_not_fit(full, bmrm_train, monkeypatch):
    monkeypatch.setattr(host_memory, "MIN_CHECKED_BYTES", 0)
    monkeypatch.setattr(host_memory, "available_bytes", lambda: 1000)
    outcome = bmrm_train("--storage", "dense", full, "model")
    assert outcome.code != 0
    assert outcome.err.count("\n") == 1
    assert "60 dense rows of 5 columns" in outcome.err
