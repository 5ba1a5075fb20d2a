"""Run passes that take years, on one thread and on two in turn; a test interrupts each of them."""

import numpy as np
from endless_functions import FUNCTIONS, arguments_of, uniform

for at, endless in enumerate(FUNCTIONS):
    rows, words = arguments_of(endless)
    endless(rows[:0], device="cpu", **words)  # compiles it
    print("starts", flush=True)
    try:
        endless(rows, threads=1 + at % 2, device="cpu", **words)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
few = {"n": 2, "p": np.ones(2), "device": "cpu"}
print(*(uniform(np.ones((20_000, 9)), threads=threads, **few).out for threads in (1, 2)), flush=True)
