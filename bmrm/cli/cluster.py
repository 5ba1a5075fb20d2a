"""``bmrm-cluster``: k-means of the rows of a file."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from bmrm.cli.exits import Exit, check_apart, reading, run_on_first_rank
from bmrm.cli.results import best_so_far, print_json, showing
from bmrm.errors import DataError, HostMemoryError, ParameterError, escape_unprintable

if TYPE_CHECKING:
    import argparse

    from bmrm.base.vectors import Vector
    from bmrm.cli.signals import CommandInterrupts
    from bmrm.unsupervised.clusters.estimator import KMeans, KMeansProgress

PROGRAM = "bmrm-cluster"
MAX_CLUSTERS_SHOWN = 20
_CENTER_FILES = (".npz", ".safetensors")
_EXITS = {"converged": Exit.OK, "labelled": Exit.OK, "interrupted": Exit.INTERRUPTED}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command as `run_on_first_rank` does."""
    return run_on_first_rank(PROGRAM, cluster, argv)


def cluster(argv: Sequence[str], interrupts: CommandInterrupts) -> int:
    """Run the command and return the exit code."""
    from bmrm.cli.commands import CLUSTER
    from bmrm.cli.parsing import CommandParser

    options = CommandParser(CLUSTER).parse_words(argv)
    _check(options)
    interrupts.importing("bmrm.io", "bmrm.cli.loading", "bmrm.unsupervised.clusters.estimator")
    began = time.perf_counter()
    with interrupts.opened():
        centers = None if options.apply is None else _read_centers(options.apply)
        X, weights = _read(options, None if centers is None else centers.shape[1])
    model, found = _fit(options, X, weights) if centers is None else _label(options, centers, X, weights)
    if options.output is not None:
        _write_labels(options.output, found["labels"])
    if options.centers is not None:
        _write_centers(options.centers, found)
    if options.certificate and found["status"] != "interrupted":
        found |= _prove(options, model, X, weights)
    found["seconds"] = time.perf_counter() - began
    _report(options, found)
    return _EXITS.get(found["status"], Exit.LIMIT)


def _check(options: argparse.Namespace) -> None:
    """Raise for options that do not fit each other, or files that cannot be written, before all is read."""
    from bmrm.base.atomic import check_writable

    if options.output == "-" and options.json:
        raise ParameterError("--json: -o is stdout already, expected a file")
    if options.centers is not None and os.path.splitext(options.centers)[1] not in _CENTER_FILES:
        raise ParameterError(f"--centers {options.centers}: expected a file *.npz or *.safetensors")
    if options.output is not None and os.path.splitext(options.output)[1] in _CENTER_FILES:
        raise ParameterError(
            f"-o {options.output}: labels are written to *.npy or as text, centres by --centers"
        )
    if options.apply is not None and options.centers is not None:
        raise ParameterError(
            "--apply: found with --centers, expected one of the two: --apply does not move centres"
        )
    inputs = {"DATA": options.data, "--apply": options.apply, "--sample-weight": options.sample_weight}
    if options.output not in (None, "-"):
        check_apart(options.output, {**inputs, "--centers": options.centers})
        check_writable(options.output)
    if options.centers is not None:
        check_apart(options.centers, inputs)
        check_writable(options.centers)


def _read(options: argparse.Namespace, columns: int | None) -> tuple[Any, Vector | None]:
    """Read the rows and their weights."""
    from bmrm.cli.loading import ZERO_BASED, numbers
    from bmrm.cli.reading_progress import reading_step
    from bmrm.io import read_data

    with showing(options, reading_step(options.data)), reading(options.data):
        data = read_data(
            options.data,
            format=options.format,
            label=options.label,
            drop=options.drop,
            n_features=columns,
            zero_based=ZERO_BASED[options.zero_based],
            dtype=None,
            threads=options.threads,
            labels="none",
        )
    return data.X, numbers(options.sample_weight, data.X.shape[0], "weight", "rows")


def _fit(options: argparse.Namespace, X: Any, weights: Vector | None) -> tuple[KMeans, dict[str, Any]]:
    """Find centres; return the model, and what is written and reported."""
    from bmrm.base.progress import ProgressStep
    from bmrm.unsupervised.clusters.estimator import KMeans

    step = ProgressStep(("choosing the first centres",))

    def show(state: KMeansProgress) -> None:
        nonlocal step
        step = ProgressStep(state.words())

    model = KMeans(
        options.clusters,
        init=options.init,
        n_init="auto" if options.n_init is None else options.n_init,
        max_iter=options.max_iter,
        tol=options.tol,
        max_time=options.max_time,
        random_state=options.seed,
        threads=options.threads,
        device=options.device,
        callback=show,
    )
    with showing(options, lambda: step):
        model = best_so_far(lambda: model.fit(X, sample_weight=weights))
    found = _facts(model, X.shape, model.labels_, model.inertia_, model.cluster_weights_)
    found |= {"status": model.status_, "n_iter": model.n_iter_, "inertia_error": model.inertia_error_}
    found |= {"rechecked": model.rechecked_, "seed": options.seed, "device": model.placement_.device}
    return model, found


def _label(
    options: argparse.Namespace, centers: Vector, X: Any, weights: Vector | None
) -> tuple[KMeans, dict[str, Any]]:
    """Label the rows by given centres."""
    import numpy as np

    from bmrm.unsupervised.clusters.estimator import KMeans

    if X.shape[1] != centers.shape[1]:
        raise DataError(f"DATA: found {X.shape[1]} columns, expected {centers.shape[1]} as in --apply")
    model = KMeans.of_centers(centers, threads=options.threads, device=options.device)
    with showing(options, "labelling the rows"):
        labels = model.predict(X)
        inertia = -model.score(X, sample_weight=weights)
    found = _facts(model, X.shape, labels, inertia, np.bincount(labels, weights, len(centers)).astype(float))
    return model, found | {"status": "labelled"}


def _prove(options: argparse.Namespace, model: KMeans, X: Any, weights: Vector | None) -> dict[str, Any]:
    """Bound the inertia; Ctrl-C leaves the bound out, the clusters are written by now."""
    from bmrm.base.units import finite_or_none

    try:
        with showing(options, "bounding the inertia"):
            proof = model.certificate(X, weights)
    except KeyboardInterrupt:
        return {"status": "interrupted"}
    return {
        "certificate": {
            "lower_bound": proof.lower_bound,
            "confidence": proof.confidence,
            "ratio": finite_or_none(proof.ratio),
            "moves_left": proof.moves_left,
            "largest_gain": proof.largest_gain,
        }
    }


def _facts(
    model: KMeans, shape: tuple[int, int], labels: Any, inertia: float, weights: Vector
) -> dict[str, Any]:
    return {
        "rows": shape[0],
        "columns": shape[1],
        "clusters": len(model.cluster_centers_),
        "inertia": inertia,
        "cluster_weights": weights,
        "centers": model.cluster_centers_,
        "labels": labels,
    }


def _read_centers(path: str) -> Vector:
    """Read the centres that an earlier run has written."""
    import numpy as np

    from bmrm.io.formats import detect_format, read_npz_arrays
    from bmrm.io.sources import open_source
    from bmrm.io.tensors import open_tensors

    with reading(path):
        try:
            if os.path.splitext(path)[1] == ".safetensors":
                with open_tensors(path) as file:
                    found = file.read("centers", "F64", 2)
            else:
                with open_source(path) as source:
                    kind = detect_format(source)
                    if kind != "npz":
                        raise DataError(f"found {kind}, expected npz or safetensors")
                    found = read_npz_arrays(source, ("centers",)).get("centers", np.empty(0))
        except (DataError, HostMemoryError) as error:
            raise type(error)(f"{escape_unprintable(path)}: {error}") from None
    if found.ndim != 2 or found.dtype != np.float64 or not found.size or not np.isfinite(found).all():
        what = f"shape {found.shape} of {found.dtype}" if np.isfinite(found).all() else "infinite numbers"
        raise DataError(
            f"{escape_unprintable(path)}: found {what}, expected a finite matrix 'centers' of float64"
        )
    return found


def _write_labels(path: str, labels: Any) -> None:
    from bmrm.base.atomic import atomic_write
    from bmrm.io.npy import write_array

    text = "".join(f"{label}\n" for label in labels.tolist())
    if path == "-":
        sys.stdout.write(text)
        return
    with atomic_write(path) as file:
        if os.path.splitext(path)[1] == ".npy":
            write_array(file, labels)
        else:
            file.write(text.encode())


def _write_centers(path: str, found: dict[str, Any]) -> None:
    import numpy as np

    from bmrm.base.atomic import atomic_write

    arrays = {"centers": found["centers"], "cluster_weights": found["cluster_weights"]}
    with atomic_write(path) as file:
        if os.path.splitext(path)[1] == ".npz":
            np.savez(file, allow_pickle=False, **arrays)
        else:
            from safetensors.numpy import save

            file.write(save({name: np.ascontiguousarray(array) for name, array in arrays.items()}))


def _report(options: argparse.Namespace, found: dict[str, Any]) -> None:
    """Print what was found; not among labels on stdout."""
    weights = found["cluster_weights"]
    if options.json:
        hidden = ("centers", "labels")
        report = {key: value for key, value in found.items() if key not in hidden}
        print_json({**report, "cluster_weights": weights.tolist()})
        return
    if options.output == "-":
        return
    from bmrm.base.tables import format_table

    total = weights.sum()
    largest = (-weights).argsort(kind="stable")
    rows = [
        [str(j), f"{weights[j]:.9g}", f"{weights[j] / total:.2%}"]
        for j in largest[:MAX_CLUSTERS_SHOWN].tolist()
    ]
    print(format_table(["cluster", "weight", "share"], rows))
    if len(largest) > MAX_CLUSTERS_SHOWN:
        print(f"... and {len(largest) - MAX_CLUSTERS_SHOWN} smaller clusters")
    inertia = f"inertia {found['inertia']:.9g}"
    if "n_iter" in found:
        print(
            f"{found['status']}: {inertia}, within {found['inertia_error']:.1e}; {found['n_iter']} moves, "
            f"{found['rechecked']:.2%} of the labels resolved in float64, on {found['device']}, "
            f"{found['seconds']:.3f} s"
        )
    else:
        print(f"{found['status']}: {inertia}; {found['seconds']:.3f} s")
    if "certificate" in found:
        print(_proof_text(found["certificate"]))


def _proof_text(proof: dict[str, Any]) -> str:
    moves = f"{proof['moves_left']} rows would lower the inertia if they alone moved"
    if proof["ratio"] is None:
        return f"no lower bound above 0 was found; {moves}"
    return (
        f"at most {proof['ratio']:.4g} times the least inertia of as many centres (lower bound "
        f"{proof['lower_bound']:.9g}, confidence {proof['confidence']:.4g}); {moves}"
    )


if __name__ == "__main__":
    sys.exit(main())
