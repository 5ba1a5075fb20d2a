"""The memory that ``--dry-run`` prints, compared with that of a solve."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bmrm.cli import train
from bmrm.cli.dry_run import plan_of
from bmrm.cli.train_options import TrainOptions
from bmrm.linear.memory import MeasuredRows

ROWS = 400_000
PEAK = """
import sys
import numpy as np, scipy.sparse as sp
import bmrm

loss, columns, classes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
rng = np.random.default_rng(0)
at, starts = rng.integers(0, columns, 2 * {rows}), np.arange(0, 2 * {rows} + 1, 2)
X = sp.csr_matrix((rng.random(2 * {rows}), at, starts), ({rows}, columns))
X.sum_duplicates()
u = X @ rng.standard_normal(columns)
y = np.digitize(u, np.quantile(u, np.linspace(0.0, 1.0, classes + 1)[1:-1]))
data = bmrm.Dataset(X, y.astype(float), device="cpu")
data.matrix.build_transpose()
del X, u, at, starts


def status(name):
    with open("/proc/self/status") as lines:
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith(name))


bmrm.solve(np.eye(2), [0.0, 1.0], lam=1.0)  # imports of the first solve
with open("/proc/self/clear_refs", "w") as peak:
    peak.write("5")
before = status("VmRSS")
result = bmrm.solve(data, loss=loss, lam=1e-4, tol=1e-7, max_iter=4)
print(status("VmHWM") - before, max(row["cuts"] for row in result.history), "ascent" in result.timings)
"""


def taken(loss, columns, classes):
    """Return the bytes of a solve besides X, its number of cuts, and whether it used dual ascent."""
    words = [loss, str(columns), str(classes)]
    done = subprocess.run(
        [sys.executable, "-c", PEAK.format(rows=ROWS), *words], capture_output=True, text=True, check=True
    )
    peak, cuts, ascended = done.stdout.split()
    return int(peak), int(cuts), ascended == "True"


@pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="the system does not report peak memory"
)
@pytest.mark.parametrize(
    ("loss", "columns", "classes", "ascends"),
    [
        ("logistic", 20, 2, False),
        ("hinge", 200_000, 2, True),
        ("roc_area", 20, 2, False),
        ("ordinal", 20, 5, False),
        ("multiclass", 100_000, 3, True),
    ],
)
def test_vectors_are_what_a_solve_takes(loss, columns, classes, ascends):
    size = MeasuredRows(ROWS, columns, 2 * ROWS, 8, False, classes if loss == "multiclass" else 1)
    vectors = plan_of(size, TrainOptions("-", loss=loss, device="cpu", threads=1)).memory["vectors"]
    peak, cuts, ascended = taken(loss, columns, classes)
    assert ascended == ascends
    room = 8 * columns * size.columns * cuts + 4_000_000
    assert 0.4 * vectors <= peak <= vectors + room


def test_ascent_in_the_dual_takes_more():
    wide = MeasuredRows(30_000, 40_000, 900_000, 4, False)
    given = {"device": "cpu", "threads": 2}

    def vectors(size=wide, **options):
        return plan_of(size, TrainOptions("-", **given, **options)).memory["vectors"]

    most = vectors()
    assert vectors(solver="bmrm") == vectors(cuts_per_pass=3) == vectors(loss="poisson")
    assert most > vectors(solver="bmrm") == vectors(reg="l1") == vectors(positive=True)
    assert vectors(size=wide._replace(n_features=100)) < most
    # With few rows, cuts are stored as combinations of rows.
    bundle = {
        rows: plan_of(wide._replace(n_samples=rows), TrainOptions("-", max_cuts=50, **given)).memory["bundle"]
        for rows in (15_000, 19_000, 30_000)
    }
    assert bundle[15_000] == 50 * (8 * 30_002 + 8 * 50)
    assert bundle[19_000] == 50 * (8 * 38_002 + 8 * 50)
    assert bundle[30_000] == 50 * (8 * 40_000 + 8 * 50)


def test_the_command_prints_it(tmp_path, capsys):
    file = tmp_path / "data"
    rng = np.random.default_rng(0)
    file.write_text("".join(f"{k % 2} {1 + j}:0.5\n" for k, j in enumerate(rng.integers(0, 30, 40))))
    assert train.main(["--dry-run", "--json", "--device", "cpu", str(file)]) == 0
    found = json.loads(capsys.readouterr().out)["bytes"]
    assert list(found) == ["X", "X^T", "vectors", "bundle", "total"]
    assert train.main(["--dry-run", "--device", "cpu", str(file)]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]] == list(found)
