"""Estimators that need no labels: clusters, mixtures, decompositions, scaling, and neighbours.

Names are loaded on first use.
"""

from bmrm.base.on_use import load_on_use

TYPE_CHECKING = False  # `typing` takes longer to load than all of this
if TYPE_CHECKING:
    from bmrm.unsupervised.clusters.estimator import KMeans as KMeans
    from bmrm.unsupervised.decomposition.estimator import PCA as PCA
    from bmrm.unsupervised.decomposition.estimator import TruncatedSVD as TruncatedSVD
    from bmrm.unsupervised.manifold.estimator import MDS as MDS
    from bmrm.unsupervised.mixtures.estimator import GaussianMixture as GaussianMixture
    from bmrm.unsupervised.neighbours.kernel_density import KernelDensity as KernelDensity
    from bmrm.unsupervised.neighbours.nearest import NearestNeighbors as NearestNeighbors

_HOMES = {
    "KMeans": "clusters.estimator",
    "GaussianMixture": "mixtures.estimator",
    "PCA": "decomposition.estimator",
    "TruncatedSVD": "decomposition.estimator",
    "MDS": "manifold.estimator",
    "KernelDensity": "neighbours.kernel_density",
    "NearestNeighbors": "neighbours.nearest",
}
"""The module of each public name, below ``bmrm.unsupervised``."""

__all__ = sorted(_HOMES)

__getattr__, __dir__ = load_on_use(__name__, _HOMES)
