"""Certificates of k-means: lower bounds on the inertia of any k centres.

Spectrum. Let S be the scatter matrix of the rows about their mean. The inertia of k clusters is trace(S) -
trace(P G), where G is the Gram matrix of the centred rows and P a projection of rank k - 1; so it is at least
the sum of the eigenvalues of S but the k - 1 largest (Zha, Ding, Gu, He and Simon, NIPS 2001).

Samples. With D_ij = |x_i - x_j|^2 / 2, the inertia of a clustering is <D, Z>, where Z_ij = 1 / n_c if i and j
are in the same cluster c. These Z satisfy Z 1 = 1, trace Z = k, Z >= 0, and have the eigenvalues 0 and 1
(Peng and Wei, SIAM J. Optim. 18, 2007). For any y and any B >= 0,

    <D, Z> >= <D - B, Z> = sum y + <D - (y 1' + 1 y') / 2 - B, Z> >= sum y + sum of the k least eigenvalues

of that matrix. So every step of an ascent in y and B gives a valid bound, however far it is from the maximum.
A sample of s rows drawn independently by their weights has, on average, an optimum per row that is at most
that of all rows, since the best centres of all rows are a choice for the sample. If b_1 ... b_m are
nonnegative bounds per row of m samples and v the optimum per row of all, Markov's inequality gives P(all b_i
>= v / q) <= q^m, hence v >= q min b_i with confidence 1 - q^m (Mixon and Villar, arXiv:1710.00956).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmrm.base.arguments import positive_integer
from bmrm.base.blas import small_matrices
from bmrm.base.vectors import UNIT, Vector
from bmrm.distributed.reading import MAX_ABSOLUTE_VALUE
from bmrm.distributed.row_set import RowSet
from bmrm.matrix.gpu.placement import Placement
from bmrm.unsupervised.clusters.cpu import HostClusters
from bmrm.unsupervised.clusters.gpu import open_clusters
from bmrm.unsupervised.clusters.lloyd import run_lloyd
from bmrm.unsupervised.clusters.passes import ClusterPasses
from bmrm.unsupervised.clusters.seeding import choose_plus_plus
from bmrm.unsupervised.decomposition.gpu import scatter_about_mean
from bmrm.unsupervised.decomposition.scatter import MAX_GRAM_COLUMNS, Scatter
from bmrm.unsupervised.scales import LEAST, Scales, vanished

ASCENT_STEPS = 150
"""Steps of the ascent in a sample; the bound is within some percent of its limit then."""

SAMPLE_STARTS = 3
"""Clusterings of a sample, of which the best starts the ascent and sets its step lengths."""


@dataclass(frozen=True)
class ClusterCertificate:
    """How good a clustering is.

    Attributes
    ----------
    inertia : float
    lower_bound : float
        No choice of centres has a smaller inertia, with probability ``confidence``.
    confidence : float
        1 if the bound does not depend on chance.
    ratio : float
        ``inertia / lower_bound``, at least 1 up to rounding; infinite if the bound is 0.
    moves_left : int
        Rows that would lower the inertia if they alone moved to another cluster; 0 means optimal with respect
        to single moves, which is more than Lloyd's method guarantees.
    largest_gain : float
        By how much the best of these moves lowers the inertia.
    """

    inertia: float
    lower_bound: float
    confidence: float
    ratio: float
    moves_left: int
    largest_gain: float


def certify(
    rows: RowSet,
    centers: Vector,
    placement: Placement,
    scales: Scales,
    samples: int,
    size: int,
    confidence: float,
    random_state: Any,
) -> ClusterCertificate:
    """Bound the inertia of any centres and compare that of the given ones; see `KMeans.certificate`.

    - ``scales``: by which rows and centres were multiplied
    """
    k, bound, sure = len(centers), 0.0, 1.0
    if rows.shape[1] <= MAX_GRAM_COLUMNS:  # before the passes: the memory for both may not suffice
        reach = MAX_ABSOLUTE_VALUE if rows.on_gpu else 2.0 * rows.largest
        lost = vanished(rows.shape[0], rows.total_weight, reach)
        bound = bound_by_spectrum(scatter_about_mean(rows, placement), k, lost)
    passes, _ = open_clusters(rows, placement, k)
    found = passes.assign(centers)
    if samples and positive_integer("size", size) > k:
        rng = rows.first_of(random_state)
        sampled = bound_by_samples(passes, rows.total_weight, k, samples, size, confidence, rng)
        if sampled > bound:
            bound, sure = sampled, confidence
    moves, gain = passes.single_moves(centers, found.cluster_weights)
    inertia, (bound, _) = scales.known_inertia(found.inertia), scales.bounds(bound, bound)
    ratio = inertia / bound if bound > 0.0 else (1.0 if inertia == 0.0 else np.inf)
    return ClusterCertificate(inertia, bound, sure, ratio, moves, scales.inertia(gain))


def bound_by_spectrum(scatter: Scatter, k: int, lost: float = 0.0) -> float:
    """Return a lower bound that holds without chance, from the scatter matrix about the mean.

    - ``lost``: what underflow may take from an entry of the matrix
    """
    with small_matrices(len(scatter.matrix)):
        values = np.linalg.eigvalsh(scatter.matrix)
    rounding = scatter.error + len(values) * (UNIT * 8 * float(values[-1]) + lost)
    kept = values[: max(0, len(values) - (k - 1))] - rounding
    return max(0.0, float(kept.sum()))


def bound_by_samples(
    passes: ClusterPasses,
    total_weight: float,
    k: int,
    samples: int,
    size: int,
    confidence: float,
    rng: np.random.Generator,
) -> float:
    """Return a lower bound that holds with the given confidence."""
    bounds = []
    for _ in range(samples):
        passes.check_signals()
        rows = passes.take(passes.draw_by_weight(rng.random(size)))
        with small_matrices(size):
            bounds.append(max(0.0, bound_small(rows, k, rng)) / size)
    q = (1.0 - confidence) ** (1.0 / samples)
    return float(q * min(bounds) * total_weight)


def bound_small(rows: Vector, k: int, rng: np.random.Generator) -> float:
    """Return a lower bound on the inertia of k centres for some hundreds of rows, by supergradient ascent."""
    from scipy.linalg import eigh

    n = len(rows)
    rows = rows - rows.mean(axis=0)
    squares = np.einsum("if,if->i", rows, rows)
    D = np.maximum((squares[:, None] + squares) / 2 - rows @ rows.T, 0.0)
    target, labels = _best_clustering(rows, k, rng)
    if target <= 0.0:
        return 0.0
    y = 2.0 * _mean_distances(D, labels)
    B = np.zeros((n, n))
    best = -np.inf
    for _ in range(ASCENT_STEPS):
        M = D - (y[:, None] + y) / 2 - B
        values, vectors = eigh(M, subset_by_index=[0, k - 1])
        value = float(y.sum() + values.sum())
        # eigh is backward stable, and M is a sum of a few rounded numbers
        rounding = 8 * n * UNIT * k * float(np.sqrt(np.einsum("ij,ij->", M, M)))
        best = max(best, value - rounding - n * UNIT * float(np.abs(y).sum()))
        if best >= target * (1.0 - 1e-6):
            break
        P = vectors @ vectors.T
        slope_y = 1.0 - P.sum(axis=1)
        slope_B = np.where((B > 0.0) | (P < 0.0), -P, 0.0)
        length = (target - value) / (slope_y @ slope_y + np.einsum("ij,ij->", slope_B, slope_B) + 1e-300)
        y = y + length * slope_y
        B = np.maximum(B + length * slope_B, 0.0)
    # The distances of rounded rows differ from those of the rows by this much.
    return float(best - 16 * (rows.shape[1] + 4) * (UNIT * squares.sum() + n * LEAST))


def _best_clustering(rows: Vector, k: int, rng: np.random.Generator) -> tuple[float, NDArray[np.int32]]:
    passes = HostClusters(RowSet(rows, None, threads=1))
    runs = [
        run_lloyd(passes, rows[choose_plus_plus(passes, k, rng)], max_iter=100, tol=0.0, deadline=np.inf)
        for _ in range(SAMPLE_STARTS)
    ]
    best = min(runs, key=lambda run: run.inertia)
    return best.inertia, best.labels


def _mean_distances(D: Vector, labels: NDArray[np.int32]) -> Vector:
    """Return, for each row, the mean of D over the rows of its cluster."""
    same = labels[:, None] == labels
    return np.asarray(np.where(same, D, 0.0).sum(axis=1) / same.sum(axis=1))
