"""What the project says about itself is the same everywhere."""

import re
import tomllib
from pathlib import Path

import bmrm

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
BACKEND = tomllib.loads((ROOT / "building" / "cuda13" / "pyproject.toml").read_text())["project"]
CITATION = (ROOT / "CITATION.cff").read_text()


def test_the_version_is_that_of_the_package():
    changelog = (ROOT / "CHANGELOG.md").read_text()
    assert {"version"} == set(PROJECT["dynamic"])
    assert "version" in BACKEND["dynamic"]
    assert PROJECT["optional-dependencies"]["cuda13"] == [f"{BACKEND['name']}=={bmrm.__version__}"]
    assert re.search(r"^version: (.*)$", CITATION, re.MULTILINE)[1] == bmrm.__version__
    assert re.search(r"^## (\S+)", changelog, re.MULTILINE)[1] == bmrm.__version__
    assert re.findall(r"Version (\S+)", (ROOT / "README.md").read_text()) == [bmrm.__version__]
    wheels = re.findall(r"bmrm-(\d[\d.]*)-", (ROOT / "docs" / "install.md").read_text())
    assert wheels == [bmrm.__version__]


def test_the_citation_says_what_the_metadata_say():
    assert PROJECT["authors"] == BACKEND["authors"] == [{"name": "bmrm developers"}]
    assert "authors:\n  - name: bmrm developers\n" in CITATION
    assert re.findall(r"^  - (?!name)(.*)$", CITATION, re.MULTILINE) == PROJECT["keywords"]
    assert " ".join(PROJECT["description"].split()) in " ".join(CITATION.split())
    assert f"license: {PROJECT['license']}\n" in CITATION


def test_both_distributions_promise_the_same_python():
    assert PROJECT["requires-python"] == BACKEND["requires-python"]
