"""Check random solves with exact arithmetic: no bound above an attained J, no "converged" beyond tol.

    python scripts/certify.py [--n 100000] [--seed S] [--processes 2] [--backend auto|cpu|gpu]
                              [--gpu N] [--losses hinge,...] [--json FILE]
    python scripts/certify.py --replay SEED:INDEX [--backend cpu|gpu] [--losses hinge,...]

Problems come from ``tests/problems.py`` and J from ``tests/oracle.py``; ``tests/certificates.py`` has the
checks. Without ``--seed`` a new seed is drawn and printed. "auto" does a tenth of the solves on a GPU if
there is one. A failing case is printed with the command that replays it. exp and log are enclosed by
python-flint if it is installed, otherwise by `decimal`. The exit status is 1 if any claim was false.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import secrets
import sys
import threading
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from queue import Empty
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

MAX_REPORTED_FAILURES = 200
"""Maximum number of failures that are printed and written to the file; all are counted."""

MAX_REPORTED_UNCONVERGED = 20
"""Maximum number of solves that did not converge that are written to the file."""

CASE_TIMEOUT_SECONDS = 300.0
"""A case that takes longer counts as hanging, and its process is killed."""

DEVICES = {"cpu": "cpu", "gpu": "cuda"}


@dataclass
class Tally:
    """The outcome of all cases on one backend."""

    backend: str
    solves: int = 0
    cases: int = 0
    seconds: float = 0.0
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    kinds: Counter[tuple[str, str]] = field(default_factory=Counter)
    failures: list[dict[str, Any]] = field(default_factory=list)
    unconverged: list[dict[str, Any]] = field(default_factory=list)

    def total(self, what: str) -> int:
        """Return a count over all losses."""
        return sum(n for (key, _), n in self.counts.items() if key == what)


def end_with_parent() -> None:
    """End this process when its parent process has ended, for whatever reason."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def work(backend: str, seed: int, losses: tuple[str, ...], indices: Any, reports: Any) -> None:
    """Run cases until there are no more."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    threading.Thread(target=end_with_parent, daemon=True).start()
    from certificates import Case

    for index in iter(indices.get, None):
        reports.put((backend, index, os.getpid(), None))
        reports.put((backend, index, os.getpid(), Case(seed, index, losses, DEVICES[backend]).run()))


class Backend:
    """The processes that run cases on one backend, and their outcome."""

    def __init__(
        self, name: str, wanted: int, processes: int, seed: int, losses: tuple[str, ...], reports: Any
    ) -> None:
        self.tally, self.wanted = Tally(name), wanted
        self._context = multiprocessing.get_context("spawn")
        self._given = (name, seed, losses)
        self._reports, self._next = reports, 0
        self._workers: dict[int, tuple[Any, Any]] = {}
        self._running: dict[int, tuple[int, float]] = {}
        for _ in range(processes):
            self._start()

    @property
    def done(self) -> bool:
        """Whether enough solves are done."""
        return self.tally.solves >= self.wanted

    def _start(self) -> None:
        indices = self._context.SimpleQueue()
        worker = self._context.Process(target=work, args=(*self._given, indices, self._reports), daemon=True)
        worker.start()
        self._workers[worker.pid] = (worker, indices)
        for _ in range(2):  # one that runs, one that waits
            self._give(indices)

    def _give(self, indices: Any) -> None:
        indices.put(None if self.done else self._next)
        self._next += not self.done

    def take(self, pid: int, index: int, report: Any) -> None:
        """Process a worker's message: the start of a case, or its report."""
        self._running[pid] = index, time.monotonic()
        if report is None:
            return
        self._running.pop(pid)
        if pid in self._workers:
            self._give(self._workers[pid][1])
        tally = self.tally
        tally.cases += 1
        tally.solves += report.solves
        tally.seconds += report.seconds
        tally.counts += report.counts
        for failure in report.failures:
            tally.kinds[failure.kind, failure.loss] += 1
            tally.failures.append(asdict(failure) | {"problem": report.description})
        tally.unconverged += [asdict(one) | {"problem": report.description} for one in report.unconverged]

    def replace_dead(self) -> list[tuple[str, int]]:
        """Replace workers that crashed or hang; return which of the two, and the index of the case."""
        said = []
        for pid, (worker, _) in list(self._workers.items()):
            index, since = self._running.get(pid, (-1, time.monotonic()))
            hangs = time.monotonic() - since > CASE_TIMEOUT_SECONDS
            if worker.is_alive() and not hangs:
                continue
            del self._workers[pid]
            if not hangs and worker.exitcode == 0:
                continue
            kind = "hang" if hangs else "crash"
            if hangs:
                worker.kill()
            self.tally.kinds[kind, "any"] += 1
            self.tally.failures.append(
                {"index": index, "kind": kind, "detail": f"exit code {worker.exitcode}"}
            )
            said.append((kind, index))
            self._running.pop(pid, None)
            self._start()
        return said

    def stop(self) -> None:
        """End all workers."""
        for worker, _ in self._workers.values():
            worker.kill()


def replay_line(seed: int, index: int, backend: str, losses: str | None) -> str:
    """Return the command that runs a case again."""
    more = ("" if backend == "cpu" else f" --backend {backend}") + (
        "" if losses is None else f" --losses {losses}"
    )
    return f"scripts/certify.py --replay {seed}:{index}{more}"


def replay(seed: int, index: int, backend: str, losses: tuple[str, ...]) -> int:
    """Run one case and print all of its solves."""
    from certificates import Case

    case = Case(seed, index, losses, DEVICES[backend])
    report = case.run()
    p = case.problem
    print(report.description, case.drawn.storage, p.params or "")
    print(f"  X from {abs(p.X).min():g} to {abs(p.X).max():g}", end="")
    print("" if p.weights is None else f", weights from {p.weights.min():g} to {p.weights.max():g}", end="")
    flags = ("positive", "feature_lambda", "prior", "costs")
    print("".join(f", {name}" for name in flags if np.any(getattr(p, name))))
    if case.drawn.optimum is not None:
        print(f"  exact optimum {float(case.drawn.optimum)!r}")
    for solve in case.solves:
        r = solve.result
        J = solve.own.value(r.w, r.intercept, solve.lam)
        print(
            f"  {solve.name}: lam {solve.lam:.6g}, tol {r.tol:g} {r.tol_kind}, {r.status} after {r.n_iter}: "
            f"objective {r.objective!r}, J {float(J.high)!r}, bound {r.lower_bound!r}"
        )
    for failure in [*report.failures, *report.unconverged]:
        print(failure)
    return 1 if report.failures else 0


def table(tally: Tally) -> str:
    """Format the counts as a table, with one row per loss and one column per kind of failure."""
    kinds = sorted({kind for kind, _ in tally.kinds})
    losses = sorted({loss for _, loss in (*tally.counts, *tally.kinds)})
    head = [
        "loss",
        "solves",
        "converged",
        "precision",
        "max_iter",
        "max_time",
        "exact",
        "unconverged",
        *kinds,
    ]
    rows = [head]
    for loss in losses:
        own = [
            tally.counts[what, loss] for what in ("solves", "converged", "precision", "max_iter", "max_time")
        ]
        own += [tally.counts["exact optimum", loss], tally.counts["unconverged", loss]]
        rows.append([loss, *(str(n) for n in own), *(str(tally.kinds[kind, loss]) for kind in kinds)])
    widths = [max(len(row[k]) for row in rows) for k in range(len(head))]
    return "\n".join("  ".join(f"{cell:>{w}}" for cell, w in zip(row, widths, strict=True)) for row in rows)


def figures(tally: Tally) -> dict[str, Any]:
    """Return the results of a backend for the file."""
    well = tally.total("converged") + tally.total("unconverged")
    return {
        "backend": tally.backend,
        "solves": tally.solves,
        "cases": tally.cases,
        "converged": tally.total("converged"),
        "exact_optima": tally.total("exact optimum"),
        "unconverged": tally.total("unconverged"),
        "unconverged_share": tally.total("unconverged") / well if well else 0.0,
        "kinds": dict(sorted(_sums(tally.kinds).items())),
        "refused": {k: n for k, n in sorted(_sums(tally.counts).items()) if k.startswith("refused")},
        "by_loss": {
            loss: {kind: n for (kind, of), n in sorted((tally.counts + tally.kinds).items()) if of == loss}
            for loss in sorted({loss for _, loss in tally.counts})
        },
        "beyond_a_dual_in_float64": tally.total("beyond a dual in float64"),
        "failures": tally.failures[:MAX_REPORTED_FAILURES],
        "not_converged": tally.unconverged[:MAX_REPORTED_UNCONVERGED],
    }


def _sums(counts: Counter[tuple[str, str]]) -> Counter[str]:
    found: Counter[str] = Counter()
    for (what, _), n in counts.items():
        found[what] += n
    return found


def shares(n: int, backend: str, gpu_share: int | None) -> dict[str, int]:
    """Divide the solves between CPU and GPU."""
    from bmrm.matrix.gpu.devices import gpu

    there = gpu() is not None
    if (backend == "gpu" or gpu_share) and not there:
        raise SystemExit("certify.py: found no GPU that this build can use")
    on_gpu = {"cpu": 0, "gpu": n}.get(backend, n // 10 if there else 0)
    on_gpu = on_gpu if gpu_share is None else gpu_share
    return {name: share for name, share in {"cpu": n - on_gpu, "gpu": on_gpu}.items() if share > 0}


def certify(options: argparse.Namespace, losses: tuple[str, ...]) -> int:
    """Run all cases; print failures, progress and the counts at the end."""
    import numpy as np
    import oracle

    import bmrm

    seed = secrets.randbits(32) if options.seed is None else options.seed
    wanted = shares(options.n, options.backend, options.gpu)
    print(f"seed {seed}; solves: {', '.join(f'{n} on the {k.upper()}' for k, n in wanted.items())}")
    print(f"exp and log are enclosed by {oracle.ENCLOSED_BY}", flush=True)
    reports = multiprocessing.get_context("spawn").Queue()
    processes = {"cpu": options.processes, "gpu": options.processes if options.backend == "gpu" else 1}
    backends = {k: Backend(k, n, processes[k], seed, losses, reports) for k, n in wanted.items()}
    started = said = time.monotonic()
    printed = 0
    while not all(backend.done for backend in backends.values()):
        try:
            name, index, pid, report = reports.get(timeout=1.0)
        except Empty:
            replace_workers(backends, seed, options.losses)
            continue
        backends[name].take(pid, index, report)
        failed = [] if report is None else report.failures
        if failed and printed < MAX_REPORTED_FAILURES:
            printed += 1
            print(f"{report.description}\n    {replay_line(seed, index, name, options.losses)}")
            for failure in failed[:3]:
                print(f"    {failure}")
            print(end="", flush=True)
        if time.monotonic() - said > options.every:
            said = time.monotonic()
            print(progress(list(backends.values()), said - started), file=sys.stderr, flush=True)
            replace_workers(backends, seed, options.losses)
    elapsed = time.monotonic() - started
    for backend in backends.values():
        backend.stop()
    tallies = [backend.tally for backend in backends.values()]
    print(progress(list(backends.values()), elapsed), file=sys.stderr)
    for tally in tallies:
        print(f"\n{tally.backend}: {tally.solves} solves of {tally.cases} problems, {tally.seconds:.0f} s")
        print(table(tally))
        print("failures:", dict(_sums(tally.kinds)) or "none")
        counts = figures(tally)
        share = counts["unconverged_share"]
        print(f"well-conditioned and not converged: {counts['unconverged']} ({share:.3%})")
    if options.json:
        content = {
            "command": f"scripts/certify.py --n {options.n} --seed {seed}",
            "seed": seed,
            "elapsed": elapsed,
            "processes": options.processes,
            "machine": platform.platform(),
            "python": platform.python_version(),
            "numpy": np.__version__,
            "bmrm": bmrm.__version__,
            "enclosed_by": oracle.ENCLOSED_BY,
            "backends": [figures(tally) for tally in tallies],
        }
        Path(options.json).write_text(json.dumps(content, indent=1) + "\n")
    print(f"seed {seed}: {sum(sum(t.kinds.values()) for t in tallies)} failures")
    return 1 if any(tally.kinds for tally in tallies) else 0


def replace_workers(backends: dict[str, Backend], seed: int, losses: str | None) -> None:
    """Replace workers that crashed or hang, and print the commands that replay their cases."""
    for name, backend in backends.items():
        for kind, index in backend.replace_dead():
            print(f"{kind}:\n    {replay_line(seed, index, name, losses)}", flush=True)


def progress(backends: list[Backend], elapsed: float) -> str:
    """Return the progress of all backends, and the time that the slowest still needs."""
    done, wanted = (
        sum(values) for values in ((b.tally.solves for b in backends), (b.wanted for b in backends))
    )
    rate = done / elapsed if elapsed else 0.0
    failed = sum(sum(b.tally.kinds.values()) for b in backends)
    left = max((b.wanted - b.tally.solves) * elapsed / max(b.tally.solves, 1) for b in backends)
    return (
        f"{done} of {wanted} solves, {rate:.0f} per second, {failed} failures, "
        f"{max(left, 0) / 60:.1f} min left"
    )


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--n", type=int, default=100_000, help="number of solves, including those on a GPU")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--backend", choices=("auto", "cpu", "gpu"), default="auto")
    parser.add_argument(
        "--gpu", type=int, metavar="N", help="number of solves on a GPU; default: a tenth if there is one"
    )
    parser.add_argument("--losses", help="names, separated by commas; default: all")
    parser.add_argument("--json", metavar="FILE", help="write counts and failures")
    parser.add_argument(
        "--every", type=float, default=10.0, metavar="SECONDS", help="time between progress lines"
    )
    parser.add_argument("--replay", metavar="SEED:INDEX", help="run one case and print its solves")
    options = parser.parse_args()
    import oracle

    losses = oracle.ALL if options.losses is None else tuple(options.losses.split(","))
    unknown = set(losses) - set(oracle.ALL)
    if unknown:
        parser.error(
            f"--losses: found {', '.join(sorted(unknown))}, expected some of {', '.join(oracle.ALL)}"
        )
    if options.replay:
        seed, index = (int(part) for part in options.replay.split(":"))
        return replay(seed, index, "gpu" if options.backend == "gpu" else "cpu", losses)
    return certify(options, losses)


if __name__ == "__main__":
    sys.exit(main())
