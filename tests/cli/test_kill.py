"""SIGKILL at any moment leaves the old model, the new one or none; ``scripts/kill_runs.py`` has many more."""

import importlib.util
from pathlib import Path

import pytest

from bmrm.matrix.gpu.devices import gpu

SCRIPT = Path(__file__).parents[2] / "scripts" / "kill_runs.py"


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_random_kills(device):
    if device == "cuda" and gpu() is None:
        pytest.skip("there is no CUDA device")
    spec = importlib.util.spec_from_file_location("kill_runs", SCRIPT)
    kill_runs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(kill_runs)
    counts = kill_runs.kill_runs(6, device, 2, 1)
    assert sum(count for name, count in counts.items() if name.startswith("left ")) == 6
    assert counts["killed"] + counts.get("killed in the write", 0) >= 2
