"""bmrm: certified training of regularised linear models by bundle methods.

Names are loaded on first use, so that commands that need few of them start fast.
"""

from bmrm.base.version import __version__ as __version__

TYPE_CHECKING = False  # `typing` takes longer to load than all of this
if TYPE_CHECKING:
    from typing import Any

    from bmrm import errors as errors
    from bmrm import estimators as estimators
    from bmrm import io as io
    from bmrm import losses as losses
    from bmrm import pairs as pairs
    from bmrm import petsc as petsc
    from bmrm.cli.versions import show_versions as show_versions
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
    from bmrm.linear.regularizers import RADIUS as RADIUS
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
    from bmrm.matrix.gpu.work import WORTH_A_GPU as WORTH_A_GPU
    from bmrm.matrix.operator import Operator as Operator
    from bmrm.matrix.upload import Landing as Landing
    from bmrm.reductions.facility import reduction as reduction
    from bmrm.unsupervised.clusters.estimator import KMeans as KMeans
    from bmrm.unsupervised.decomposition.estimator import PCA as PCA
    from bmrm.unsupervised.decomposition.estimator import TruncatedSVD as TruncatedSVD
    from bmrm.unsupervised.manifold.estimator import MDS as MDS
    from bmrm.unsupervised.mixtures.estimator import GaussianMixture as GaussianMixture
    from bmrm.unsupervised.neighbours.kernel_density import KernelDensity as KernelDensity
    from bmrm.unsupervised.neighbours.nearest import NearestNeighbors as NearestNeighbors

_MODULES = {
    # train
    "solve": "linear.solve",
    "solve_file": "linear.storage",
    "losses": "",
    "petsc": "",
    "estimators": "",
    "path": "linear.path",
    "Result": "linear.result",
    "Model": "linear.models.model",
    "Path": "linear.path",
    "Progress": "linear.solvers.progress",
    "Checkpoint": "linear.models.checkpoint",
    # data
    "Dataset": "matrix.dataset",
    "Examples": "matrix.examples",
    "Landing": "matrix.upload",
    "Operator": "matrix.operator",
    "load_svmlight": "io.svmlight",
    "dump_svmlight": "io.dump",
    "io": "",
    "gpu": "matrix.gpu.devices",
    "WORTH_A_GPU": "matrix.gpu.work",
    # reduce
    "reduction": "reductions.facility",
    # count pairs of points
    "pairs": "",
    # find structure without labels
    "KMeans": "unsupervised.clusters.estimator",
    "GaussianMixture": "unsupervised.mixtures.estimator",
    "PCA": "unsupervised.decomposition.estimator",
    "TruncatedSVD": "unsupervised.decomposition.estimator",
    "MDS": "unsupervised.manifold.estimator",
    "KernelDensity": "unsupervised.neighbours.kernel_density",
    "NearestNeighbors": "unsupervised.neighbours.nearest",
    # select
    "select": "linear.selection.select",
    "Selection": "linear.selection.select",
    "cross_validate": "linear.selection.cross_validation",
    # measure
    "calibrate": "linear.models.calibration",
    "metrics": "linear.models",
    "plots": "linear",
    "ProbabilityMetrics": "linear.models.metrics",
    "RankingMetrics": "linear.models.metrics",
    "roc_auc": "linear.models.metrics",
    "RADIUS": "linear.regularizers",
    # report
    "errors": "",
    "show_versions": "cli.versions",
}
"""The module that holds each public name, below ``bmrm``."""

_NEED_MORE = {"petsc", "estimators"}
"""Names that need an optional package: `from bmrm import *` works without it."""

__all__ = sorted({"__version__", *_MODULES} - _NEED_MORE)


def __getattr__(name: str) -> "Any":
    if name not in _MODULES:
        raise AttributeError(f"module 'bmrm' has no attribute {name!r}")
    from importlib import import_module

    home = import_module(f"bmrm.{_MODULES[name]}".removesuffix("."))
    value = home.__dict__.get(name) or import_module(f"{home.__name__}.{name}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*_NEED_MORE, *__all__})
