"""The comparison of two records of ``scripts/same_bits.py``."""

import copy
import importlib
import json
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[1] / "scripts"

BITS = {"shape": [2], "type": "<f8", "digest": "00", "sample": [1.0, 2.0]}
RECORD = {
    "about": {"backend": "cpu"},
    "cases": {
        "one": {"w": BITS, "objective": 0.5, "status": "converged", "file": {"notes": {"loss": "hinge"}}},
        "two": {"error": "ParameterError"},
    },
}


@pytest.fixture
def compared(tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(SCRIPTS)
    same_bits = importlib.import_module("same_bits")

    def compare(new):
        for name, record in (("old", RECORD), ("new", new)):
            (tmp_path / name).write_text(json.dumps(record))
        words = ["same_bits.py", "compare", tmp_path / "old", tmp_path / "new"]
        monkeypatch.setattr(sys, "argv", list(map(str, words)))
        code = same_bits.main()
        out, err = capsys.readouterr()
        assert not err
        return code, out

    return compare


def test_equal_records(compared):
    assert compared(RECORD) == (0, "2 cases in both files: 2 equal, 0 unlike; 0 in one file alone\n")


@pytest.mark.parametrize(
    ("field", "value", "line"),
    [
        ("objective", 0.75, "one: objective: 0.5 -> 0.75, apart by 0.25"),
        ("objective", float("nan"), "one: objective: 0.5 -> NaN, apart by nan"),
        ("status", "max_iter", 'one: status: "converged" -> "max_iter"'),
        ("w", {**BITS, "digest": "01", "sample": [1.0, 2.5]}, "one: w: apart by 0.5 of 2, in 1 of 2 entries"),
        ("w", {**BITS, "digest": "01"}, "one: w: different, but not in the 2 recorded entries"),
        ("w", {**BITS, "shape": [3]}, "one: w: <f8 [2] -> <f8 [3]"),
        ("file", {"notes": {"loss": "logistic"}}, 'one: file.notes.loss: "hinge" -> "logistic"'),
        ("more", 1, "one: more: in the new file alone, 1"),
    ],
)
def test_a_field_that_differs(compared, field, value, line):
    new = copy.deepcopy(RECORD)
    new["cases"]["one"][field] = value
    code, text = compared(new)
    assert (code, text.splitlines()[0]) == (1, line)


def test_a_case_that_is_missing_or_raises_something_else(compared):
    new = copy.deepcopy(RECORD)
    del new["cases"]["one"]
    new["cases"] |= {"two": {"error": "TypeError"}, "three": {}}
    code, text = compared(new)
    assert code == 1
    assert "one: missing in" in text
    assert "three: missing in" in text
    assert 'two: error: "ParameterError" -> "TypeError"' in text
