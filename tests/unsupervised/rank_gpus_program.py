"""Fit estimators to the rows of several ranks on GPUs, and compare with all rows on one; for the tests.

The argument is the number of emulated devices (emulated.py).
"""

import sys
import warnings

import numpy as np
import scipy.sparse
from fitted_attributes import CLUSTERS, COMPONENTS, MIXTURE
from mpi4py import MPI
from turns import by_one

from bmrm import MDS, PCA, GaussianMixture, KMeans
from bmrm.distributed import blocks
from bmrm.errors import BmrmError, DeviceMemoryError
from bmrm.matrix.gpu import placement
from bmrm.matrix.gpu.devices import import_cuda
from bmrm.matrix.gpu.placement import Placement
from bmrm.unsupervised.clusters import gpu as clusters
from bmrm.unsupervised.decomposition import gpu as gram

comm = MPI.COMM_WORLD
last = comm.rank == comm.size - 1


if sys.argv[1:]:
    import emulated

    emulated.start(int(sys.argv[1]))
    rows, block = 1_203, 1 << 10
else:
    rows, block = 200_003, 1 << 14
gpus = import_cuda().device_count()

rng = np.random.default_rng(0)
X = 3 * rng.normal(size=(5, 4))[rng.integers(0, 5, rows)] + rng.normal(size=(rows, 4))
weights = rng.integers(0, 3, rows).astype(float)
bounds = np.linspace(0, rows, comm.size + 1).astype(int)
mine = slice(bounds[comm.rank], bounds[comm.rank + 1])
sparse = scipy.sparse.csr_array(X * (X > 1))


def attributes_alone(fit, attributes):
    """Return some attributes of an estimator that one rank fits."""
    return by_one(comm, lambda: [np.asarray(getattr(each, name)) for each in [fit()] for name in attributes])


def compare(name, make, data, weights, attributes):
    """Fit with and without ranks; results of ranks are alike, repeatable, and near those of one process."""
    w = None if weights is None else weights[mine]
    found, again = (make("cuda").fit(data[mine], sample_weight=w, comm=comm) for _ in range(2))
    alone = attributes_alone(lambda: make("cpu").fit(data, sample_weight=weights), attributes)
    assert found.placement_.device == f"cuda:{comm.rank % gpus}", found.placement_
    for attribute, whole in zip(attributes, alone, strict=True):
        one = np.asarray(getattr(found, attribute))
        assert one.tobytes() == np.asarray(getattr(again, attribute)).tobytes(), (name, attribute)
        if attribute == "labels_":
            np.testing.assert_array_equal(one, whole[mine], err_msg=name)
            continue
        np.testing.assert_allclose(one, whole, rtol=1e-9, atol=1e-9, err_msg=f"{name} {attribute}")
        assert len(set(comm.allgather(one.tobytes()))) == 1, (name, attribute)
    return found


start = X[:5] + 0.1
far = np.concatenate([start[:3], [[1e3] * 4, [-1e3] * 4]])  # two centres get the farthest rows of all ranks
for w, data in ((None, X.astype(np.float32)), (weights, X), (weights, sparse)):
    for init in (start, far):
        options = {"init": init, "tol": 0.0, "max_iter": 4}
        model = compare("KMeans", lambda d, o=options: KMeans(5, device=d, **o), data, w, CLUSTERS)
    options = {"init": "k-means||", "random_state": 0, "tol": 0.0, "max_iter": 4}
    compare("k-means||", lambda d, o=options: KMeans(9, device=d, **o), data, w, CLUSTERS)
for w, kind in ((None, "full"), (weights, "diag")):
    options = {"covariance_type": kind, "init_params": "random_from_data", "random_state": 0, "max_iter": 2}
    compare("GaussianMixture", lambda d, o=options: GaussianMixture(3, device=d, **o), X, w, MIXTURE)
    compare("PCA", lambda d: PCA(2, device=d), X + 10.0, w, COMPONENTS)

proof = model.certificate(sparse[mine], weights[mine], comm=comm, samples=2, size=40)
alone = KMeans.of_centers(model.cluster_centers_, device="cpu").certificate(sparse, weights, samples=0)
assert proof.moves_left == alone.moves_left
assert np.isclose(proof.largest_gain, alone.largest_gain, rtol=1e-9)

# k-means++ draws rows of all ranks, and the start of a mixture by k-means does too.
seeded = [KMeans(5, random_state=0, device="cuda").fit(X[mine], comm=comm) for _ in range(2)]
assert seeded[0].cluster_centers_.tobytes() == seeded[1].cluster_centers_.tobytes()
best = KMeans(5, random_state=0, n_init=3, device="cpu").fit(X).inertia_
assert seeded[0].inertia_ < 2.0 * best
mixture = GaussianMixture(3, random_state=0, max_iter=2, device="cuda").fit(X[mine], comm=comm)
assert len(set(comm.allgather(mixture.means_.tobytes()))) == 1

# If each rank begins with a block, the bits are those of one process.
blocks.BLOCK_BYTES = block * 4 * 8
blocks.room_for_blocks = gram.room_for_blocks = lambda *of: 1 << 40
starts = block * np.linspace(0, rows // block + 1, comm.size + 1).astype(int)
whole_blocks = slice(starts[comm.rank], min(rows, starts[comm.rank + 1]))
for make, data, names in (
    (lambda: KMeans(5, init=start, tol=0.0, max_iter=3, device="cuda"), X, CLUSTERS),
    (lambda: KMeans(5, init=start, tol=0.0, max_iter=3, device="cuda"), sparse, CLUSTERS),
    (lambda: GaussianMixture(2, init_params="random_from_data", random_state=0, device="cuda"), X, MIXTURE),
    (lambda: PCA(2, device="cuda"), X, COMPONENTS),
):
    found = make().fit(data[whole_blocks], sample_weight=weights[whole_blocks], comm=comm)
    alone = attributes_alone(lambda: make().fit(data, sample_weight=weights), names)  # noqa: B023 (at once)
    for name, whole in zip(names, alone, strict=True):
        one = np.asarray(getattr(found, name))
        whole = whole[whole_blocks] if name == "labels_" else whole
        assert one.tobytes() == whole.tobytes(), name

# Tiles of pairs are added in their order, whoever has them: the bits of one GPU, always.
points = X[: 150 if sys.argv[1:] else 6_000]
apart = np.sqrt(((points[:, None] - points[None]) ** 2).sum(axis=2))
share = slice(*(len(points) * np.array([comm.rank, comm.rank + 1]) // comm.size))
given = {"metric": "precomputed", "init": "landmark"}
for words, here, alone, w in (
    ({"store": "features"}, points[share], points, None),
    ({"store": "half", "dtype": "float32"}, points[share], points, None),
    (given, np.where(apart > 7.0, np.nan, apart), None, 1.0 / (1.0 + apart)),
    (given, apart[:20, :20], None, None),  # one strip: the other ranks have nothing
    (given | {"dtype": "float32"}, apart[np.triu_indices(len(points), 1)].astype(np.float32), None, None),
):
    options = {"random_state": 0, "max_iter": 3, "eps": 0.0, "device": "cuda"} | words
    found = MDS(2, **options).fit(here, weights=w, comm=comm)
    names = ("embedding_", "raw_stress_", "history_", "gradient_norm_")
    data = here if alone is None else alone
    whole = attributes_alone(lambda: MDS(2, **options).fit(data, weights=w), names)  # noqa: B023 (at once)
    assert found.placement_.device == f"cuda:{comm.rank % gpus}"
    for name, other in zip(names, whole, strict=True):
        one = np.asarray(getattr(found, name))
        assert one.tobytes() == other.tobytes(), (words, name, one, other)

# With "auto" all ranks use GPUs, or none, and say why.
place = placement._place_alone
placement._place_alone = lambda *a: Placement(None if last else 0, f"reason {comm.rank}", chosen=True)
chosen = KMeans(5, random_state=0, max_iter=2).fit(X[mine], comm=comm)
expected = f"as on rank {comm.size - 1}: reason {comm.size - 1}"
assert (chosen.placement_.device, chosen.placement_.reason) == ("cpu", expected)
placement._place_alone = lambda *a: Placement(0, "for this test", chosen=True)
assert KMeans(5, max_iter=2).fit(X[mine], comm=comm).placement_.device == f"cuda:{comm.rank % gpus}"


class Full(clusters.DeviceClusters):
    """Rows that do not fit on the last rank's GPU."""

    def __init__(self, rows, gpu, clusters, **more):
        with rows.together():
            if last:
                raise DeviceMemoryError("the GPU is full")
        super().__init__(rows, gpu, clusters)


whole, clusters.DeviceClusters = clusters.DeviceClusters, Full
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    chosen = KMeans(5, max_iter=2).fit(X[mine], comm=comm)
assert (chosen.placement_.device, chosen.placement_.reason) == ("cpu", "the GPU is full")
assert "using the CPU" in str(caught[0].message)
placement._place_alone = place


def failing_assign(self, centers, *, want_sums=True):
    with self.rows.together():
        if last:
            raise BmrmError("the GPU of the last rank fails")
    raise AssertionError("the others go on")


def with_a_failing_pass():
    clusters.DeviceClusters = whole
    passes = clusters.DeviceClusters.assign
    clusters.DeviceClusters.assign = failing_assign
    try:
        KMeans(5, device="cuda").fit(X[mine], comm=comm)
    finally:
        clusters.DeviceClusters.assign = passes


wrong = [
    lambda: KMeans(5, device="cuda").fit(X[mine], comm=comm),  # too full
    lambda: KMeans(2, device="cpu" if last else "cuda").fit(X[mine], comm=comm),
    lambda: KMeans(2, device="cuda").fit((sparse if last else X)[mine], comm=comm),
    lambda: PCA(2, svd_solver="lanczos", device="cuda").fit(X[mine], comm=comm),
    with_a_failing_pass,
]
for each in wrong:
    try:
        each()
    except BmrmError as error:
        print(f"failed: {error}\n", end="")
print(f"rank {comm.rank} done\n", end="")
sys.stdout.flush()
