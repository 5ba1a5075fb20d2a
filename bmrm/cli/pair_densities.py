"""``bmrm-pairs kde``: kernel densities of the points in files."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

from bmrm.cli.exits import Exit
from bmrm.cli.results import print_json, showing_share, write_lines

if TYPE_CHECKING:
    import argparse

    from bmrm.base.vectors import Vector
    from bmrm.pairs import Density, Points


def find_densities(
    options: argparse.Namespace, x: Points, at: Points | None, weights: Vector | None, began: float
) -> int:
    """Compute densities, write them and report; return the exit code."""
    from bmrm.base.units import finite_or_none
    from bmrm.pairs import kde

    with showing_share(options, "computing densities") as note:
        found = kde(
            x,
            at,
            bandwidth=options.bandwidth,
            kernel=options.kernel,
            weights=weights,
            log=options.log,
            tol=options.tol,
            progress=note,
        )
    _write(options, found)
    seconds, points = time.perf_counter() - began, len(found.values)
    bound = float(found.error_bound.max(initial=0.0))
    if options.json:
        facts = {"points": points, "bandwidth": found.bandwidth, "error_bound": finite_or_none(bound)}
        print_json(facts | {"seconds": seconds, "status": "found"})
    elif options.output != "-":
        print(
            f"found: densities of {points} points, bandwidth {found.bandwidth:g}, relative errors of at most "
            f"{bound:.2g}, {seconds:.3f} s",
            file=sys.stderr if options.output is None else sys.stdout,
        )
    return Exit.OK


def _write(options: argparse.Namespace, found: Density) -> None:
    """Write densities as npy, with the bounds of their errors as npz, or a line per density."""
    from bmrm.base.atomic import atomic_write
    from bmrm.io.npy import write_array

    if options.output is None and options.json:
        return
    kind = "" if options.output is None else os.path.splitext(options.output)[1]
    if kind not in (".npz", ".npy"):
        write_lines(options.output, (f"{value!r}\n" for value in found.values.tolist()))
        return
    with atomic_write(options.output) as file:
        if kind == ".npz":
            import numpy as np

            np.savez(file, allow_pickle=False, **found._asdict())
        else:
            write_array(file, found.values)
