"""The comparison of two builds of the package, with the build under test in both places."""

import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import bmrm

ROOT = Path(__file__).parents[1]
BUILD = Path(bmrm.__file__).parents[1]


@pytest.fixture
def two_builds(monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    return importlib.import_module("benchmarks.cpu.two_builds")


def problem(rows):
    X = np.random.default_rng(0).standard_normal((rows, 3))
    return sp.csr_array(X), np.sign(X[:, 0] + 0.1)


def test_a_build_is_compared_with_itself(two_builds, monkeypatch, tmp_path, capsys):
    cases = {"small": two_builds.Case(problem, 30, {"loss": "hinge", "lam": 0.1}, solves=2)}
    monkeypatch.setattr(two_builds, "CASES", cases)
    in_turns, found = two_builds.in_turns, []
    monkeypatch.setattr(two_builds, "in_turns", lambda *words: found.append(in_turns(*words)) or found[0])
    out = tmp_path / "out.json"
    words = [BUILD, BUILD, "--starts", 1, "--seconds", 0, "--limit", 1e9, "--out", out]
    monkeypatch.setattr(sys, "argv", ["two_builds.py", *map(str, words)])
    two_builds.main()
    (row,) = json.loads(out.read_text())["rows"]
    assert row["passes_old"] == row["passes_new"] == bmrm.solve(*problem(30), loss="hinge", lam=0.1).n_iter
    assert row["ratio"] == row["seconds_new"] / row["seconds_old"] > 0.0
    assert "small" in capsys.readouterr().out
    monkeypatch.setattr(two_builds, "in_turns", lambda *_: found[0])
    words[words.index("--limit") + 1] = 0.0
    monkeypatch.setattr(sys, "argv", ["two_builds.py", *map(str, words)])
    with pytest.raises(SystemExit, match="slower by more than 0 times: small"):
        two_builds.main()


def test_bounds_that_contradict_each_other_end_the_comparison(two_builds):
    one = {"status": "converged", "objective": 1.0, "lower_bound": 0.9, "seconds": 1.0, "passes": 3}
    one["device"] = "cpu"
    assert two_builds.compare("same", {"old": one, "new": {**one, "seconds": 2.0}})["ratio"] == 2.0
    with pytest.raises(SystemExit, match="a bound of one build is above"):
        two_builds.compare("other", {"old": one, "new": {**one, "objective": 0.5}})
    with pytest.raises(SystemExit, match="has not converged"):
        two_builds.compare("other", {"old": one, "new": {**one, "status": "max_iter"}})


def test_a_folder_without_the_package_is_refused(two_builds, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(sys, "argv", ["two_builds.py", str(tmp_path), str(BUILD)])
    with pytest.raises(SystemExit):
        two_builds.main()
    assert "found no package bmrm" in capsys.readouterr().err
