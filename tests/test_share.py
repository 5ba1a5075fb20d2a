"""Man pages and completion scripts are what the parsers of the commands say, and shells understand them."""

import contextlib
import importlib
import os
import re
import select
import shutil
import signal
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
    assert {command.program for command in script.commands.every()} == commands
    assert {path.stem for path in (SHARE / "man" / "man1").iterdir()} == commands
    for pattern in project["tool"]["setuptools"]["data-files"].values():
        assert len(list(ROOT.glob(pattern[0]))) == len(commands)


def test_man_pages_are_current(script):
    for command in script.commands.every():
        path = SHARE / "man" / "man1" / f"{command.program}.1"
        assert path.read_text() == script.man_page(command), "run scripts/share_files.py"


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completions_are_current(shell, script):
    shtab = pytest.importorskip("shtab")
    if not shtab.__version__.startswith(f"{script.SHTAB}."):
        pytest.skip(f"shtab {shtab.__version__} is installed, {script.SHTAB} wrote the scripts")
    for command in script.commands.every():
        path = SHARE / script.COMPLETIONS[shell].format(command.program)
        found = script.completion_script(script.CommandParser(command), shell)
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
    assert ("--json" in text) == (page.stem != "bmrm")
    assert "--version" in text


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@pytest.mark.parametrize(
    ("line", "completed"),
    [
        ("bmrm-info --to", "--top"),
        ("bmrm-train --loss logi", "logistic"),
        ("bmrm-info my", "mymodel"),
        ("bmrm sam", "samples"),
    ],
)
def test_bash_completes_options_losses_and_files(line, completed, tmp_path):
    ask = """
source "$0"
COMP_WORDS=($1); COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
complete=$(complete -p $COMP_WORDS | sed 's/.*-F \\([^ ]*\\) .*/\\1/')
$complete "$COMP_WORDS" "${COMP_WORDS[-1]}" "${COMP_WORDS[-2]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""
    (tmp_path / "mymodel").touch()
    path = SHARE / "bash-completion" / "completions" / line.split()[0]
    words = ["bash", "-c", ask, path, line]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.stdout.split() == [completed], done.stderr


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
@pytest.mark.parametrize("path", sorted((SHARE / "zsh" / "site-functions").iterdir()), ids=lambda p: p.name)
def test_zsh_parses_the_installed_file(path):
    subprocess.run(["zsh", "-n", path], check=True)


ZSHRC = """\
fpath=({functions} $fpath); autoload -Uz compinit; compinit -D -u
keep() {{ print -r -- "$BUFFER" >> kept; zle kill-whole-line }}
zle -N keep; bindkey '^T' keep
PS1='READY'
"""
"""Ctrl-T adds the line, as it is after completion, to a file."""


def answer(terminal: int) -> bytes:
    ready, _, _ = select.select([terminal], [], [], 20.0)
    assert ready, "the shell does not answer"
    return os.read(terminal, 4096)


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_completes_options_losses_and_files(tmp_path):
    """By a person's keys on a terminal: the first Tab completes."""
    import pty

    (tmp_path / ".zshrc").write_text(ZSHRC.format(functions=SHARE / "zsh" / "site-functions"))
    (tmp_path / "mymodel").touch()
    lines = {
        "bmrm-train --feature-l": "bmrm-train --feature-lambda=",
        "bmrm-train --js": "bmrm-train --json ",
        "bmrm-train --loss=logi": "bmrm-train --loss=logistic ",
        "bmrm-train --warm-start=my": "bmrm-train --warm-start=mymodel ",
        "bmrm-train --solver-type=1": "bmrm-train --solver-type=1",
        "bmrm-train --loss logi": "bmrm-train --loss logistic ",
        "bmrm-train --warm-start my": "bmrm-train --warm-start mymodel ",
        "bmrm-info my": "bmrm-info mymodel ",
        "bmrm-graph page": "bmrm-graph pagerank ",
    }
    pid, terminal = pty.fork()
    if not pid:  # the child
        os.chdir(tmp_path)
        environ = {"ZDOTDIR": str(tmp_path), "TERM": "xterm", "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
        os.execve(shutil.which("zsh"), ["zsh", "-d", "-i"], environ)
    try:
        shown = b""
        while b"READY" not in shown:
            shown += answer(terminal)
        os.write(terminal, "".join(f"{line}\t\x14" for line in lines).encode() + b"exit\n")
        with contextlib.suppress(OSError):  # reading from a closed terminal ends with an error
            while answer(terminal):
                pass
    finally:
        os.close(terminal)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    assert (tmp_path / "kept").read_text().splitlines() == list(lines.values())
