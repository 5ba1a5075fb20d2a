"""Fit estimators to a mapped file in little memory; print what was found and how much memory that took."""

import re
import resource
import sys
from pathlib import Path

import numpy as np

from bmrm import PCA, GaussianMixture, KMeans
from bmrm.distributed import row_set, rows
from bmrm.unsupervised.decomposition import scatter


def peak(of: str) -> int:
    """Return a number of bytes of the status of this process."""
    return 1024 * int(re.findall(rf"{of}:\s+(\d+) kB", Path("/proc/self/status").read_text())[0])


def fit(X):
    """Return the models of some rows."""
    init = np.eye(2, X.shape[1], 1)
    return (
        KMeans(2, init=init, threads=1).fit(X),
        PCA(1, threads=1).fit(X),
        GaussianMixture(1, covariance_type="diag", random_state=0, max_iter=1, threads=1).fit(X),
    )


X = np.load(sys.argv[1], mmap_mode="r")
fit(np.eye(4096, 64, dtype=np.float32))  # all code is loaded
scatter.BLOCK_VALUES = 1 << 19
used = int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_DATA, (used + (128 << 20), used + (128 << 20)))
rows.available_bytes = row_set.available_bytes = lambda: 300 << 20
Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
before = peak("VmRSS")
clusters, components, mixture = fit(X)
megabytes = (peak("VmHWM") - before) / 2**20
print(*clusters.cluster_weights_, *components.mean_[:2], mixture.covariances_[0, 1], megabytes)
