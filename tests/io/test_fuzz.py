"""A few seconds of ``scripts/fuzz.py`` without sanitizers; `make fuzz` runs it longer."""

import time
import warnings
from pathlib import Path

import numpy as np

SCRIPTS = Path(__file__).parents[2] / "scripts"


def test_some_seconds_of_fuzzing(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(SCRIPTS)
    import fuzz

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        corpus = fuzz.quietly(tmp_path)
        end = time.monotonic() + 2
        number = 0
        while time.monotonic() < end or number < 100:
            fuzz.run_case(0, number, corpus)
            number += 1
