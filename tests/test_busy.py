"""The benchmark of fits beside other work, with one fit that does nothing much."""

import importlib
import json
import sys
from pathlib import Path

import pytest

import bmrm

ROOT = Path(__file__).parents[1]
BUILD = Path(bmrm.__file__).parents[1]


@pytest.fixture
def busy(monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    return importlib.import_module("benchmarks.cpu.busy")


def test_a_build_is_compared_with_one_thread_and_with_itself(busy, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(busy, "MAX_BUSY_RATIO", 1e9)
    out = tmp_path / "busy.json"
    words = ["--old", BUILD, "--loads", "loops", "--rounds", "1", "--only", "500 centres", "--out", out]
    monkeypatch.setattr(sys, "argv", ["busy.py", *map(str, words)])
    busy.main()
    (row,) = json.loads(out.read_text())["rows"]
    times = {key: value for key, value in row.items() if key not in ("case", "load")}
    assert len(times) == 8
    assert min(times.values()) > 0.0
    assert "k-means, 500 centres       loops" in capsys.readouterr().out


def test_what_is_slower_is_named(busy):
    row = {"case": "fit", "load": "loops", "seconds_new_1": 1.0, "processor_new_1": 1.0}
    row |= {"seconds_new_default": 1.1, "processor_new_default": 1.3}
    assert busy.faults(row) == ["fit beside loops: processor 1.30"]
    row["load"] = "idle"
    assert busy.faults(row) == busy.faults(row | {"seconds_old_default": 1.08}) == []
    assert len(busy.faults(row | {"seconds_old_default": 1.0})) == 1
