"""Count until a signal comes, and print when it ended and what was found so far; for the test named so."""

import sys
import time

import numpy as np

from bmrm.errors import Interrupted
from bmrm.pairs import Points, histogram

rng = np.random.default_rng(0)
plan, n = sys.argv[1], int(sys.argv[2])
points = Points(rng.random((n, 3)), box=1.0)
words = {"edges": np.linspace(0, 0.5, 50), "plan": plan, "threads": 2}
histogram(Points(rng.random((100, 3)), box=1.0), **words)
print("starts", flush=True)
try:
    histogram(points, progress=lambda share: print(f"at {share}", flush=True), **words)
except Interrupted as stop:
    found = stop.result
    print(f"interrupted {time.monotonic()} {found.share} {found.counts.sum()} {found.candidates}", flush=True)
