"""A loss of your own whose arrays stay on the GPU, with derivatives by PyTorch.

With `arrays="torch"` the function gets tensors that share the solver's memory: on the GPU if X is there,
otherwise on the host. Only a few sums cross the bus. The loss is the logistic loss, so that the built-in one
can check the result. Without PyTorch the program uses NumPy.
"""

import importlib.util

import numpy as np

import bmrm
from bmrm import gpu
from bmrm.losses import CallableLoss


def by_torch(u, y):
    """Return log(1 + exp(-y u)) and its derivative in u, by automatic differentiation."""
    import torch

    u.requires_grad_(True)
    values = torch.nn.functional.softplus(-y * u)
    (derivatives,) = torch.autograd.grad(values.sum(), u)
    return values, derivatives


def by_numpy(u, y):
    """Return the same from formulas."""
    return np.logaddexp(0.0, -y * u), -y / (1.0 + np.exp(y * u))


def main() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20_000, 50)).astype(np.float32)
    y = np.sign(X @ rng.standard_normal(50) + 2.0 * rng.standard_normal(20_000))
    device = "cpu" if gpu() is None else "cuda"
    function, arrays = (
        (by_torch, "torch") if importlib.util.find_spec("torch") is not None else (by_numpy, "numpy")
    )
    own = CallableLoss(function, name="own", task="binary", minimum=0.0, arrays=arrays)

    mine = bmrm.solve(X, y, loss=own, lam=1e-3, tol=1e-4, device=device)
    known = bmrm.solve(X, y, loss="logistic", lam=1e-3, tol=1e-4, device=device)
    print(f"own, {arrays} on {mine.device}: {mine.status}, J {mine.objective:.6f}, gap {mine.gap:.1e}")
    print(f"built in: {known.status}, J {known.objective:.6f}, gap {known.gap:.1e}")
    assert max(mine.lower_bound, known.lower_bound) <= min(mine.objective, known.objective)


if __name__ == "__main__":
    main()
