"""Man pages and completion scripts are what the parsers of the commands say, and shells understand them."""

import importlib
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SHARE = ROOT / "docs" / "share"


@pytest.fixture(scope="module")
def script():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "scripts")
        return importlib.import_module("share_files")


def test_there_is_one_of_each_for_every_command(script):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    commands = set(project["project"]["scripts"])
    assert {f"bmrm-{command}" for command in script.COMMANDS} == commands
    assert {path.stem for path in (SHARE / "man" / "man1").iterdir()} == commands
    for pattern in project["tool"]["setuptools"]["data-files"].values():
        assert len(list(ROOT.glob(pattern[0]))) == len(commands)


def test_man_pages_are_current(script):
    for command in script.COMMANDS:
        path = SHARE / "man" / "man1" / f"bmrm-{command}.1"
        assert path.read_text() == script.man_page(script.parser_of(command)), "run scripts/share_files.py"


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completions_are_current(shell, script):
    shtab = pytest.importorskip("shtab")
    if not shtab.__version__.startswith(f"{script.SHTAB}."):
        pytest.skip(f"shtab {shtab.__version__} is installed, {script.SHTAB} wrote the scripts")
    for command in script.COMMANDS:
        path = SHARE / script.COMPLETIONS[shell].format(f"bmrm-{command}")
        found = script.completion(script.parser_of(command), shell)
        assert path.read_text() == found, "run scripts/share_files.py"


@pytest.mark.skipif(shutil.which("man") is None, reason="man is not installed")
@pytest.mark.parametrize("page", sorted((SHARE / "man" / "man1").iterdir()), ids=lambda path: path.name)
def test_man_pages_render_without_warnings(page):
    words = ["man", "--warnings", "-E", "UTF-8", "-l", page]
    environ = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "MANWIDTH": "80"}
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=environ)
    assert done.stderr == ""
    text = re.sub(".\b", "", done.stdout)
    assert "NAME" in text
    assert "EXIT CODES" in text
    assert "--json" in text


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_reads_the_installed_file():
    ask = """
source "$0"
COMP_WORDS=(bmrm-info --to); COMP_CWORD=1
name=$(complete -p bmrm-info | sed 's/.*-F \\([^ ]*\\) .*/\\1/'); $name
printf '%s\\n' "${COMPREPLY[@]}"
"""
    path = SHARE / "bash-completion" / "completions" / "bmrm-info"
    done = subprocess.run(["bash", "-c", ask, path], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["--top"]


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
@pytest.mark.parametrize("path", sorted((SHARE / "zsh" / "site-functions").iterdir()), ids=lambda p: p.name)
def test_zsh_parses_the_installed_file(path):
    subprocess.run(["zsh", "-n", path], check=True)
