"""The solves of one build of the package, one at a time, for `benchmarks.cpu.two_builds`.

    python one_build.py PROBLEM

The command is run by its path with the build first in PYTHONPATH, so it imports nothing from the benchmarks:
another build may have none, or others. PROBLEM is a file of arrays and options. For each line of the input it
solves the problem, and prints a line of JSON; before the first one it prints which package it has imported.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import bmrm


def read(path: str) -> tuple[Any, np.ndarray, dict[str, Any], int]:
    """Return X, the labels, the options of `bmrm.solve`, and the number of solves that are timed together."""
    with np.load(path) as file:
        arrays = dict(file)
    X = arrays.get("X")
    if X is None:
        shape = tuple(arrays["shape"].tolist())
        X = sp.csr_array((arrays["data"], arrays["indices"], arrays["indptr"]), shape)
    task = json.loads(str(arrays["task"]))
    return X, arrays["y"], task["options"], task["solves"]


def main() -> None:
    X, y, options, solves = read(sys.argv[1])
    device = options.pop("device")
    print(json.dumps({"package": str(Path(bmrm.__file__).parent), "version": bmrm.__version__}), flush=True)
    for _ in sys.stdin:
        start = time.perf_counter()
        for _ in range(solves):
            data = bmrm.Dataset(X, y, device=device)
            result = bmrm.solve(data, **options)
        seconds = (time.perf_counter() - start) / solves
        found = {"seconds": seconds, "status": result.status, "passes": result.n_iter}
        found |= {"objective": result.objective, "lower_bound": result.lower_bound, "device": result.device}
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
