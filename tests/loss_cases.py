"""The losses that tests run over: one case each, its formula in NumPy, and labels that it takes."""

import numpy as np

from bmrm import losses

FORMULAS = {
    "hinge": lambda u, y: np.maximum(0, 1 - y * u),
    "squared_hinge": lambda u, y: np.maximum(0, 1 - y * u) ** 2,
    "huber_hinge": lambda u, y, h: np.where(
        1 - y * u > h, 1 - y * u, np.where(1 - y * u < -h, 0, (1 - y * u + h) ** 2 / (4 * h))
    ),
    "logistic": lambda u, y: np.logaddexp(0, -y * u),
    "exponential": lambda u, y: np.exp(-y * u),
    "squared": lambda u, y: (u - y) ** 2 / 2,
    "absolute": lambda u, y: np.abs(u - y),
    "quantile": lambda u, y, tau: np.maximum(tau * (y - u), (tau - 1) * (y - u)),
    "epsilon_insensitive": lambda u, y, e: np.maximum(0, np.abs(u - y) - e),
    "squared_epsilon_insensitive": lambda u, y, e: np.maximum(0, np.abs(u - y) - e) ** 2,
    "huber": lambda u, y, c: np.where(np.abs(u - y) <= c, (u - y) ** 2 / 2, c * (np.abs(u - y) - c / 2)),
    "poisson": lambda u, y: np.exp(u) - y * u,
    "novelty": lambda u, y, nu: np.maximum(0, -u) / nu,
}

VALUES = {"tau": 0.3, "epsilon": 0.25, "h": 0.4, "delta": 0.7, "nu": 0.2}

CASES = [
    losses.get(n, **{p: v for p, v in VALUES.items() if n in losses.PARAMETERS[p].losses}) for n in FORMULAS
]


def labels_for(loss, rng, m):
    if loss.task == "binary":
        return rng.choice([-1.0, 1.0], m)
    return rng.poisson(2.0, m).astype(float) if loss.task == "count" else rng.normal(size=m)


def formula(loss, u, y):
    return FORMULAS[loss.name](u, y, *loss.params.values())
