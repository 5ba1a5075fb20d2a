"""Estimators on the rows of several ranks, and of files that are larger than the memory."""

import os
import subprocess
import sys
from pathlib import Path

import mpi
import numpy as np
import pytest

from bmrm import PCA, GaussianMixture, KMeans
from bmrm.distributed import row_set


def test_ranks_give_the_bits_of_one_if_parts_fall_whole(tmp_path):
    ranks = 3  # the first, one in between and the last
    if not os.environ.get("BMRM_REQUIRE_PETSC"):
        pytest.importorskip("mpi4py", reason="mpi4py is not installed; `make test` installs it")
    done = mpi.run(ranks, Path(__file__).with_name("rank_estimators_program.py"), cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("done") == ranks
    for words in (
        "row 1, column 1 has nan",
        "n_clusters: found 2 on one rank and 3 on another",
        "found 3 columns on one rank and 4 on another",
        "expected at most 12388, the number of rows",
        "found only zeros",
        "found a callable",
        "row 701, column 711 has -1",
        "X: found shape (800, 800) of float64 on rank 0 and shape (799, 799) of float64 on rank 1",
        "metric_mds: found False with comm",
    ):
        assert done.stdout.count(words) == ranks, words  # an error of one rank is one of all


def test_blocks_of_rows_give_the_bits_of_all(monkeypatch):
    rng = np.random.default_rng(0)
    X = 3 * rng.normal(size=(4, 3))[rng.integers(0, 4, 9000)] + rng.normal(size=(9000, 3))
    weights = rng.integers(0, 3, 9000).astype(float)

    def fits():
        clusters = KMeans(4, random_state=0).fit(X, sample_weight=weights)
        certificate = clusters.certificate(X, weights, samples=2, size=40)
        many = KMeans(40, init="k-means||", random_state=0, max_iter=3).fit(X, sample_weight=weights)
        mixture = GaussianMixture(3, random_state=0, max_iter=3).fit(X, sample_weight=weights)
        return [
            clusters.cluster_centers_.tobytes(), clusters.labels_.tobytes(), clusters.inertia_, certificate,
            clusters.predict(X).tobytes(), many.cluster_centers_.tobytes(), mixture.covariances_.tobytes(),
            PCA(2).fit(X).components_.tobytes(),
        ]  # fmt: skip

    whole = fits()
    monkeypatch.setattr(row_set, "available_bytes", lambda: 1 << 16)
    monkeypatch.setattr(row_set, "BLOCK_BYTES", 1 << 12)
    monkeypatch.setattr("bmrm.unsupervised.clusters.cpu.BLOCK_BYTES", 1 << 12)
    blocks = []
    original = row_set.RowSet.blocks

    def counted(self, each, limit=None):
        found = list(original(self, each, limit))
        blocks.append(len(found))
        return iter(found)

    monkeypatch.setattr(row_set.RowSet, "blocks", counted)
    assert fits() == whole
    assert max(blocks) == 5  # of 2048 rows


def test_a_mapped_file_larger_than_the_memory_streams_through(tmp_path):
    """256 MB of a file with holes, in a process that may allocate 128 MiB; its pages are released."""
    file = np.lib.format.open_memmap(tmp_path / "X.npy", "w+", "<f4", (1 << 20, 64))
    file[::4096, 1] = 1.0
    file.flush()
    program = Path(__file__).with_name("mapped_estimators_program.py")
    done = subprocess.run(
        [sys.executable, program, tmp_path / "X.npy"], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")
    ones, zeros, first, second, variance, megabytes = map(float, done.stdout.split())
    assert (ones, zeros) == (256.0, (1 << 20) - 256.0)
    assert (first, second) == (0.0, 2.0**-12)
    np.testing.assert_allclose(variance, 2.0**-12 * (1 - 2.0**-12) + 1e-6, rtol=1e-9)
    assert megabytes < 128, done.stdout
