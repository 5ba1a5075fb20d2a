"""Text with full rows, and rows that are not quite full: sparse rows against dense ones, on one thread.

    python -m benchmarks.cpu.storage [--out FILE]

All times are processor time, of one thread.

solves   `bmrm.solve_file` on a text of 60,000 x 300 values, against the same values as an array; each in a
         process of its own, reading and training apart; the least of two runs
shares   sparse and dense rows of 20,000 x 400, of which a share of the values is stored: two products and
         X' D X, and what `bmrm.io.read_data` with storage="auto" chooses
columns  rows with some full columns beside 20,000 sparse ones: two products with all columns in sparse rows,
         and with the full columns as dense rows of their own
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import report
from benchmarks.common.cpu_timing import least_seconds
from bmrm.io import Csr, read_data
from bmrm.io.row_storage import sparse_rows
from bmrm.matrix._cpu import Matrix
from bmrm.matrix.row_storage import storage_rule

ROWS, COLUMNS = 60_000, 300
LAM, TOL = 1e-4, 1e-4
REPEATS = 2
SHARES = (1.0, 0.75, 0.5, 0.25, 0.1)
FULL_COLUMNS = (4, 16, 64, 256)
SPARSE_COLUMNS, SPARSE_PER_ROW = 20_000, 50

SECTIONS = """
## Dense rows from text

A text of {rows} x {columns} values with four decimals, float32, lam 1e-4, gap 1e-4, one thread. Seconds
of processor time, the minimum over two processes; array: the same values in memory. MB of X as stored.

[solves]
loss = {loss} | rows = {rows} | reading s = {read:.2f} | training s = {train:.2f} |
MB of X = {megabytes:.0f} | passes = {passes}

Rows of 20,000 x 400, float32, of which a share of the values is stored. Milliseconds of X w and X' r
together, and of X' D X.

[shares]
share = {share:.2f} | sparse: products ms = {sparse[products]:.1f} | sparse: X' D X ms = {sparse[gram]:.0f} |
dense: products ms = {dense[products]:.1f} | dense: X' D X ms = {dense[gram]:.0f} | auto = {chosen}

Full columns next to 20,000 sparse ones with 50 values per row, 40,000 rows, float32. Milliseconds of X
w and X' r together: all in sparse rows, and the full columns in separate dense rows.

[mixed]
full columns = {full} | all sparse ms = {sparse:.1f} | apart ms = {apart:.1f} | gain = {gain:.2f}
"""

SOLVE = """
import json, sys, time
import numpy as np
import bmrm
from bmrm.linear import storage
path, loss, rows, lam, tol = sys.argv[1:]
options = {"lam": float(lam), "tol": float(tol)}
began = time.process_time()
if rows == "array":
    X, y = np.load(path + ".npy"), np.load(path + ".labels.npy")
    data = bmrm.Dataset(X, y, threads=1, tol=options["tol"])
else:
    rule = storage.storage_rule(rows, "cpu")
    data = bmrm.Dataset(storage.read_data(path, storage=rule, threads=1), threads=1, tol=options["tol"])
read = time.process_time()
found = bmrm.solve(data, loss=loss, **options)
print(json.dumps({
    "read": read - began, "train": time.process_time() - read, "megabytes": data.matrix.nbytes / 1e6,
    "passes": found.n_iter, "objective": found.objective, "lower_bound": found.lower_bound,
    "storage": found.storage,
}))
"""


def write_text(path: str) -> None:
    """Write the text, and the same values as an array."""
    rng = np.random.default_rng(0)
    X = np.round(rng.standard_normal((ROWS, COLUMNS)), 4).astype(np.float32)
    margins = X @ rng.standard_normal(COLUMNS)
    y = np.where(margins + 0.5 * margins.std() * rng.standard_normal(ROWS) > 0.0, 1.0, -1.0)
    pattern = " ".join(f"{j}:%.4f" for j in range(1, COLUMNS + 1))
    with open(path, "w") as file:
        file.writelines(
            f"{label:+g} {pattern % tuple(row)}\n" for label, row in zip(y, X.tolist(), strict=True)
        )
    np.save(path + ".npy", X)
    np.save(path + ".labels.npy", y)


def measure_solves(path: str) -> list[dict[str, Any]]:
    """Train on text and array, in processes of their own that take turns."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    storage_rule("auto", "cpu").choose(ROWS, ROWS * COLUMNS, COLUMNS, 4)  # measures the rates of this machine
    for _ in range(REPEATS):
        for loss in ("hinge", "logistic"):
            for rows in ("sparse", "auto", "array"):
                words = [sys.executable, "-c", SOLVE, path, loss, rows, str(LAM), str(TOL)]
                out = subprocess.run(words, check=True, capture_output=True, text=True).stdout
                found.setdefault((loss, rows), []).append(json.loads(out))
    solves = []
    for (loss, rows), runs in found.items():
        best = {name: min(run[name] for run in runs) for name in ("read", "train")}
        solves.append({**runs[0], **best, "loss": loss, "rows": rows})
        print(solves[-1], flush=True)
    return solves


def least(call: Callable[[], object]) -> float:
    """Return the least milliseconds of processor time of some calls."""
    return 1e3 * least_seconds({"": call}, 3)[""]


def products(*parts: Matrix) -> float:
    """Return the milliseconds of X w and X' r of matrices that lie side by side."""
    vectors = [(part, np.ones(part.shape[1]), np.ones(part.shape[0])) for part in parts]
    return sum(
        least(lambda X=X, w=w: X.matvec(w)) + least(lambda X=X, r=r: X.rmatvec(r)) for X, w, r in vectors
    )


def sparse_matrix(X: Csr) -> Matrix:
    """Return sparse rows as a matrix for one thread."""
    return Matrix(*X, threads=1)


def measure_shares() -> list[dict[str, Any]]:
    """Compare both forms for each share of stored values."""
    rng = np.random.default_rng(0)
    m, d, found = 20_000, 400, []
    for share in SHARES:
        X = rng.standard_normal((m, d), dtype=np.float32) * (rng.random((m, d)) < share)
        forms = {"sparse": sparse_matrix(sparse_rows(X)), "dense": Matrix.from_dense(X, threads=1)}
        row: dict[str, Any] = {"share": share}
        for name, matrix in forms.items():
            gram = least(partial(matrix.weighted_gram, np.ones(m)))
            row[name] = {"products": products(matrix), "gram": gram}
        row["chosen"] = storage_rule("auto", "cpu").choose(m, int(np.count_nonzero(X)), d, 4).name
        print(row, flush=True)
        found.append(row)
    return found


def measure_columns() -> list[dict[str, Any]]:
    """Compare full columns within sparse rows with full columns apart."""
    rng = np.random.default_rng(0)
    m, found = 40_000, []
    columns = np.sort(rng.integers(0, SPARSE_COLUMNS // SPARSE_PER_ROW, (m, SPARSE_PER_ROW)), axis=1)
    columns += np.arange(SPARSE_PER_ROW) * (SPARSE_COLUMNS // SPARSE_PER_ROW)
    columns.sort(axis=1)
    for full in FULL_COLUMNS:
        values = rng.standard_normal((m, full + SPARSE_PER_ROW), dtype=np.float32)
        dense = Matrix.from_dense(np.ascontiguousarray(values[:, :full]), threads=1)
        rest = sparse_matrix(_csr(columns, values[:, full:], SPARSE_COLUMNS))
        together = np.hstack([np.tile(np.arange(full), (m, 1)), columns + full])
        whole = sparse_matrix(_csr(together, values, SPARSE_COLUMNS + full))
        sparse, apart = products(whole), products(dense, rest)
        found.append({"full": full, "sparse": sparse, "apart": apart, "gain": sparse / apart})
        print(found[-1], flush=True)
    return found


def _csr(columns: np.ndarray, values: np.ndarray, width: int) -> Csr:
    m, count = columns.shape
    return Csr(count * np.arange(m + 1), columns.astype(np.int32).ravel(), values.ravel().copy(), (m, width))


def main() -> None:
    """Print the measurements and write the results file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default=report.RESULTS / "storage.json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "full.svm")
        write_text(path)
        assert read_data(path, storage="auto").X.shape == (ROWS, COLUMNS)
        solves = measure_solves(path)
    known = {(row["loss"], row["rows"]): row for row in solves}
    aims = []
    for loss in ("hinge", "logistic"):
        text, array = known[loss, "auto"], known[loss, "array"]
        name = f"{loss}: training on text over training on the array"
        aims.append(report.aim(name, text["train"] / array["train"], 1.15, below=True))
        aims.append(report.aim(f"{loss}: MB of X", text["megabytes"], 80.0, below=True))
    for aim in aims:
        print(report.line(aim))
    sizes = {"rows": ROWS, "columns": COLUMNS, "lam": LAM, "tol": TOL}
    tables = {"solves": solves, "shares": measure_shares(), "mixed": measure_columns()}
    report.write(options.out, SECTIONS, **sizes, **tables, aims=aims)


if __name__ == "__main__":
    main()
