"""Two processes on one GPU, with a limit of memory for each."""

import subprocess
import sys
import time

import pytest

pytest.importorskip("sklearn", minversion="1.6")

import bmrm

pytestmark = pytest.mark.skipif(bmrm.gpu() is None, reason="there is no CUDA device")

CONTEXT_BYTES = 1 << 30  # of the driver and its libraries, per process

FIT = """
import sys, numpy as np
from bmrm.estimators import BMRMClassifier
rng = np.random.default_rng(0)
X = rng.standard_normal((400_000, 50), np.float32)
y = X[:, 0] + rng.standard_normal(400_000) > 0
print("ready", flush=True)
sys.stdin.readline()  # both begin at the same time
model = BMRMClassifier("logistic", device="cuda", gpu_mem={memory}, lam=1e-4, tol=1e-3)
for _ in range(5):
    model.fit(X, y)
print(model.status_, model.objective_.hex())
"""


@pytest.mark.parametrize("memory", [500_000_000, 40_000_000])  # room for X, or for half of it
def test_two_processes_share_a_gpu(memory):
    command = [sys.executable, "-c", FIT.format(memory=memory)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    free = least = bmrm.gpu()["free_bytes"]
    both = [subprocess.Popen(command, **pipes) for _ in range(2)]
    for process in both:
        assert process.stdout.readline() == "ready\n"
    for process in both:
        process.stdin.write("\n")
        process.stdin.flush()
    while any(process.poll() is None for process in both):
        least = min(least, bmrm.gpu()["free_bytes"])
        time.sleep(0.01)
    found = [process.communicate()[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert found[0] == found[1]
    assert found[0].startswith("converged")
    assert 0 < free - least < 2 * (memory + CONTEXT_BYTES)
