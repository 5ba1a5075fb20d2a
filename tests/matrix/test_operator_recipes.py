"""The recipes for the operator that need a GPU or another library; tests/test_docs.py runs the others."""

import importlib.util
import re
from pathlib import Path

import pytest

import bmrm

PAGE = Path(__file__).parents[2] / "docs" / "operator-recipes.md"
SECTION = re.compile(r"^## (.*?)$(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```py\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TEXT = PAGE.read_text()
SETUP = re.search(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)[1]
RECIPES = {title: block[1] for title, text in SECTION.findall(TEXT) for block in BLOCK.finditer(text)}


def test_the_page_has_recipes():
    assert len(RECIPES) == TEXT.count("```py\n") == 5


@pytest.mark.parametrize("title", RECIPES)
def test_recipe(title, tmp_path, monkeypatch):
    code = RECIPES[title]
    for name in re.findall(r"^import (\w+)$", code, re.MULTILINE):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    if 'device="cuda"' in code and bmrm.gpu() is None:
        pytest.skip("there is no CUDA device")
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "__main__"}
    for part in (SETUP, code):
        exec(compile(part, title, "exec"), namespace)
