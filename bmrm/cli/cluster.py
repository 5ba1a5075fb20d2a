"""``bmrm-cluster``: clusters, components or a map of the rows of a file."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bmrm.cli.cluster_methods import MAX_LINES_SHOWN, METHODS, ClusterMethod, ClusterOutcome, label_rows
from bmrm.cli.exits import Exit, check_apart, reading, run_on_first_rank
from bmrm.cli.results import print_json, showing, write_lines
from bmrm.errors import DataError, HostMemoryError, ParameterError, escape_unprintable

if TYPE_CHECKING:
    import argparse

    from numpy.typing import NDArray

    from bmrm.base.vectors import Vector
    from bmrm.cli.signals import CommandInterrupts

PROGRAM = "bmrm-cluster"
_MODEL_FILES = (".npz", ".safetensors")
_EXITS = {"converged": Exit.OK, "labelled": Exit.OK, "interrupted": Exit.INTERRUPTED}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command as `run_on_first_rank` does."""
    return run_on_first_rank(PROGRAM, cluster, argv)


def cluster(argv: Sequence[str], interrupts: CommandInterrupts) -> int:
    """Run the command and return the exit code."""
    from bmrm.cli.commands import CLUSTER
    from bmrm.cli.parsing import CommandParser

    options = CommandParser(CLUSTER).parse_words(argv)
    method = METHODS[options.method]
    _check(options, method)
    interrupts.importing("bmrm.io", "bmrm.cli.loading", method.module)
    began = time.perf_counter()
    with interrupts.opened():
        centers = None if options.apply is None else _read_centers(options.apply)
        X, weights = _read(options, None if centers is None else centers.shape[1], dense=method.dense)
    found = method.run(options, X, weights) if centers is None else label_rows(options, centers, X, weights)
    if options.output is not None:
        _write_rows(options.output, found.rows())
    if options.model is not None:
        _write_model(options.model, found.arrays)
    if options.certificate and found.status != "interrupted":
        found.facts |= found.prove()
    found.facts["seconds"] = time.perf_counter() - began
    _report(options, found)
    return _EXITS.get(found.status, Exit.LIMIT)


def _check(options: argparse.Namespace, method: ClusterMethod) -> None:
    """Raise for options that do not fit each other, or files that cannot be written, before all is read."""
    from bmrm.base.atomic import check_writable

    _check_method(options, method)
    if options.output == "-" and options.json:
        raise ParameterError("--json: -o is stdout already, expected a file")
    if options.model is not None and os.path.splitext(options.model)[1] not in _MODEL_FILES:
        raise ParameterError(f"--model {options.model}: expected a file *.npz or *.safetensors")
    if options.output is not None and os.path.splitext(options.output)[1] in _MODEL_FILES:
        raise ParameterError(
            f"-o {options.output}: labels and coordinates are written to *.npy or as text, centres and "
            "components by --model"
        )
    if options.apply is not None and options.model is not None:
        raise ParameterError(
            "--apply: found with --model, expected one of the two: --apply does not move centres"
        )
    inputs = {"DATA": options.data, "--apply": options.apply, "--sample-weight": options.sample_weight}
    if options.output not in (None, "-"):
        check_apart(options.output, {**inputs, "--model": options.model})
        check_writable(options.output)
    if options.model is not None:
        check_apart(options.model, inputs)
        check_writable(options.model)


def _check_method(options: argparse.Namespace, method: ClusterMethod) -> None:
    """Raise for options that the method does not take."""
    for name in frozenset().union(*(each.takes for each in METHODS.values())) - method.takes:
        given = getattr(options, name[2:].replace("-", "_"))
        if given is not None and given is not False:
            known = [other for other, each in METHODS.items() if name in each.takes]
            raise ParameterError(
                f"{name}: found with --method {options.method}, expected {' or '.join(known)}"
            )
    if options.init is not None and options.init not in method.starts:
        raise ParameterError(
            f"--init: found {options.init} with --method {options.method}, expected one of "
            f"{', '.join(method.starts)}"
        )


def _read(options: argparse.Namespace, columns: int | None, *, dense: bool) -> tuple[Any, Vector | None]:
    """Read the rows and their weights."""
    import numpy as np

    from bmrm.cli.loading import ZERO_BASED, numbers
    from bmrm.cli.reading_progress import reading_step
    from bmrm.io import read_data
    from bmrm.io.csr import Csr
    from bmrm.io.row_storage import dense_rows

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
    X: Any = data.X
    if dense and isinstance(X, Csr):
        X = dense_rows(X, np.dtype(np.float64), escape_unprintable(options.data))
    return X, numbers(options.sample_weight, X.shape[0], "weight", "rows")


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


def _write_rows(path: str, values: NDArray[Any]) -> None:
    """Write labels or coordinates: an array, or one line per row."""
    from bmrm.base.atomic import atomic_write
    from bmrm.io.npy import write_array

    if os.path.splitext(path)[1] == ".npy":
        with atomic_write(path) as file:
            write_array(file, values)
    elif values.ndim == 1:
        write_lines(path, (f"{label}\n" for label in values.tolist()))
    else:
        write_lines(path, (" ".join(map(repr, row)) + "\n" for row in values.tolist()))


def _write_model(path: str, arrays: Mapping[str, NDArray[Any]]) -> None:
    import numpy as np

    from bmrm.base.atomic import atomic_write

    with atomic_write(path) as file:
        if os.path.splitext(path)[1] == ".npz":
            np.savez(file, allow_pickle=False, **dict(arrays))
        else:
            from safetensors.numpy import save

            file.write(save({name: np.ascontiguousarray(array) for name, array in arrays.items()}))


def _report(options: argparse.Namespace, found: ClusterOutcome) -> None:
    """Print what was found; not among labels or coordinates on stdout."""
    facts = found.facts
    if options.json:
        print_json(facts)
        return
    if options.output == "-":
        return
    if found.lines:
        from bmrm.base.tables import format_table

        print(format_table(found.heads, found.lines[:MAX_LINES_SHOWN]))
        if len(found.lines) > MAX_LINES_SHOWN:
            print(f"... and {len(found.lines) - MAX_LINES_SHOWN} {found.others}")
    print(f"{found.status}: {found.summary}{',' if 'device' in facts else ';'} {facts['seconds']:.3f} s")
    if "certificate" in facts:
        print(_proof_text(facts["certificate"]))


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
