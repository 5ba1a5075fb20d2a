"""Write the tables of docs/migration.md.

python scripts/migration_tables.py

LIBLINEAR's table comes from the types that ``-s`` takes. The lists below have those of svm_perf and of the
package bmrm of R; the tests compare their risks with ours. Of each `Call` they run both sides, if its
program is installed.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from losses_tables import replace_tables, table

from bmrm.cli.solver_types import SOLVER_TYPES

PAGE = Path(__file__).parents[1] / "docs" / "migration.md"

KINDS = {
    "classes": "several classes: one against the rest",
    "joint": "several classes: jointly",
    "regression": "`-p` is 0.1 if not given",
    "novelty": "lambda = 1/(nu m); `-n` is 0.5 if not given; `-c`, `-B` and `-wi` do not count",
}


class Peer(NamedTuple):
    """A loss of another program, and what minimises the same.

    - ``theirs``, ``ours``: as they are called
    - ``lam``: a Python expression of C or LAMBDA and m
    - ``scale``: our margins are theirs times this expression of m
    """

    theirs: str
    ours: str
    lam: str
    scale: str = "1"


SVM_PERF = (
    Peer("-l 1 (F1)", "f_beta", "25 / (C * m**2)", "m / 50"),
    Peer("-l 2 (error rate)", "hinge", "1 / (100 * C)"),
    Peer("-l 3 (precision/recall break-even)", "prbep", "25 / (C * m**2)", "m / 50"),
    Peer("-l 4 (precision at k)", "precision_at_k", "25 / (C * m**2)", "m / 50"),
    Peer("-l 5 (recall at k)", "recall_at_k", "25 / (C * m**2)", "m / 50"),
    Peer("-l 10 (ROC area)", "roc_area", "1 / (100 * C)"),
)

R_BMRM = (
    Peer("hingeLoss", "hinge", "LAMBDA / m"),
    Peer("logisticLoss", "logistic", "LAMBDA / m"),
    Peer("lmsRegressionLoss", "squared", "LAMBDA / m"),
    Peer("ladRegressionLoss", "absolute", "LAMBDA / m"),
    Peer("quantileRegressionLoss, q", "quantile, tau = 1 - q", "LAMBDA / m"),
    Peer("epsilonInsensitiveRegressionLoss", "epsilon_insensitive", "LAMBDA / m"),
    Peer("softMarginVectorLoss", "multiclass", "LAMBDA / m"),
    Peer("rocLoss", "roc_area", "LAMBDA"),
    Peer("fbetaLoss", "f_beta", "LAMBDA / (4 * m**2)", "2 * m"),
    Peer("ordinalRegressionLoss", "pairwise, all rows in one group", "LAMBDA"),
)


class Call(NamedTuple):
    """A call of another program and ours with the same result, as Python expressions.

    ``tolerance`` is the relative difference that the test allows, ``note`` what else is to be known.
    """

    theirs: str
    ours: str
    note: str = ""
    tolerance: float = 1e-7


NETWORKX = (
    Call("list(networkx.pagerank(N, alpha=0.85, tol=1e-12).values())", "bmrm.pagerank(N, 0.85).scores"),
    Call(
        "list(networkx.pagerank(N, personalization={0: 1}, tol=1e-12).values())",
        "bmrm.pagerank(N, personalization={0: 1}).scores",
    ),
    Call("list(networkx.hits(N)[0].values())", "bmrm.graph.hits(N).hubs"),
    Call("list(networkx.hits(N)[1].values())", "bmrm.graph.hits(N).authorities"),
    Call("networkx.pagerank(N)[0]", "networkx.pagerank(N, backend='bmrm')[0]", "no other change", 1e-4),
)

IGRAPH = (
    Call("I.pagerank(damping=0.85)", "bmrm.pagerank(I, 0.85).scores"),
    Call("I.personalized_pagerank(reset_vertices=[0])", "bmrm.pagerank(I, personalization={0: 1}).scores"),
    Call(
        "numpy.divide(I.hub_score(), sum(I.hub_score()))",
        "bmrm.graph.hits(I).hubs",
        "the largest is 1 there, the sum is 1 here",
    ),
    Call("numpy.divide(I.authority_score(), sum(I.authority_score()))", "bmrm.graph.hits(I).authorities"),
)

SKLEARN = (
    Call(
        "sklearn.cluster.KMeans(k, init=x[:k], n_init=1).fit(x).labels_",
        "bmrm.KMeans(k, init=x[:k], n_init=1).fit(x).labels_",
        "each label is that of the nearest centre",
    ),
    Call(
        "sklearn.mixture.GaussianMixture(2, means_init=x[[0, -1]], tol=1e-10, max_iter=9999).fit(x).means_",
        "bmrm.GaussianMixture(2, means_init=x[[0, -1]], tol=1e-10, max_iter=9999).fit(x).means_",
        "`sample_weight` too",
        1e-2,
    ),
    Call(
        "sklearn.decomposition.PCA(2).fit(x).explained_variance_",
        "bmrm.PCA(2).fit(x).explained_variance_",
        "`singular_value_bounds_`: an interval for each",
    ),
    Call(
        "sklearn.decomposition.TruncatedSVD(2, algorithm='arpack').fit(x).singular_values_",
        "bmrm.TruncatedSVD(2).fit(x).singular_values_",
        "X may be sparse",
    ),
    Call(
        "sklearn.neighbors.NearestNeighbors(n_neighbors=k).fit(y).kneighbors(x)",
        "bmrm.NearestNeighbors(n_neighbors=k).fit(y).kneighbors(x)",
        "or `bmrm.pairs.nearest(k, x, y)`; `algorithm` and `leaf_size` change no result and are left out",
    ),
    Call(
        "sklearn.neighbors.NearestNeighbors(p=1).fit(y).kneighbors(x)",
        "bmrm.NearestNeighbors(metric='manhattan').fit(y).kneighbors(x)",
        "`p=2`: `euclidean`, `p=inf`: `chebyshev`",
    ),
    Call(
        "sklearn.neighbors.radius_neighbors_graph(x, r, mode='distance').sum()",
        "bmrm.pairs.within(r, x).sum()",
        "a sparse matrix",
    ),
    Call(
        "numpy.exp(sklearn.neighbors.KernelDensity(bandwidth=h).fit(y).score_samples(x))",
        "bmrm.pairs.kde(y, x, bandwidth=h).values",
        "or `bmrm.KernelDensity(bandwidth=h)`: [densities](kde.md#coming-from-scikit-learn-or-scipy)",
    ),
)

SCIPY = (
    Call(
        "numpy.histogram(scipy.spatial.distance.pdist(x), edges)[0]",
        "bmrm.pairs.histogram(x, edges=edges).counts",
        "without n² memory",
    ),
    Call(
        "numpy.histogram(scipy.spatial.distance.cdist(x, y), edges)[0]",
        "bmrm.pairs.histogram(x, y, edges=edges).counts",
    ),
    Call(
        "scipy.spatial.cKDTree(x, boxsize=1).count_neighbors(scipy.spatial.cKDTree(x, boxsize=1), r)",
        "2 * bmrm.pairs.count(bmrm.pairs.Points(x, box=1), radius=r) + len(x)",
        "pairs are ordered there, and a point is its own neighbour",
    ),
    Call(
        "scipy.spatial.cKDTree(y).query(x, k)",
        "bmrm.pairs.nearest(k, x, y)",
        "of its own points, each is its own first neighbour there",
    ),
    Call(
        "scipy.spatial.cKDTree(y, boxsize=1).query(x, k)",
        "bmrm.pairs.nearest(k, x, y, box=1)",
        "points need not be in the box",
    ),
    Call(
        "scipy.spatial.cKDTree(x).sparse_distance_matrix(scipy.spatial.cKDTree(y), r).toarray()",
        "bmrm.pairs.within(r, x, y).toarray()",
        "distances of 0 are stored",
    ),
    Call(
        "scipy.sparse.linalg.svds(x, 2)[1][::-1]",
        "bmrm.TruncatedSVD(2).fit(x).singular_values_",
    ),
)

CORRFUNC = (
    Call(
        "Corrfunc.theory.DD(1, 1, edges, *x.T, boxsize=1)['npairs']",
        "bmrm.pairs.histogram(bmrm.pairs.Points(x, box=1), edges=edges, closed='left').ordered",
        "a first edge of 0 counts n pairs of a point with itself there",
    ),
)

KEOPS = (
    Call(
        "((X_i - Y_j) ** 2).sum(-1).argKmin(k, dim=1)",
        "bmrm.pairs.nearest(k, x, y)[1]",
    ),
    Call(
        "((X_i - Y_j) ** 2).sum(-1).Kmin(k, dim=1)",
        "bmrm.pairs.nearest(k, x, y, metric='sqeuclidean')[0]",
    ),
    Call(
        "(-((X_i - Y_j) ** 2).sum(-1) / (2 * h**2)).exp().sum(1)[:, 0]",
        "bmrm.pairs.kde(y, x, bandwidth=h).values * len(y) * (2 * numpy.pi * h**2) ** 1.5",
        "any other formula: [functions of two points](pairs-functions.md)",
    ),
)

FAISS = (
    Call("F.search(x.astype('f4'), k)[1]", "bmrm.pairs.nearest(k, x, y)[1]", "F is an `IndexFlatL2` with y"),
    Call(
        "F.search(x.astype('f4'), k)[0]",
        "bmrm.pairs.nearest(k, x, y, metric='sqeuclidean')[0]",
        "in float64; fewer than k points are an error, not the index -1",
        1e-3,
    ),
    Call(
        "len(F.range_search(x.astype('f4'), r * r)[2])",
        "bmrm.pairs.within(r, x, y).nnz",
        "`IndexFlatIP` of rows of length 1 is 1 minus the distance of `metric='cosine'`",
    ),
)


def liblinear_table() -> str:
    """Return the table of solver types."""
    rows = [
        [f"`-s {number}`", f"`--loss {found.loss} --reg {found.reg}`", KINDS[found.kind]]
        for number, found in SOLVER_TYPES.items()
    ]
    return table(["LIBLINEAR", "the same here", "note"], rows)


def peer_table(program: str, peers: tuple[Peer, ...]) -> str:
    """Return the table of a program's losses."""
    rows = [
        [_named(peer.theirs), _named(peer.ours), _formula(peer.lam), _formula(f"{peer.scale} * u")]
        for peer in peers
    ]
    return table([program, "loss here", "lambda", "margins here"], rows)


def call_list(calls: tuple[Call, ...]) -> str:
    """Return the list of a program's calls, each above ours: beside it most pages have no room."""
    items = [
        [f"- `{call.theirs}`", f"  `{call.ours}`", *([f"  {call.note}"] * bool(call.note))] for call in calls
    ]
    return "\n".join("\\\n".join(lines) for lines in items) + "\n"


def _named(text: str) -> str:
    """Mark what is typed as code, but not the words after it."""
    name = re.split(r",| \(", text)[0]
    return f"`{name}`{text[len(name) :]}"


def _formula(text: str) -> str:
    return f"`{text.replace('**2', '²').replace('1 * ', '').replace(' * ', ' ')}`"


TABLES = {
    "liblinear": liblinear_table,
    "svm_perf": lambda: peer_table("svm_perf", SVM_PERF),
    "r": lambda: peer_table("R", R_BMRM),
    "networkx": lambda: call_list(NETWORKX),
    "igraph": lambda: call_list(IGRAPH),
    "sklearn": lambda: call_list(SKLEARN),
    "scipy": lambda: call_list(SCIPY),
    "corrfunc": lambda: call_list(CORRFUNC),
    "keops": lambda: call_list(KEOPS),
    "faiss": lambda: call_list(FAISS),
}


def page(text: str) -> str:
    """Return the page with new tables."""
    return replace_tables(text, TABLES, PAGE)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
    print(f"written to {PAGE}")
