"""What results files say of their tables, and what becomes of it."""

import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SECTIONS = """
## A title on {machine}
headline: solving | a baseline | rows | peer/seconds | {machine}

Some text of
{rows:d count} rows.

[rows] where kind in one, two
kind = {kind}{late:, late by */} | ms = {seconds:.1f ms} | times = {peer/seconds:.2f} |
all = {all:.1f span ms} | never = {never}

[rows.runs] each first, second
way = @ of {kind} | passes = {passes[@]}

[aims]
"""
RESULTS = {
    "machine": "a computer",
    "rows": [
        {"kind": "one", "seconds": 0.5, "peer": 1.0, "late": 3, "all": [0.75, 0.5], "runs": []},
        {"kind": "two", "seconds": 0.25, "peer": None, "all": [0.25], "runs": [{"passes": {"first": 7}}]},
        {"kind": "three", "seconds": 2.0, "peer": 1.0, "all": [], "runs": []},
    ],
    "aims": [{"name": "speed", "value": 1.5, "bound": 2.0, "unit": " m/s", "below": True, "passed": True}],
}
PAGE = """Some text of 3 rows.

| kind | ms | times | all |
| --- | ---: | ---: | ---: |
| one, late by 3 | 500.0 | 2.00 | 500.0 to 750.0 |
| two | 250.0 | - | 250.0 to 250.0 |

| way | passes |
| --- | ---: |
| first of two | 7 |
| second of two | - |

| result | measured | aim | reached |
| --- | ---: | ---: | ---: |
| speed | 1.5 m/s | < 2 m/s | yes |
"""


@pytest.fixture
def sections(monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    return importlib.import_module("benchmarks.common.sections")


@pytest.fixture
def pages(monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    return importlib.import_module("benchmarks.tables.pages")


def test_a_section_becomes_text_and_tables(sections, pages):
    (section,) = sections.parse(SECTIONS)
    assert pages.text.body(RESULTS, section) == PAGE
    shown = "[solving](performance/page.md#a-title-on-a-computer)"
    row = [shown, "a baseline", "1.25", "0.5 to 2", "a computer"]
    assert pages.headline("page", RESULTS, section).cells() == row


def test_what_is_no_section_is_refused(sections, pages):
    with pytest.raises(ValueError, match="expected the rows of a table"):
        sections.parse("## Title\n\n[rows] of what\na = {b}\n")
    with pytest.raises(pages.text.MissingError):
        pages.text.fill("{nothing:.2f}", RESULTS)


def test_a_long_table_is_folded(pages):
    cells = [[str(i)] for i in range(pages.text.FOLDED_ROWS + 1)]
    assert pages.text.markdown(["row"], cells).startswith("<details><summary>41 rows</summary>\n\n| row |")
    assert pages.text.markdown(["row"], []) == ""
