"""The progress line fits every terminal: one line is rewritten, and nothing of it is left at the end."""

import contextlib
import fcntl
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import termios
import time

import numpy as np
import pytest
from commands import start_python, two_classes, write_svmlight

from bmrm.base.progress import fit_words, logarithmic_share

CODE = (
    "import sys; from bmrm.base import progress; from bmrm.cli import {command}; "
    "progress.SHOW_AFTER_SECONDS = progress.SHOW_EVERY_SECONDS = {every}; {before}"
    "sys.exit({command}.main(sys.argv[1:]))"
)
SLOW = (
    "import time; from bmrm.cli.observer import Observer; call = Observer.__call__; "
    "Observer.__call__ = lambda self, state: (time.sleep(0.1), call(self, state))[1]; "
)
PLAIN = "sys.modules['rich.console'] = None; "
ENDLESS = ["--tol", "1e-300", "--tol-kind", "abs", "--max-time", "0.1"]
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@pytest.fixture
def data(tmp_path):
    return write_svmlight(tmp_path / "data", *two_classes())


def shown_on(
    columns: int, *words, command: str = "train", before: str = "", term: str = "xterm", every: float = 0.0
) -> str:
    """Run a command whose errors go to a terminal of some width; return what it wrote there."""
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    code = CODE.format(command=command, before=before, every=every)
    process = start_python(code, *words, environ={"TERM": term}, stderr=terminal, stdout=subprocess.DEVNULL)
    os.close(terminal)
    parts = []
    with contextlib.suppress(OSError):  # reading from a closed terminal ends with an error
        while part := os.read(controller, 4096):
            parts.append(part)
    os.close(controller)
    process.wait(60)
    return b"".join(parts).decode()


@pytest.mark.parametrize("columns", [20, 200])
def test_a_plain_line_is_shorter_than_the_terminal(data, tmp_path, columns):
    shown = shown_on(columns, *ENDLESS, data, tmp_path / "model", before=PLAIN)
    lines = shown.split("\r")
    assert max(map(len, lines)) < columns
    assert "\n" not in shown
    assert any(line.strip() for line in lines)
    assert shown.endswith(" \r")


@pytest.mark.parametrize("columns", [20, 200])
def test_a_line_of_rich_is_shorter_than_the_terminal(data, tmp_path, columns):
    pytest.importorskip("rich")
    shown = shown_on(columns, *ENDLESS, data, tmp_path / "model")
    lines = [line.rstrip() for line in CONTROL.sub("", shown).replace("\r\n", "\r").split("\r")]
    assert max(map(len, lines)) < columns
    assert any(line for line in lines)


def test_a_simple_terminal_gets_no_control_sequences(data, tmp_path):
    shown = shown_on(80, *ENDLESS, data, tmp_path / "model", term="dumb")
    assert "\x1b" not in shown
    assert "\n" not in shown


def test_the_phases_come_in_order(data, tmp_path):
    shown = shown_on(200, *ENDLESS, data, tmp_path / "model", before=PLAIN)
    assert re.search("\rreading .*\rpreparing the matrix .*\r.*iteration ", shown)


@pytest.mark.parametrize(("columns", "rich"), [(40, False), (200, False), (40, True), (80, True)])
@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_a_screen_shows_one_line_and_then_none(data, tmp_path, columns, rich):
    """What a person sees, by a terminal multiplexer that keeps the screen."""
    if rich:
        pytest.importorskip("rich")
    script = tmp_path / "run.py"
    script.write_text(CODE.format(command="train", every=0.0, before=SLOW + ("" if rich else PLAIN)))
    command = [sys.executable, script, *ENDLESS[:-1], "0.5", data, tmp_path / "model"]
    line = " ".join(f"'{word}'" for word in command)
    tmux = ["tmux", "-L", f"bmrm-{os.getpid()}-{columns}-{rich}", "-f", "/dev/null"]
    run = [*tmux, "new-session", "-d", "-s", "t", "-x", str(columns), "-y", "20"]
    done = tmp_path / "done"
    subprocess.run([*run, f"{line} >/dev/null; touch {done}; sleep 30"], check=True)
    try:
        screens = []
        deadline = time.monotonic() + 20.0
        while time.monotonic() < deadline:
            ended = done.exists()
            capture = subprocess.run(
                [*tmux, "capture-pane", "-p", "-t", "t"], capture_output=True, text=True, check=True
            )
            screens.append([row for row in capture.stdout.splitlines() if row.strip()])
            if ended:
                break
            time.sleep(0.05)
    finally:
        subprocess.run([*tmux, "kill-server"], check=False)
    assert max(map(len, screens)) == 1
    assert screens[-1] == []
    assert any("iteration" in "".join(rows) for rows in screens)


@pytest.mark.parametrize("columns", range(1, 60))
def test_words_fit(columns):
    words = ["reading 数据文件", "gap 1e-3", "cuts 12"]
    line = fit_words(words, columns)
    assert len(line.encode("gbk")) <= columns  # in this coding wide characters have two bytes
    assert "  ".join(words).startswith(line)


@pytest.mark.parametrize(
    ("first", "gap", "share"), [(1.0, 1.0, 0.0), (1.0, 1e-2, 0.5), (1.0, 1e-5, 1.0), (1e-5, 1e-5, None)]
)
def test_the_share_is_that_of_the_logarithm_of_the_gap(first, gap, share):
    assert logarithmic_share(first, gap, 1e-4) == (share if share is None else pytest.approx(share))


def test_reading_shows_its_share_of_the_bytes(tmp_path):
    """Each moment's share is that of the bytes parsed since reading began; a pipe has none."""
    from bmrm.cli.reading_progress import reading_step
    from bmrm.io import read_data

    path = write_svmlight(tmp_path / "data", *two_classes(500))
    for _ in range(2):
        step = reading_step(str(path))
        assert step().share is None
        read_data(path)
        assert step() == ((f"reading {path}",), 1.0)
    step = reading_step("-")
    read_data(path)
    assert step().share is None


@pytest.mark.parametrize(
    ("module", "level"),
    [("gzip", {"compresslevel": 1}), ("bz2", {}), ("lzma", {"preset": 0}), ("zstandard", {})],
)
def test_reading_shows_the_share_of_the_compressed_bytes(tmp_path, module, level):
    from bmrm.cli.reading_progress import reading_step
    from bmrm.io import iter_svmlight

    rng = np.random.default_rng(0)
    text = "".join(f"1 1:{number}\n" for number in rng.standard_normal(100_000))
    packed = tmp_path / "packed"
    packed.write_bytes(pytest.importorskip(module).compress(text.encode(), **level))
    step = reading_step(str(packed))
    assert step().share is None
    shares = [step().share for _ in iter_svmlight(packed, rows_bytes=1 << 20, zero_based=False)]
    assert len(shares) == 3
    assert shares == sorted(shares)
    assert 0.2 < shares[0] < 0.9  # a block of bzip2 is nearly a chunk
    assert step().share == 1.0


def test_a_selection_shows_that_it_reads(data, tmp_path):
    words = ["-C", "--lambdas", "0.1,0.01", data, tmp_path / "model"]
    shown = shown_on(200, *words, before=PLAIN)
    assert re.search("\rreading .*\r.*solve 1 of ", shown)


SLOWLY = {
    "predict": "import time; from bmrm.linear.models.model import Model; call = Model.decision_function; "
    "Model.decision_function = lambda *a, **k: (time.sleep(0.1), call(*a, **k))[1]; ",
    "graph": "import time; from bmrm.graph.fixed_point import IterationProgress as P; init = P.__init__; "
    "P.__init__ = lambda *a, **k: (time.sleep(0.02), init(*a, **k))[1]; ",
    "cluster": "import time; from bmrm.unsupervised.clusters.estimator import KMeansProgress as P; "
    "init = P.__init__; P.__init__ = lambda *a, **k: (time.sleep(0.02), init(*a, **k))[1]; ",
}
"""Lines of Python that make a command take so long that it shows what it does."""


@pytest.fixture
def words_of(data, tmp_path):
    """Return the words of a small run of each command."""
    from bmrm.linear.models.model import Model

    Model(np.ones(5), 0.0, "hinge", "binary", (-1.0, 1.0), lam=1e-3).save(tmp_path / "model")
    edges = tmp_path / "edges"
    numbers = np.random.default_rng(0).integers(0, 300, (2000, 2))
    edges.write_text("".join(f"{source} {target}\n" for source, target in numbers))
    return {
        "predict": (data, tmp_path / "model", tmp_path / "out"),
        "graph": ("pagerank", edges),
        "cluster": ("-k", "4", data),
    }


@pytest.mark.parametrize(
    ("command", "phases"),
    [
        ("predict", r"100 %  predicting "),
        ("graph", r"reading .*\r.*% +iteration [0-9]"),
        ("cluster", r"reading .*\r.*move [0-9]"),
    ],
)
def test_other_commands_show_what_they_do(words_of, command, phases):
    shown = shown_on(200, *words_of[command], command=command, before=SLOWLY[command] + PLAIN)
    assert re.search(phases, shown)
    assert "\n" not in shown
    assert shown.endswith(" \r")


@pytest.mark.parametrize("command", ["predict", "graph", "cluster"])
def test_other_commands_show_nothing_within_a_second(words_of, command):
    assert shown_on(200, *words_of[command], command=command, every=1.0) == ""


@pytest.mark.parametrize("command", ["predict", "graph", "cluster"])
def test_no_progress_goes_to_a_file(words_of, command):
    code = CODE.format(command=command, before=SLOWLY[command], every=0.0)
    process = start_python(code, *words_of[command])
    assert process.communicate()[1] == ""
    assert process.returncode == 0


def test_prediction_shows_its_share_of_the_rows(tmp_path, monkeypatch):
    """Dense rows are predicted as they are read, and count as the bytes that they take in the file."""
    from bmrm.cli.reading_progress import reading_step
    from bmrm.io.formats import iter_dense_rows
    from bmrm.io.sources import open_source

    np.save(tmp_path / "X.npy", np.ones((100, 50)))
    step = reading_step(str(tmp_path / "X.npy"))
    with open_source(tmp_path / "X.npy") as source:
        shares = [step().share for _ in iter_dense_rows(source, 30)]
    assert shares == [pytest.approx(done / 40128) for done in (12000, 24000, 36000, 40000)]


@pytest.mark.parametrize("weights", [False, True])
def test_reading_edges_shows_its_share(tmp_path, weights):
    from bmrm.cli.reading_progress import reading_step
    from bmrm.io.edges import read_edges

    path = tmp_path / "edges"
    path.write_text("# from to\n" + "1 2 0.5\n2 3 0.25\n" * 100)
    step, then = reading_step(str(path)), reading_step(str(path), afterwards="building")
    assert step().share is None
    read_edges(path, weights=weights)
    assert step() == ((f"reading {path}",), 1.0)
    assert then() == (("building",), None)
