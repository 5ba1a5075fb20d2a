"""A solve on 1, 2, … ranks of one core each: seconds by part, bytes and messages against the cost model.

    python -m benchmarks.ranks.scaling TEXT [--ranks 1,2] [--repeats 7] [--out FILE]

TEXT is that of textdata.py. Every run is `mpiexec -n R`, one thread per rank, hinge at lam 1e-5 to a relative
gap of 1e-3. The figure is the median of the seconds that the slowest rank takes for the solve, with resident
data. Numbers of ranks take turns, because other work on a machine's host changes from minute to minute. As a
control, the ranks then make the same number of iterations at the same time, each on its own rows, as
independent processes: this is what the machine's cores and memory allow. Bytes and exchanges are counted and
compared with the model of docs/scaling.md.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import report
from benchmarks.common.ranks import mpi_words

LAM, TOL = 1e-5, 1e-3
WANTED = 1.7  # times faster, of two ranks


SECTIONS = """
## Several ranks

Hinge on {rows[0][rows]} x {rows[0][columns]} with {rows[0][nnz]} nonzeros, lam {lam:g}, to a relative
gap of {tol:g}; one core per rank, medians of {rows[0][all_seconds]:d count} runs that alternate. The
control is independent processes on the same rows. MB are sent by a rank per iteration, for gradients
and for weights, as counted and by the model of docs/scaling.md.

[rows]
ranks = {ranks} | seconds = {seconds:.3f} | all runs = {all_seconds:.3f span} | iterations = {iterations} |
ms each = {seconds/iterations:.1f ms} | faster = {faster:.2f} | control = {control_faster:.2f} |
MB counted = {bytes_per_iteration[gradients]:.3f MB}, {bytes_per_iteration[weights]:.3f MB} |
MB modelled = {model_bytes[gradients]:.3f MB}, {model_bytes[weights]:.3f MB} |
messages = {messages_per_iteration:.1f}

[aims]
"""


def counted(group: Any) -> dict[str, dict[str, int]]:
    """Count what a rank sends to others, by kind, from now on.

    Gradients of few columns are summed by an all-gather, as short sums are.
    """
    from bmrm.linear.backends.ranks.passes import RanksOperator

    counts: dict[str, dict[str, int]] = {}

    def note(kind: str, numbers: int) -> None:
        entry = counts.setdefault(kind, {"calls": 0, "bytes": 0})
        entry["calls"] += 1
        entry["bytes"] += 8 * numbers

    parts, by_columns, gathered = group.parts, group.total_by_columns, group.gathered
    others, multiply = group.size - 1, RanksOperator.rmatvec_blocks
    in_gradients = False

    def counting_product(self: Any, r: np.ndarray, starts: np.ndarray, out: np.ndarray) -> None:
        nonlocal in_gradients
        in_gradients = True
        multiply(self, r, starts, out)
        in_gradients = False

    def counting_parts(part: np.ndarray) -> np.ndarray:
        note("gradients" if in_gradients and part.size else "sums", part.size * others)
        return parts(part)

    def counting_columns(rows: np.ndarray, reach: Any, bounds: np.ndarray, out: np.ndarray) -> None:
        own = bounds[group.rank + 1] - bounds[group.rank]
        note("gradients", len(rows) * int(bounds[-1] - own))
        by_columns(rows, reach, bounds, out)

    def counting_gathered(piece: np.ndarray, bounds: np.ndarray) -> np.ndarray:
        note("weights", piece.size * others)
        return gathered(piece, bounds)

    group.parts, group.total_by_columns, group.gathered = counting_parts, counting_columns, counting_gathered
    RanksOperator.rmatvec_blocks = counting_product  # type: ignore[method-assign]
    return counts


def work(text: str, out: str) -> None:
    """Solve on this rank; on the first rank, write the measurements."""
    from mpi4py import MPI

    import bmrm
    from bmrm.distributed import Group, Shard, read_rows

    group = Group(MPI.COMM_WORLD)
    rows = read_rows(text, group, threads=1)
    shard = Shard(rows.data.X, rows.data.y, comm=group, threads=1)
    bmrm.solve(shard, lam=LAM, tol=TOL, max_iter=2)  # X' is built at its first product
    counts = counted(group)
    group.comm.Barrier()
    result = bmrm.solve(shard, lam=LAM, tol=TOL)
    slowest = group.comm.allreduce(result.timings["total"], op=MPI.MAX)
    own = Shard(rows.data.X, rows.data.y, comm=MPI.COMM_SELF, threads=1)
    bmrm.solve(own, lam=LAM, tol=TOL, max_iter=2)
    group.comm.Barrier()
    alone = bmrm.solve(own, lam=LAM, tol=1e-12, max_iter=result.n_iter)
    control = group.comm.allreduce(alone.timings["total"], op=MPI.MAX)
    if group.rank == 0:
        found = {
            "ranks": group.size,
            "seconds": slowest,
            "control_seconds": control,
            "iterations": result.n_iter,
            "status": result.status,
            "objective": result.objective,
            "gap": result.gap,
            "timings": result.timings,
            "rows": shard.shape[0],
            "columns": shard.shape[1],
            "nnz": shard.nnz,
            "blocks": result.bundle.groups,
            "parse_seconds": rows.data.seconds["parse"],
            "sent": counts,
        }
        Path(out).write_text(json.dumps(found))


def model(columns: int, blocks: int, ranks: int) -> dict[str, float]:
    """Return the bytes that a rank sends per iteration by the model of docs/scaling.md."""
    share = columns * (ranks - 1) / ranks
    return {"gradients": 8.0 * share * -(-blocks // ranks), "weights": 8.0 * share}


def main() -> None:
    """Print the table and write the results file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text")
    parser.add_argument("--ranks", default="1,2")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--out", default=report.RESULTS / "scaling.json")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.text, options.worker)
        return
    environ = {**os.environ, "OMP_NUM_THREADS": "1"}
    counts = [int(ranks) for ranks in options.ranks.split(",")]
    everything: dict[int, list[dict[str, Any]]] = {ranks: [] for ranks in counts}
    for ranks in counts * options.repeats:
        with tempfile.TemporaryDirectory() as folder:
            found = str(Path(folder) / "found.json")
            program = [sys.executable, "-m", __spec__.name, options.text, "--worker", found]
            subprocess.run([*mpi_words(ranks), *program], env=environ, check=True)
            everything[ranks].append(json.loads(Path(found).read_text()))
    rows = []
    for ranks, runs in everything.items():
        median = sorted(runs, key=lambda run: run["seconds"])[len(runs) // 2]
        median["all_seconds"] = [run["seconds"] for run in runs]
        median["all_control_seconds"] = [run["control_seconds"] for run in runs]
        median["control_seconds"] = statistics.median(median["all_control_seconds"])
        predicted = model(median["columns"], median["blocks"], ranks)
        median["bytes_per_iteration"] = {
            kind: sent["bytes"] / median["iterations"] for kind, sent in median["sent"].items()
        }
        median["calls_per_iteration"] = {
            kind: sent["calls"] / median["iterations"] for kind, sent in median["sent"].items()
        }
        median["model_bytes"] = predicted
        rows.append(median)
        median["messages_per_iteration"] = sum(median["calls_per_iteration"].values())
        median["faster"] = faster = rows[0]["seconds"] / median["seconds"]
        median["control_faster"] = rows[0]["control_seconds"] / median["control_seconds"]
        each = 1e3 * median["seconds"] / median["iterations"]
        print(
            f"{ranks} ranks: {median['seconds']:.3f} s, {median['iterations']} iterations of {each:.1f} ms, "
            f"{faster:.2f} times (control {median['control_faster']:.2f}); "
            "MB an iteration "
            + ", ".join(f"{k} {v / 1e6:.3f}" for k, v in median["bytes_per_iteration"].items())
            + "; model "
            + ", ".join(f"{k} {v / 1e6:.3f}" for k, v in predicted.items())
        )
    aims = [report.aim("2 ranks / one", row["faster"], WANTED) for row in rows if row["ranks"] == 2]
    report.write(options.out, SECTIONS, lam=LAM, tol=TOL, rows=rows, aims=aims)


if __name__ == "__main__":
    main()
