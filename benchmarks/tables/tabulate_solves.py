"""The sections of docs/performance.md on solves that run on a GPU."""

from __future__ import annotations

from typing import Any

from benchmarks.tables.pages import heading, load, table, verdicts

WAYS = ("cpu", "gpu sparse", "gpu dense")


def gpu_solves() -> str:
    """Return the sections on solves on a GPU."""
    return thesis() + torch() + streamed() + end_to_end() + own_losses()


def thesis() -> str:
    """Return the section on the ten sets of the thesis."""
    results = load("thesis_ch5")
    rows = [
        [
            row["set"],
            str(row["nnz"]),
            *(cell(row.get(way)) for way in WAYS),
            f"{row['times_faster']:.1f}",
            *(known(pair) for pair in results["thesis"].get(row["set"], [None] * 3)),
        ]
        for row in results["rows"]
    ]
    parts = [
        [
            row["set"],
            f"{run['iterations']:.0f}",
            f"{1e6 * run['seconds'] / run['iterations']:.0f}",
            *(f"{1e6 * run['parts'].get(part, 0.0) / run['iterations']:.0f}" for part in PARTS),
            f"{1e3 * run['resident_seconds']:.0f}",
        ]
        for row in results["rows"]
        for run in [row["gpu sparse"]]
    ]
    return (
        heading("The thesis's ten sets", results)
        + f"\n{results['gpu']}. Random data of each set's size, hinge, lam {results['lam']:g}, to an "
        f"absolute gap of {results['gap']:g}; passes and milliseconds of a solve on a resident matrix, on "
        "all cores, on the GPU with X sparse and with X dense (if that is under 6 GB). The last three "
        "columns are the thesis's passes and seconds, on a Core 2 Quad and a GeForce 8800 GTX, with its own "
        "data.\n"
        + table(
            ["set", "nonzeros", "CPU", "GPU", "GPU, dense", "CPU/GPU", "thesis: CPU", "GPU", "GPU, dense"],
            rows,
        )
        + "\nMicroseconds per iteration on the GPU, by part. An iteration is a product with X and one "
        "with X': "
        "a pass of the solver has one, or the number that a Newton point or the steps of dual ascent "
        "take. The "
        "device's clock times the products. The last column is the time of upload and choice of kernels, in "
        "milliseconds.\n"
        + table(["set", "iterations", "each", *PARTS, "resident ms"], parts)
        + "\n![parts of a solve](pictures/thesis_parts.svg)\n"
        + "\n![parts of a product](pictures/thesis_bridge.svg)\n"
        + verdicts(results["figures"])
    )


PARTS = ("products", "newton", "ascent", "search", "loss", "bundle", "qp")


def cell(run: dict[str, Any] | None) -> str:
    """Return passes and milliseconds of a way."""
    if run is None:
        return "N/A"
    late = "" if run["status"] == "converged" else f", {run['status']}"
    return f"{run['passes']}, {1e3 * run['seconds']:.1f} ms{late}"


def known(pair: list[float] | None) -> str:
    """Return passes and seconds in the thesis."""
    return "N/A" if pair is None else f"{pair[0]}, {pair[1]:.0f} s"


def torch() -> str:
    """Return the section on PyTorch's L-BFGS."""
    results = load("against_torch")
    rows = [
        [
            row["set"],
            f"{row['bmrm']['passes']}, {1e3 * row['bmrm']['seconds']:.1f} ms",
            f"{row['torch']['evaluations']}, {1e3 * row['torch']['seconds']:.1f} ms",
            f"{row['bmrm']['objective'] / row['bound'] - 1:.1e}",
            f"{row['torch']['objective'] / row['bound'] - 1:.1e}",
        ]
        for row in results["rows"]
    ]
    return (
        heading("Against PyTorch on the same GPU", results)
        + f"\n{results['gpu']}, PyTorch {results['torch']}. Logistic regression at lam {results['lam']:g}: "
        f"passes and time until our certificate says {results['tol']:g}, relative; evaluations and time of "
        "`torch.optim.LBFGS` (strong Wolfe search, history of 100) until its objective is as close to the "
        "optimum, or for 20 s. The excess is over the best known lower bound.\n"
        + table(["set", "bmrm", "L-BFGS", "excess bmrm", "excess L-BFGS"], rows)
    )


def streamed() -> str:
    """Return the section on X larger than its memory."""
    results = load("streamed")
    whole = results["whole"]
    rows = [
        [
            f"{row['share']:.0%}",
            f"{row['gpu_mem'] / 1e6:.0f}",
            f"{row['streamed_blocks']} of {row['blocks']}",
            f"{row['host_bytes'] / 1e6:.0f}",
            *(f"{1e3 * row['times'][op]:.2f}, {row['of_roof'][op]:.0%}" for op in ("normal", "transposed")),
            f"{1e3 * row['resident_seconds']:.0f}",
            f"{row['passes']}, {1e3 * row['seconds']:.0f} ms",
        ]
        for row in results["limited"]
    ]
    products = ", ".join(f"{1e3 * whole['times'][op]:.2f}" for op in ("normal", "transposed"))
    agree = "all certificates agree with each other" if results["agree"] else "certificates contradict"
    return (
        heading("X larger than the memory of the GPU", results)
        + f"\n{results['gpu']}; the set {results['shape']} of the thesis, {results['rows']} x "
        f"{results['cols']}, {results['nnz']} nonzeros, hinge, lam 1e-5, to a relative gap of 1e-3. With no "
        f"limit a solve takes {whole['bytes'] / 1e6:.0f} MB and {whole['passes']} passes, "
        f"{1e3 * whole['seconds']:.0f} ms, after {1e3 * whole['resident_seconds']:.0f} ms of upload and "
        f"choice; "
        f"its products take {products} ms. Below, `gpu_mem` is a share of that memory. The roof of a "
        f"product is "
        "the time of its copies at the speed of one large copy from pinned memory, "
        f"{results['bus'] / 1e9:.1f} GB/s; {agree}.\n"
        + table(
            [
                "share", "MB", "blocks that stream", "pinned MB", "X w: ms, of roof", "X^T r: ms, of roof",
                "resident ms", "passes, solve",
            ],
            rows,
        )
    )  # fmt: skip


def end_to_end() -> str:
    """Return the section on the whole command."""
    results = load("end_to_end_gpu")
    ways = {"text": "`bmrm-train`, from text", "cache": "`bmrm-train --cache`, from the cache"}
    rows = [
        [
            title,
            f"{results[way]['seconds']:.2f}",
            *(f"{results[way]['timings'][part]:.3f}" for part in ("load", "train", "write")),
        ]
        for way, title in ways.items()
    ]
    rows.append(["import of NumPy, start of the driver", f"{results['bare']['seconds']:.2f}", "", "", ""])
    rows.append(["LIBLINEAR `-s 3 -e 0.001`", f"{results['liblinear']['seconds']:.2f}", "", "", ""])
    return (
        heading("The whole command on a GPU", results)
        + f"\nText of {results['text_bytes'] / 1e6:.0f} MB, {results['rows']} rows, {results['nnz']} "
        "nonzeros; hinge, lam 1e-5, to a relative gap of 1e-3. Seconds from the start of the process to its "
        f"end, and by part. The objectives are {results['text']['objective']:.6f} and "
        f"{results['liblinear']['objective']:.6f} (LIBLINEAR), evaluated by one function.\n"
        + table(["command", "whole", "load", "train", "write"], rows)
    )


def own_losses() -> str:
    """Return the section on a loss in Python on a GPU."""
    results = load("own_loss_gpu")
    names = {
        "compiled": "compiled",
        "torch": "PyTorch",
        "cupy": "CuPy, fused",
        "jax": "JAX, compiled",
        "numpy": "NumPy, on the host",
    }
    rows = [
        [
            names[row["arrays"]],
            f"{1e3 * row['seconds']:.1f}",
            f"{1e3 * row['products']:.1f}",
            str(row["iterations"]),
            str(row["calls"]) if row["calls"] else "",
            f"{row['objective']:.7f}",
            f"{row['gap']:.1e}",
        ]
        for row in results["rows"]
    ]
    m, d = results["shape"]
    return (
        heading("A loss in Python on a GPU", results)
        + f"\n{results['gpu']}. The logistic loss on {m} x {d} dense float32 numbers, lam "
        f"{results['lam']:g}, to a relative gap of {results['tol']:g}; milliseconds of a solve on a resident "
        "matrix.\n" + table(["the function", "ms", "of which products", "passes", "calls", "J", "gap"], rows)
    )
