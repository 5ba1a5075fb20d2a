"""Fit estimators to the rows of several ranks, and compare with all rows on one; for the test named so."""

import sys

import numpy as np
import scipy.sparse
from fitted_attributes import CLUSTERS, COMPONENTS, MIXTURE
from mpi4py import MPI
from turns import by_one

from bmrm import MDS, PCA, GaussianMixture, KMeans, TruncatedSVD
from bmrm.distributed._parts import part_rows
from bmrm.errors import BmrmError
from bmrm.unsupervised.decomposition import scatter

scatter.BLOCK_VALUES = 4096 * 4  # parts of 4096 rows

comm = MPI.COMM_WORLD
rng = np.random.default_rng(0)
ROWS = 3 * 4096 + 100
assert part_rows(ROWS) == 2048
X = 3 * rng.normal(size=(5, 4))[rng.integers(0, 5, ROWS)] + rng.normal(size=(ROWS, 4))
weights = rng.integers(0, 3, ROWS).astype(float)
whole_parts = 4096 * np.linspace(0, 3, comm.size + 1).astype(int)
whole_parts[-1] = ROWS
anywhere = np.linspace(0, ROWS, comm.size + 1).astype(int)
sparse = scipy.sparse.csr_array(X * (X > 1))


def attributes_alone(fit, attributes):
    """Return some attributes of an estimator that one rank fits."""
    return by_one(comm, lambda: [np.asarray(getattr(each, name)) for each in [fit()] for name in attributes])


def compare(name, make, data, weights, attributes, here, *, same_bits):
    """Fit with rank r's rows from here[r], and without ranks."""
    mine = slice(here[comm.rank], here[comm.rank + 1])
    w = None if weights is None else weights[mine]
    found = make().fit(data[mine], sample_weight=w, comm=comm)
    alone = attributes_alone(lambda: make().fit(data, sample_weight=weights), attributes)
    for attribute, whole in zip(attributes, alone, strict=True):
        one = np.asarray(getattr(found, attribute))
        if attribute == "labels_":
            np.testing.assert_array_equal(one, whole[mine], err_msg=name)
            continue
        if same_bits:
            assert one.tobytes() == whole.tobytes(), (name, attribute, one, whole)
        else:
            np.testing.assert_allclose(one, whole, rtol=1e-9, atol=1e-9, err_msg=f"{name} {attribute}")
        assert len(set(comm.allgather(one.tobytes()))) == 1, (name, attribute)
    return found


def start(k):
    return np.asarray(X[:k] + 0.1)


for here, exact, w in (
    (whole_parts, True, None),
    (whole_parts, True, weights),
    (anywhere, comm.size == 1, weights),
):
    # from the same start; k-means++ of other panels of rows may draw others
    options = {"init": "k-means++" if exact else start(5), "random_state": 0, "tol": 0.0, "max_iter": 8}
    for data in (X, X.astype(np.float32), sparse):
        model = compare("KMeans", lambda o=options: KMeans(5, **o), data, w, CLUSTERS, here, same_bits=exact)
    far = None if w is None else np.ldexp(w, 600)
    tiny = {**options, "init": "random" if exact else np.ldexp(start(5), -700), "n_init": 1}
    for data in (np.ldexp(X, -700), sparse * 2.0**-700):
        compare("tiny KMeans", lambda o=tiny: KMeans(5, **o), data, far, CLUSTERS, here, same_bits=exact)
    for kind in ("full", "diag"):
        first = "kmeans" if exact else "random_from_data"
        compare(
            "GaussianMixture",
            lambda kind=kind, first=first: GaussianMixture(
                3, covariance_type=kind, init_params=first, random_state=0, max_iter=3
            ),
            X, w, MIXTURE, here, same_bits=exact,
        )  # fmt: skip
    compare("PCA", lambda: PCA(2), X, w, COMPONENTS, here, same_bits=exact)
    compare("PCA, sparse", lambda: PCA(2), sparse, w, COMPONENTS, here, same_bits=comm.size == 1)
    compare(
        "Lanczos", lambda: TruncatedSVD(2, svd_solver="lanczos", random_state=0), sparse, w,
        COMPONENTS[:2], here, same_bits=comm.size == 1,
    )  # fmt: skip
compare(
    "random starts",
    lambda: KMeans(4, init="random", n_init=2, random_state=1, max_iter=5),
    X, weights, CLUSTERS, whole_parts, same_bits=True,
)  # fmt: skip

# Rows of k-means|| depend on their numbers only, wherever ranks begin.
for here, exact in ((whole_parts, True), (anywhere, comm.size == 1)):
    for data in (X, sparse):
        compare(
            "k-means||",
            lambda: KMeans(9, init="k-means||", random_state=0, tol=0.0, max_iter=8),
            data, weights, CLUSTERS, here, same_bits=exact,
        )  # fmt: skip

# Two centres are far from all rows: both get one of the farthest rows of all ranks.
far = np.concatenate([start(3), [[1e3] * 4, [-1e3] * 4]])
compare(
    "empty clusters",
    lambda: KMeans(5, init=far, max_iter=3),
    X,
    weights,
    CLUSTERS,
    whole_parts,
    same_bits=True,
)
mine = slice(whole_parts[comm.rank], whole_parts[comm.rank + 1])
proof = model.certificate(sparse[mine], weights[mine], comm=comm, samples=2, size=40)
alone = by_one(comm, lambda: model.certificate(sparse, weights, samples=2, size=40))
assert (proof.moves_left, proof.largest_gain) == (alone.moves_left, alone.largest_gain)
assert np.isclose(proof.lower_bound, alone.lower_bound, rtol=1e-9)

# Pairs of points are shared whatever rows a rank has; dissimilarities are in a file that each rank maps.
POINTS = 800
places = X[:POINTS]
D = np.sqrt(((places[:, None] - places[None]) ** 2).sum(axis=2))
if comm.rank == 0:
    np.save("D.npy", D)
    np.save("gaps.npy", np.where(D > 6.0, np.nan, D).astype(np.float32))
comm.Barrier()
mine = slice(*(POINTS * np.array([comm.rank, comm.rank + 1]) // comm.size))
mapped = {name: np.load(f"{name}.npy", mmap_mode="r") for name in ("D", "gaps")}
scaled = "embedding_", "raw_stress_", "stress_error_", "gradient_norm_", "n_iter_", "history_"
for words, here, alone, w in (
    ({"store": "features"}, places[mine], places, None),
    ({"dtype": "float32", "store": "features", "init": "random"}, places[mine], places, None),
    ({"metric": "precomputed"}, mapped["D"], D, None),
    ({"metric": "precomputed", "init": "landmark", "dtype": "float32"}, mapped["gaps"], mapped["gaps"], None),
    ({"metric": "precomputed", "n_init": 2}, mapped["D"], D, 1.0 / (1.0 + D)),
    ({"metric": "precomputed"}, D[:20, :20], D[:20, :20], None),  # one part: the other ranks have nothing
):
    options = {"random_state": 0, "max_iter": 4, "eps": 0.0} | words
    found = MDS(2, **options).fit(here, weights=w, comm=comm)
    whole = attributes_alone(lambda: MDS(2, **options).fit(alone, weights=w), scaled)  # noqa: B023 (at once)
    for attribute, other in zip(scaled, whole, strict=True):
        one = np.asarray(getattr(found, attribute))
        assert one.tobytes() == other.tobytes(), (words, attribute, one, other)
spoiled = D.copy()
spoiled[700, 710] = -1.0  # which one rank finds

mine = slice(whole_parts[comm.rank], whole_parts[comm.rank + 1])
last = comm.size - 1  # what is wrong on one rank is an error of all
some = X[mine].copy()
if comm.rank == last:
    some[0, 0] = np.nan


def init(X, k, rng):
    return X[:k]


wrong = [
    lambda: KMeans(3).fit(some, comm=comm),
    lambda: KMeans(3 if comm.rank == last else 2).fit(X[mine], comm=comm),
    lambda: PCA(2).fit(X[mine][:, : 4 if comm.rank == last else 3], comm=comm),
    lambda: KMeans(ROWS + 1).fit(X[mine], comm=comm),
    lambda: GaussianMixture(2).fit(X[mine], sample_weight=np.zeros(len(some)), comm=comm),
    lambda: KMeans(2, init=init).fit(X[mine], comm=comm),
    lambda: MDS(2, metric="precomputed").fit(spoiled, comm=comm),
    lambda: MDS(2, metric="precomputed").fit(D[: 800 - comm.rank, : 800 - comm.rank], comm=comm),
    lambda: MDS(2, metric_mds=False).fit(places, comm=comm),
]
for each in wrong if comm.size > 1 else ():
    try:
        each()
    except BmrmError as error:
        print(f"failed: {error}\n", end="")
print(f"rank {comm.rank} done\n", end="")
sys.stdout.flush()
