"""Two processes on one GPU, with a limit of memory for each."""

import subprocess
import sys

import pytest

pytest.importorskip("sklearn", minversion="1.6")

import bmrm

pytestmark = pytest.mark.skipif(bmrm.gpu() is None, reason="there is no CUDA device")

FIT = """
import sys, numpy as np
from bmrm.estimators import BMRMClassifier
rng = np.random.default_rng(0)
X = rng.standard_normal((400_000, 50), np.float32)
y = X[:, 0] + rng.standard_normal(400_000) > 0
print("ready", flush=True)
sys.stdin.readline()  # both begin at the same time
found = BMRMClassifier("logistic", device="cuda", gpu_mem="{memory}", lam=1e-4).fit(X, y)
print(found.status_, found.model_.certificate.status, found.objective_.hex())
"""


@pytest.mark.parametrize("memory", ["500M", "40M"])  # room for all of X; so little that X streams
def test_two_processes_share_a_gpu(memory):
    command = [sys.executable, "-c", FIT.format(memory=memory)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    both = [subprocess.Popen(command, **pipes) for _ in range(2)]
    for process in both:
        assert process.stdout.readline() == "ready\n"
    for process in both:
        process.stdin.write("\n")
        process.stdin.flush()
    found = [process.communicate(timeout=300)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert found[0] == found[1]
    assert found[0].startswith("converged converged")
