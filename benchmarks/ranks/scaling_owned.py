"""Weights on every rank, or some columns of them on each: seconds, memory and bytes sent with both layouts.

    python -m benchmarks.ranks.scaling_owned TEXT [--ranks 2] [--repeats 5] [--out FILE]

TEXT is that of textdata.py; each rank touches every column of it. The other sets are generated here: 60 000
rows of 40 words drawn by Zipf's law, or evenly, from ever more columns; few are a tenth of the rows. Both
layouts make the same number of iterations, hinge at lam 1e-5, on ranks of one core each, in turns. The figure
is the median of the seconds that the slowest rank takes. Memory is the peak of what NumPy holds in a solve
besides the cuts. Bytes are counted as they are sent, and compared with the model of docs/scaling.md. "prior"
is a penalty with a prior mean.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import report
from benchmarks.common.ranks import mpi_words
from benchmarks.ranks import scaling

LAM, ITERATIONS = 1e-5, 15
ROWS, WORDS = 60_000, 40
CASES = (
    "text",
    "few 300000",
    "zipf 300000",
    "zipf 1000000",
    "zipf 3000000",
    "even 1000000",
    "text prior",
    "zipf 10000 prior",
)
FORMS = ("replicated", "owned")


SECTIONS = """
## Weights owned in parts

All weights on each of {ranks} ranks, or some columns of them on each: the first and the second number
of a pair. Milliseconds per iteration, the mean of {iterations}, hinge at lam {lam:g}, one cut per pass,
one core per rank, medians of {repeats} runs that alternate. Rows are those of the text, or {made_rows}
of {words} words, drawn by Zipf's law or evenly, few a tenth of them; `prior` is a penalty with a prior
mean. `touched` is the share of columns in which the rows of a rank have entries. Vectors are the
maximum memory of a rank besides X and the cuts. MB sent are those of a rank per iteration, as counted
and by the model of docs/scaling.md.

[rows]
rows of = {case} | columns = {replicated[columns]} |
touched = {replicated[touched]/replicated[columns]:.2f} |
ms = {replicated[seconds]/replicated[iterations]:.1f ms}, {owned[seconds]/owned[iterations]:.1f ms} |
faster = {replicated[seconds]/owned[seconds]:.2f} |
MB of vectors = {replicated[vectors_bytes]:.1f MB}, {owned[vectors_bytes]:.1f MB} |
MB of cuts = {replicated[store_bytes]:.1f MB}, {owned[store_bytes]:.1f MB} |
MB sent = {replicated[bytes_per_iteration]:.2f MB}, {owned[bytes_per_iteration]:.2f MB} |
MB modelled = {replicated[model_bytes]:.2f MB}, {owned[model_bytes]:.2f MB}
"""


def made(case: str, rank: int, ranks: int) -> Any:
    """Generate this rank's rows: a hash of its number decides how popular a column is."""
    from bmrm.io import Csr

    law, columns = case.split()[0], int(case.split()[1])
    rng, rows = np.random.default_rng(rank), ROWS // ranks // (10 if law == "few" else 1)
    places = rng.random((rows, WORDS))
    drawn = columns * places if law == "even" else columns**places - 1.0
    words = np.sort(drawn.astype(np.int64) * 2654435761 % columns, axis=1)
    new = np.ones(words.shape, bool)
    new[:, 1:] = words[:, 1:] != words[:, :-1]
    indptr = np.concatenate([[0], np.cumsum(new.sum(axis=1))])
    indices = words[new].astype(np.int32)
    values = rng.random(len(indices)).astype(np.float32)
    margins = np.add.reduceat(values * np.sin(indices), indptr[:-1])
    y = np.where(margins + 0.1 * rng.standard_normal(rows) > 0.0, 1.0, -1.0)
    return Csr(indptr, indices, values, (rows, columns)), y


def counted(group: Any) -> dict[str, dict[str, int]]:
    """Count what a rank sends to others, by kind, from now on."""
    from bmrm.distributed.exchange import Exchange

    counts = scaling.counted(group)

    def note(kind: str, numbers: int) -> None:
        entry = counts.setdefault(kind, {"calls": 0, "bytes": 0})
        entry["calls"] += 1
        entry["bytes"] += 8 * numbers

    fetch, add_up, rank = Exchange.fetch, Exchange.add_up, group.rank

    def counting_fetch(self: Any, piece: np.ndarray) -> np.ndarray:
        note("weights", sum(self._asked) - self._asked[rank])
        return fetch(self, piece)

    def counting_add_up(self: Any, rows: np.ndarray, reach: Any, out: np.ndarray) -> None:
        note("gradients", len(rows) * (sum(self._wanted) - self._wanted[rank]))
        add_up(self, rows, reach, out)

    Exchange.fetch, Exchange.add_up = counting_fetch, counting_add_up  # type: ignore[method-assign]
    return counts


def work(case: str, form: str, text: str, out: str) -> None:
    """Solve on this rank; on the first rank, write the measurements."""
    from mpi4py import MPI

    import bmrm
    from bmrm.distributed import Group, Shard, read_rows
    from bmrm.distributed.narrow import find_touched_columns

    group = Group(MPI.COMM_WORLD)
    if case.startswith("text"):
        rows = read_rows(text, group, threads=1)
        X, y = rows.data.X, rows.data.y
    else:
        X, y = made(case, group.rank, group.size)
    here = int(find_touched_columns(X).sum())
    shard = Shard(X, y, comm=group, threads=1, weights=form)
    shard.wanted_by = "none"
    options: dict[str, Any] = {"lam": LAM, "tol": 1e-12, "cuts_per_pass": 1}
    if case.endswith("prior"):
        options["prior"] = np.full(shard.shape[1], 1e-3)
    tracemalloc.start()
    first = bmrm.solve(shard, max_iter=4, max_cuts=16, **options)  # X' is built at its first product
    memory = tracemalloc.get_traced_memory()[1] - first.bundle.store._rows.nbytes
    tracemalloc.stop()
    counts = counted(group)
    group.comm.Barrier()
    result = bmrm.solve(shard, max_iter=ITERATIONS, **options)
    slowest = group.comm.allreduce(result.timings["total"], op=MPI.MAX)
    everyones = group.everyones((here, memory, shard.matrix.nbytes, result.bundle.store.nbytes, counts))
    if group.rank == 0:
        touches, memories, sizes, stores, sent = zip(*everyones, strict=True)
        found = {
            "case": case,
            "form": form,
            "ranks": group.size,
            "rows": shard.shape[0],
            "columns": shard.shape[1],
            "nnz": shard.nnz,
            "touched": max(touches),
            "seconds": slowest,
            "iterations": result.n_iter,
            "objective": result.objective,
            "lower_bound": result.lower_bound,
            "timings": result.timings,
            "vectors_bytes": max(memories),
            "matrix_bytes": max(sizes),
            "store_bytes": max(stores),
            "cuts": len(result.bundle),
            "sent": sent,
        }
        Path(out).write_text(json.dumps(found))


def model(columns: int, touched: int, form: str, ranks: int) -> float:
    """Return the bytes that a rank sends per iteration, gradients and weights, by docs/scaling.md."""
    return 16.0 * (touched if form == "owned" else columns) * (ranks - 1) / ranks


def main() -> None:
    """Print the table and write the results file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", default=report.RESULTS / "scaling_owned.json")
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        case, form, out = options.worker
        work(case, form, options.text, out)
        return
    environ = {**os.environ, "OMP_NUM_THREADS": "1"}
    rows = []
    for case in CASES:
        runs: dict[str, list[dict[str, Any]]] = {form: [] for form in FORMS}
        for form in FORMS * options.repeats:
            with tempfile.TemporaryDirectory() as folder:
                found = str(Path(folder) / "found.json")
                program = [sys.executable, "-m", __spec__.name, options.text, "--worker", case, form, found]
                subprocess.run([*mpi_words(options.ranks), *program], env=environ, check=True)
                runs[form].append(json.loads(Path(found).read_text()))
        row = {"case": case}
        for form in FORMS:
            median = sorted(runs[form], key=lambda run: run["seconds"])[options.repeats // 2]
            median["all_seconds"] = [run["seconds"] for run in runs[form]]
            # What a solve begins and ends with is no part of an iteration: each kind is sent once in it, or
            # never, as weights that each rank computes from whole cuts.
            sent = [
                sum(entry["bytes"] / entry["calls"] for kind, entry in one.items() if kind != "sums")
                for one in median["sent"]
            ]
            median["bytes_per_iteration"] = sum(sent) / options.ranks
            median["model_bytes"] = model(median["columns"], median["touched"], form, options.ranks)
            row[form] = median
            print(
                f"{case}, {form}: {1e3 * median['seconds'] / median['iterations']:.1f} ms an iteration, "
                f"touched {median['touched'] / median['columns']:.2f}, vectors "
                f"{median['vectors_bytes'] / 1e6:.1f} MB, X {median['matrix_bytes'] / 1e6:.1f} MB, cuts "
                f"{median['store_bytes'] / 1e6:.1f} MB, MB sent {median['bytes_per_iteration'] / 1e6:.3f}, "
                f"model {median['model_bytes'] / 1e6:.3f}",
                flush=True,
            )
        rows.append(row)
    report.write(
        options.out,
        SECTIONS,
        lam=LAM,
        words=WORDS,
        made_rows=ROWS,
        ranks=options.ranks,
        repeats=options.repeats,
        iterations=ITERATIONS,
        rows=rows,
    )


if __name__ == "__main__":
    main()
