"""LIBLINEAR's solver types: ``-s``, and what the other flags of its ``train`` mean with it.

LIBLINEAR minimises ``Omega(w) + C sum_i loss_i`` with Omega(w) = 1/2 |w|^2 or |w|_1; here it is ``lam
Omega(w) + mean_i loss_i``, so lam = 1/(C m) gives the same minimiser. Its one-class machine minimises ``1/2
|w|^2 + sum_i max(0, rho - x_i.w) - nu m rho``: nu m times our objective with the loss ``novelty`` and C = nu.

References
----------
Fan, Chang, Hsieh, Wang, Lin, LIBLINEAR, JMLR 9 (2008) 1871; its README, "train Usage".
"""

from __future__ import annotations

from typing import Any, NamedTuple

from bmrm.errors import ParameterError


class SolverType(NamedTuple):
    """What a solver type trains; ``kind`` is ``classes``, ``joint``, ``regression`` or ``novelty``."""

    loss: str
    reg: str
    kind: str


SOLVER_TYPES = {
    0: SolverType("logistic", "l2", "classes"),
    1: SolverType("squared_hinge", "l2", "classes"),
    2: SolverType("squared_hinge", "l2", "classes"),
    3: SolverType("hinge", "l2", "classes"),
    4: SolverType("multiclass", "l2", "joint"),
    5: SolverType("squared_hinge", "l1", "classes"),
    6: SolverType("logistic", "l1", "classes"),
    7: SolverType("logistic", "l2", "classes"),
    11: SolverType("squared_epsilon_insensitive", "l2", "regression"),
    12: SolverType("squared_epsilon_insensitive", "l2", "regression"),
    13: SolverType("epsilon_insensitive", "l2", "regression"),
    21: SolverType("novelty", "l2", "novelty"),
}
"""By LIBLINEAR's number. Types of one loss and penalty differ in LIBLINEAR's algorithm alone."""

DEFAULT_COST = 1.0
DEFAULT_NU = 0.5

MAX_SELECTED_COST = 1024.0
"""The largest C that LIBLINEAR's ``-C`` tries."""


def translate(given: dict[str, Any]) -> dict[str, Any]:
    """Replace ``-s`` and ``-R`` among the options given by what they mean here.

    - ``given``: options by the names of `TrainOptions`, and ``unpenalised_bias`` for ``-R``

    What LIBLINEAR ignores is left out: C and the bias of a one-class machine, class weights of regression.
    Raise `ParameterError` if LIBLINEAR refuses the combination too.

    Examples
    --------
    >>> translate({"solver_type": 6, "bias": 1.0, "unpenalised_bias": True, "loss_params": {}})
    {'solver_type': 6, 'loss_params': {}, 'intercept': True, 'loss': 'logistic', 'reg': 'l1', 'cost': 1.0}
    """
    options = dict(given)
    if options.pop("unpenalised_bias", False):
        if options.pop("bias", -1.0) <= 0.0:
            raise ParameterError("-R: found no -B 1, expected it too: without it there is no bias")
        options["intercept"] = True
    number = options.get("solver_type")
    if number is None:
        return options
    for name in ("loss", "reg"):
        if name in options:
            raise ParameterError(f"-s and --{name}: choose one")
    found = SOLVER_TYPES[number]
    options |= {"loss": found.loss, "reg": found.reg}
    if found.kind == "novelty":
        nu = options["loss_params"].get("nu", DEFAULT_NU)
        for name in ("bias", "intercept", "class_weight", "lam"):
            options.pop(name, None)
        options |= {"loss_params": {**options["loss_params"], "nu": nu}, "cost": nu}
    elif "lam" not in options and not options.get("select") and "lambdas" not in options:
        options.setdefault("cost", DEFAULT_COST)
    if found.kind == "regression":
        options.pop("class_weight", None)
    return options


def costs_from(smallest: float) -> list[float]:
    """Return the grid of ``-C -c C``: from that C on, doubled until LIBLINEAR's largest.

    Examples
    --------
    >>> costs_from(200.0)
    [200.0, 400.0, 800.0]
    """
    costs = [smallest]
    while 2.0 * costs[-1] <= MAX_SELECTED_COST:
        costs.append(2.0 * costs[-1])
    return costs
