"""bmrm: iterative statistics whose answers come with a proof of how far they are from the exact ones.

Names are loaded on first use, so that commands that need few of them start fast.
"""

from bmrm.base.on_use import load_on_use
from bmrm.base.version import __version__ as __version__

TYPE_CHECKING = False  # `typing` takes longer to load than all of this
if TYPE_CHECKING:
    from bmrm import distributed as distributed
    from bmrm import errors as errors
    from bmrm import estimators as estimators
    from bmrm import graph as graph
    from bmrm import io as io
    from bmrm import losses as losses
    from bmrm import pairs as pairs
    from bmrm import petsc as petsc
    from bmrm import reductions as reductions
    from bmrm import unsupervised as unsupervised
    from bmrm.cli.versions import show_versions as show_versions
    from bmrm.graph import hits as hits
    from bmrm.graph import pagerank as pagerank
    from bmrm.graph import random_walk as random_walk
    from bmrm.io.dump import dump_svmlight as dump_svmlight
    from bmrm.io.svmlight import load_svmlight as load_svmlight
    from bmrm.linear import plots as plots
    from bmrm.linear.models import metrics as metrics
    from bmrm.linear.models.calibration import calibrate as calibrate
    from bmrm.linear.models.checkpoint import Checkpoint as Checkpoint
    from bmrm.linear.models.metrics import ProbabilityMetrics as ProbabilityMetrics
    from bmrm.linear.models.metrics import RankingMetrics as RankingMetrics
    from bmrm.linear.models.metrics import roc_auc as roc_auc
    from bmrm.linear.models.model import Model as Model
    from bmrm.linear.path import Path as Path
    from bmrm.linear.path import path as path
    from bmrm.linear.result import Result as Result
    from bmrm.linear.selection.cross_validation import cross_validate as cross_validate
    from bmrm.linear.selection.select import Selection as Selection
    from bmrm.linear.selection.select import select as select
    from bmrm.linear.solve import solve as solve
    from bmrm.linear.solvers.progress import Progress as Progress
    from bmrm.linear.storage import solve_file as solve_file
    from bmrm.matrix.dataset import Dataset as Dataset
    from bmrm.matrix.examples import Examples as Examples
    from bmrm.matrix.gpu.devices import gpu as gpu
    from bmrm.matrix.operator import Operator as Operator
    from bmrm.reductions.facility import reduction as reduction
    from bmrm.unsupervised import MDS as MDS
    from bmrm.unsupervised import PCA as PCA
    from bmrm.unsupervised import GaussianMixture as GaussianMixture
    from bmrm.unsupervised import KernelDensity as KernelDensity
    from bmrm.unsupervised import KMeans as KMeans
    from bmrm.unsupervised import NearestNeighbors as NearestNeighbors
    from bmrm.unsupervised import TruncatedSVD as TruncatedSVD

_HOMES = {
    # train
    "solve": "linear.solve",
    "solve_file": "linear.storage",
    "path": "linear.path",
    "Result": "linear.result",
    "Model": "linear.models.model",
    "Path": "linear.path",
    "Progress": "linear.solvers.progress",
    "Checkpoint": "linear.models.checkpoint",
    # data
    "Dataset": "matrix.dataset",
    "Examples": "matrix.examples",
    "Operator": "matrix.operator",
    "load_svmlight": "io.svmlight",
    "dump_svmlight": "io.dump",
    "gpu": "matrix.gpu.devices",
    # reduce
    "reduction": "reductions.facility",
    # rank nodes
    "hits": "graph",
    "pagerank": "graph",
    "random_walk": "graph",
    # find structure without labels
    "KMeans": "unsupervised",
    "GaussianMixture": "unsupervised",
    "PCA": "unsupervised",
    "TruncatedSVD": "unsupervised",
    "MDS": "unsupervised",
    "KernelDensity": "unsupervised",
    "NearestNeighbors": "unsupervised",
    # select
    "select": "linear.selection.select",
    "Selection": "linear.selection.select",
    "cross_validate": "linear.selection.cross_validation",
    # measure
    "calibrate": "linear.models.calibration",
    "ProbabilityMetrics": "linear.models.metrics",
    "RankingMetrics": "linear.models.metrics",
    "roc_auc": "linear.models.metrics",
    # report
    "show_versions": "cli.versions",
}
"""The module that holds each public name, below ``bmrm``."""

_PACKAGES = ("distributed", "errors", "estimators", "graph", "io", "losses", "pairs", "petsc", "reductions")
_MODULES = {
    **{name: name for name in (*_PACKAGES, "unsupervised")},
    "metrics": "linear.models.metrics",
    "plots": "linear.plots",
}
"""Public modules, and where they are, below ``bmrm``."""

_NEED_MORE = {"petsc", "estimators"}
"""Names that need an optional package: `from bmrm import *` works without it."""

__all__ = sorted({"__version__", *_HOMES, *_MODULES} - _NEED_MORE)

__getattr__, __dir__ = load_on_use(__name__, _HOMES, modules=_MODULES)
