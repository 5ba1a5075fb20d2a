"""The options of ``bmrm-train`` with their defaults."""

from __future__ import annotations

import dataclasses
from typing import Any

DEFAULT_FOLDS = 5
"""Number of folds of ``-C`` and ``--calibrate``."""


@dataclasses.dataclass(frozen=True)
class TrainOptions:
    """Every option of ``bmrm-train``, under its long name; ``lam`` is ``--lambda``."""

    data: str = ""
    model: str | None = None
    config: str | None = dataclasses.field(default=None, compare=False)
    solver_type: int | None = None
    loss: str = "hinge"
    loss_params: dict[str, float] = dataclasses.field(default_factory=dict)
    reg: str = "l2"
    l1_ratio: float | None = None
    positive: bool = False
    feature_lambda: str | None = None
    prior: str | None = None
    lam: float = 1e-4
    cost: float | None = None
    bias: float = -1.0
    intercept: bool = False
    costs: str | None = None
    class_weight: dict[str, float] | str | None = None
    sample_weight: str | None = None
    offset: str | None = None
    solver: str = "ocas"
    tol: float = 1e-3
    tol_kind: str = "rel"
    max_iter: int = 10_000
    max_time: float | None = None
    cuts_per_pass: int | str = "auto"
    max_cuts: int | None = None
    warm_start: str | None = None
    resume: str | None = None
    folds: int | None = None
    select: bool = False
    lambdas: tuple[float, ...] | None = None
    metric: str | None = None
    rule: str = "best"
    calibrate: str | None = None
    format: str = "auto"
    label: str | None = None
    labels: str | None = None
    text_labels: bool = False
    drop: tuple[str, ...] = ()
    n_features: int | None = None
    zero_based: str = "auto"
    cache: bool = False
    storage: str = "auto"
    device: str = "auto"
    gpu_mem: int | None = None
    cpu_share: float | str | None = None
    dtype: str = "auto"
    threads: int | None = None
    weights: str = "auto"
    dry_run: bool = False
    export: str | None = None
    plot: str | None = None
    checkpoint: str | None = None
    allow_unconverged: bool = False
    json: bool = False
    log_jsonl: str | None = None
    quiet: bool = False
    verbose: int = 0

    @property
    def validates(self) -> bool:
        """Whether there is a cross validation."""
        return self.select or self.folds is not None or self.calibrate is not None

    @property
    def trains(self) -> bool:
        """Whether a model is written."""
        return self.select or self.calibrate is not None or self.folds is None

    @property
    def has_grid(self) -> bool:
        """Whether lambda is chosen from a grid."""
        return self.select or self.lambdas is not None

    def as_dict(self) -> dict[str, Any]:
        """Return the options under their long names, for JSON."""
        options = dataclasses.asdict(self)
        options.update(options.pop("loss_params"))
        options["lambda"] = options.pop("lam")
        options["drop"] = list(self.drop)
        options["verbose"] = self.verbose if self.verbose > 1 else self.verbose == 1
        return {name.replace("_", "-"): value for name, value in options.items()}
