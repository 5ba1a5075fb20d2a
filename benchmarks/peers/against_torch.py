"""Logistic regression on one GPU against PyTorch's L-BFGS, both stopped at the same true suboptimality.

    python -m benchmarks.peers.against_torch [--sets reuters,covertype] [--out FILE]

The peer holds X and its transpose as sparse CSR tensors (float32, so that it gathers like ours), computes J
and its gradient by two products, and runs torch.optim.LBFGS with the strong Wolfe search and a history of
100. Its time counts until J is within 1e-4, relative, of the best lower bound that ours proves at a tighter
tolerance, at most 20 s; ours counts until its certificate says so. Both have the matrix in place and have run
once before.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import torch

import bmrm
from benchmarks.common import report
from benchmarks.gpu.thesis_ch5 import LAM, problem
from bmrm.io import Csr

TOL = 1e-4
MOST_SECONDS = 20.0


SECTIONS = """
## Against PyTorch on the same GPU

{gpu}, PyTorch {torch}. Logistic regression at lam {lam:g}: passes and time until our certificate says
{tol:g}, relative; evaluations and time of `torch.optim.LBFGS` (strong Wolfe search, history of 100) until
its objective is as close to the optimum, or for 20 s. The excess is over the best known lower bound.

[rows]
set = {set} | bmrm = {bmrm[passes]}, {bmrm[seconds]:.1f ms} ms |
L-BFGS = {torch[evaluations]}, {torch[seconds]:.1f ms} ms | excess bmrm = {bmrm[excess]:.1e} |
excess L-BFGS = {torch[excess]:.1e}
"""


def ours(X: Csr, y: np.ndarray) -> tuple[dict[str, Any], float]:
    """Return the seconds to a certified relative gap, and a sharper bound on the optimum."""
    data = bmrm.Dataset(X, y, device="cuda")
    options: dict[str, Any] = {"loss": "logistic", "lam": LAM}
    bmrm.solve(data, tol=TOL, **options)
    result = bmrm.solve(data, tol=TOL, **options)
    sharp = bmrm.solve(data, tol=1e-5, **options)
    found = {
        "seconds": result.timings["total"],
        "passes": result.n_iter,
        "objective": result.objective,
        "gap": result.gap,
    }
    return found, sharp.lower_bound


def lbfgs(X: Csr, y: np.ndarray, target: float) -> dict[str, Any]:
    """Return the seconds of PyTorch's L-BFGS until J is at most `target`."""
    A = X.to_scipy(np.float32)
    tensors = []
    for M in (A, A.T.tocsr()):
        parts = (torch.from_numpy(np.asarray(p)).cuda() for p in (M.indptr, M.indices, M.data))
        tensors.append(torch.sparse_csr_tensor(*parts, size=M.shape))
    X1, X2 = tensors
    labels = torch.from_numpy(y).float().cuda()

    def run() -> dict[str, Any]:
        w = torch.zeros(X.shape[1], device="cuda", requires_grad=True)
        optimizer = torch.optim.LBFGS([w], max_iter=1, line_search_fn="strong_wolfe", history_size=100)
        evaluations = 0
        J = float("inf")

        def closure() -> torch.Tensor:
            nonlocal evaluations
            evaluations += 1
            with torch.no_grad():
                margins = labels * (X1 @ w)
                value = torch.nn.functional.softplus(-margins).mean() + 0.5 * LAM * w @ w
                r = -labels * torch.sigmoid(-margins) / len(labels)
                w.grad = X2 @ r + LAM * w
            return value

        torch.cuda.synchronize()
        start = time.perf_counter()
        while target < J and time.perf_counter() - start < MOST_SECONDS:
            # The value that a step returns is the one it began with.
            J = float(optimizer.step(closure))
        torch.cuda.synchronize()
        return {"seconds": time.perf_counter() - start, "evaluations": evaluations, "objective": J}

    run()
    return run()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", default="reuters,covertype", help="comma-separated names")
    parser.add_argument("--out", default=str(report.RESULTS / "against_torch.json"))
    options = parser.parse_args()
    rows = []
    for name in options.sets.split(","):
        X, y = problem(name, 1.0)
        mine, bound = ours(X, y)
        peer = lbfgs(X, y, bound * (1.0 + TOL))
        times = peer["seconds"] / mine["seconds"]
        for run in (mine, peer):
            run["excess"] = run["objective"] / bound - 1.0
        rows.append({"set": name, "bmrm": mine, "torch": peer, "bound": bound, "times_faster": times})
        print(
            f"{name}: bmrm {1e3 * mine['seconds']:.1f} ms, {mine['passes']} passes, "
            f"J {mine['objective']:.8g}; L-BFGS {1e3 * peer['seconds']:.1f} ms, "
            f"{peer['evaluations']} evaluations, J {peer['objective']:.8g}: {times:.2f} times faster",
            flush=True,
        )
    gpu = torch.cuda.get_device_name()
    report.write(options.out, SECTIONS, gpu=gpu, lam=LAM, tol=TOL, torch=torch.__version__, rows=rows)


if __name__ == "__main__":
    main()
