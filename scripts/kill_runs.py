"""Kill bmrm-train at random moments: it must leave the whole old model, the whole new one, or none.

    python scripts/kill_runs.py [--kills 200] [--device cpu,cuda] [--jobs 2] [--seed 0]

The moments are spread over the duration of a run. Every other kill waits for the temporary file of the model,
so that the write itself is hit too. Half of the runs start with an older model in place. Files that killed
runs leave behind must not be models, and must be gone after a run that finishes.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

import bmrm
from bmrm.linear.models.model import Model
from bmrm.matrix.gpu.devices import gpu

ROWS = 150
FEATURES = 40_000
NONZEROS_PER_ROW = 60
TRAIN = "import sys; from bmrm.cli.train import main; sys.exit(main())"
OLD_LAM = "1"  # of the model that is in place before a run
NEW_LAM = "0.01"  # of the model that a run writes


def write_data(path: Path) -> None:
    """Write few rows with many features, for a model that takes some time to write."""
    rng = np.random.default_rng(0)
    with path.open("w") as file:
        for row in range(ROWS):
            columns = np.sort(rng.choice(FEATURES, NONZEROS_PER_ROW, replace=False)) + 1
            values = rng.standard_normal(NONZEROS_PER_ROW).round(3) + 0.01
            entries = " ".join(f"{c}:{v:.3f}" for c, v in zip(columns, values, strict=True))
            file.write(f"{1 - 2 * (row % 2)} {entries}\n")


def start(folder: Path, lam: str, device: str) -> subprocess.Popen[bytes]:
    """Start a run in a separate process."""
    words = ["--lambda", lam, "--device", device, "data", "model"]
    return subprocess.Popen(
        [sys.executable, "-c", TRAIN, *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(bmrm.__file__).parents[1])},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def finish(folder: Path, lam: str, device: str) -> tuple[np.ndarray, float]:
    """Run to the end; return the weights of the model and the seconds."""
    began = time.perf_counter()
    process = start(folder, lam, device)
    errors = process.communicate()[1].decode()
    if process.returncode:
        raise RuntimeError(f"a run failed: {errors}")
    return Model.load(folder / "model").w, time.perf_counter() - began


def temporaries(folder: Path) -> list[str]:
    """Return the names of files that are neither the data nor the model."""
    return sorted(set(os.listdir(folder)) - {"data", "model"})


def kill_one(folder: Path, device: str, moment: float, delay: float | None, usual: float) -> str:
    """Kill a run at ``moment``, or ``delay`` after its temporary file appears; return what it was doing."""
    before = temporaries(folder)
    process = start(folder, NEW_LAM, device)
    began = time.perf_counter()
    if delay is None:
        time.sleep(moment)
    else:
        # An earlier temporary file only tests whether the folder can be written.
        while process.poll() is None and (
            time.perf_counter() - began < 0.5 * usual or temporaries(folder) == before
        ):
            time.sleep(1e-4)
        time.sleep(delay)
    process.send_signal(signal.SIGKILL)
    ended = process.wait() != -signal.SIGKILL
    process.communicate()
    return (
        "finished before" if ended else "killed in the write" if temporaries(folder) != before else "killed"
    )


def check(folder: Path, models: dict[str, np.ndarray], allowed: set[str]) -> str:
    """Return which of the models is in the folder; raise if it is not one of those allowed."""
    found = "none"
    if (folder / "model").exists():
        w = Model.load(folder / "model").w
        same = [name for name, known in models.items() if np.allclose(w, known, rtol=1e-5, atol=1e-8)]
        found = same[0] if same else "another"
    if found not in allowed:
        raise RuntimeError(f"found {found} model, expected one of {', '.join(sorted(allowed))}")
    return found


def kill_runs(kills: int, device: str, jobs: int, seed: int) -> dict[str, int]:
    """Kill runs, ``jobs`` at a time; return how many were killed doing what, and what they left.

    Raises
    ------
    RuntimeError
        If a run left anything except a whole model or none, or a leftover file survived the next run.
    """
    with tempfile.TemporaryDirectory() as top:
        folders = [Path(top, str(job)) for job in range(jobs)]
        for folder in folders:
            folder.mkdir()
            write_data(folder / "data")
        old, usual = finish(folders[0], OLD_LAM, device)
        old_file = (folders[0] / "model").read_bytes()
        new, usual = finish(folders[0], NEW_LAM, device)
        models = {"the old": old, "the new": new}

        def job(number: int) -> Counter[str]:
            chance, folder, counts = random.Random(seed + number), folders[number], Counter[str]()
            for kill in range(number, kills, jobs):
                (folder / "model").unlink(missing_ok=True)
                if has_old := chance.random() < 0.5:
                    (folder / "model").write_bytes(old_file)
                delay = chance.expovariate(2000.0) if kill // jobs % 2 else None
                counts[kill_one(folder, device, chance.uniform(0.0, 1.2 * usual), delay, usual)] += 1
                left = "the old" if has_old else "none"
                counts[f"left {check(folder, models, {left, 'the new'})}"] += 1
                counts["left-over files"] = max(counts["left-over files"], len(temporaries(folder)))
            finish(folder, NEW_LAM, device)
            check(folder, models, {"the new"})
            if temporaries(folder):
                raise RuntimeError(f"left over after a run that finished: {', '.join(temporaries(folder))}")
            return counts

        with ThreadPoolExecutor(jobs) as pool:
            total = sum(pool.map(job, range(jobs)), Counter[str]())
    return dict(sorted(total.items()))


def main() -> None:
    """Print the counts as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--device", help="default: cpu, and cuda if there is a GPU")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    here = ["cpu"] if gpu() is None else ["cpu", "cuda"]
    for device in options.device.split(",") if options.device else here:
        began = time.perf_counter()
        counts = kill_runs(options.kills, device, options.jobs, options.seed)
        print(json.dumps({"device": device, "seconds": round(time.perf_counter() - began, 1), **counts}))


if __name__ == "__main__":
    main()
