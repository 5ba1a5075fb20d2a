"""Run passes that take years, on as many threads as are given; a test interrupts each of them."""

import sys

import numpy as np
from endless_functions import FUNCTIONS, arguments_of, uniform

threads = int(sys.argv[1])
for endless in FUNCTIONS:
    rows, words = arguments_of(endless)
    endless(rows[:0], device="cpu", **words)  # compiles it
    print("starts", flush=True)
    try:
        endless(rows, threads=threads, device="cpu", **words)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
few = {"n": 2, "p": np.ones(2), "threads": threads, "device": "cpu"}
print(uniform(np.ones((20_000, 9)), **few).out, flush=True)
