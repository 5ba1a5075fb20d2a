"""The whole of `bmrm-train` on a GPU, from text and from the cache, against LIBLINEAR's.

    python -m benchmarks.gpu.end_to_end_gpu [--text FILE] [--rows 781265] [--liblinear PROGRAM] [--out FILE]

The set is that of textdata.py with the number of rows of the Reuters corpus: 781 265 x 47 236, 76 nonzeros
per row, some 60 M in all. The loss is the hinge, lam = 1e-5, to a certified relative gap of 1e-3; LIBLINEAR
runs `train -s 3 -e 0.001` at the same lam, without bias. Times are from start to end of the process: medians
of seven runs, after one in which the GPU's rates are measured and kernels picked. One function judges both
models. For comparison a process only imports NumPy and then starts the driver.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import bmrm
from benchmarks.common import report
from benchmarks.common.textdata import make_text
from benchmarks.peers.against_liblinear import LAM, liblinear_weights, objective, seconds
from bmrm.linear.models.model import Model

RUNS = 7
WAYS = {
    "text": "`bmrm-train`, from text",
    "cache": "`bmrm-train --cache`, from the cache",
    "bare": "import of NumPy, start of the driver",
    "liblinear": "LIBLINEAR `-s 3 -e 0.001`",
}
BARE = """
import ctypes, os, numpy
driver, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
assert driver.cuInit(0) == 0 and driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
os._exit(0)
"""


SECTIONS = """
## The whole command on a GPU

Text of {text_bytes:.0f MB} MB, {rows} rows, {nnz} nonzeros; hinge, lam 1e-5, to a relative gap of 1e-3.
Seconds from the start of the process to its end, and by part. The objectives are
{commands[text][objective]:.6f} and {commands[liblinear][objective]:.6f} (LIBLINEAR), evaluated by one
function.

[commands]
command = {what} | whole = {seconds:.2f} | load = {timings[load]:.3f} | train = {timings[train]:.3f} |
write = {timings[write]:.3f}
"""


def train(text: Path, model: Path, *options: str) -> tuple[float, dict[str, Any]]:
    """Return the seconds of a `bmrm-train`, and its report."""
    command = [sys.executable, "-m", "bmrm.cli.train", "--json", "--loss", "hinge", "--lambda", str(LAM)]
    command += ["--tol", "1e-3", "--device", "cuda", *options, str(text), str(model)]
    start = time.perf_counter()
    ended = subprocess.run(command, check=True, capture_output=True, text=True)
    return time.perf_counter() - start, json.loads(ended.stdout)


def several(text: Path, model: Path, *options: str) -> dict[str, Any]:
    """Return medians of some runs after one that does not count."""
    train(text, model, *options)
    runs = [train(text, model, *options) for _ in range(RUNS)]
    said = runs[-1][1]
    return {
        "seconds": statistics.median(spent for spent, _ in runs),
        "runs": [spent for spent, _ in runs],
        "timings": said["timings"],
        "iterations": said["iterations"],
        "gap": said["gap"] / said["objective"],
    }


def bare() -> dict[str, Any]:
    """Return the seconds of a process that has nothing to do on the GPU."""
    runs = [seconds([sys.executable, "-c", BARE]) for _ in range(RUNS + 1)][1:]
    return {"seconds": statistics.median(runs), "runs": runs}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", type=Path, help="an SVMlight file, in place of the generated one")
    parser.add_argument("--rows", type=int, default=781_265)
    parser.add_argument("--liblinear", default="liblinear-train", help="LIBLINEAR's train program")
    parser.add_argument("--out", default=str(report.RESULTS / "end_to_end_gpu.json"))
    options = parser.parse_args()
    report.as_installed()
    with tempfile.TemporaryDirectory() as folder:
        text = options.text or Path(folder) / "text.svm"
        if options.text is None:
            make_text(text, options.rows)
        model, peer = Path(folder) / "bmrm.model", Path(folder) / "liblinear.model"
        size = os.path.getsize(text)
        commands = {
            "text": several(text, model, "--no-cache"),
            "cache": several(text, model, "--cache"),
            "bare": bare(),
        }
        X, y = bmrm.load_svmlight(text)
        cost = 1.0 / (LAM * X.shape[0])
        peer_options = ["-q", "-s", "3", "-e", "0.001", "-c", repr(cost)]
        commands["liblinear"] = {"seconds": seconds([options.liblinear, *peer_options, str(text), str(peer)])}
        commands["text"]["objective"] = objective("hinge", X, y, Model.load(model).w)
        commands["liblinear"]["objective"] = objective("hinge", X, y, liblinear_weights(peer, X.shape[1]))
    faster = commands["liblinear"]["seconds"] / commands["text"]["seconds"]
    for way, found in commands.items():
        found["what"] = WAYS[way]
        print(way, json.dumps(found))
    print(f"{faster:.1f} times faster than LIBLINEAR from text")
    about = {"rows": int(X.shape[0]), "nnz": int(X.nnz), "text_bytes": size}
    report.write(options.out, SECTIONS, **about, commands=commands, times_faster=faster)


if __name__ == "__main__":
    main()
