"""Show that a change of the code changes no result: the same solves by both give the same bits.

    python scripts/same_bits.py record FILE [--backend cpu|gpu] [--ranks] [--keep FOLDER] [--read FOLDER]
                                            [--only REGEX]
    python scripts/same_bits.py compare OLD NEW

``record`` runs a fixed set of solves, fits, compiled functions, files and commands
(``scripts/same_bits_cases``) on whatever `bmrm` is imported, and writes digests of all results. Another
checkout is recorded by the same script: ``PYTHONPATH=CHECKOUT python scripts/same_bits.py record FILE``.
``--ranks`` adds solves on two and three ranks of MPI. ``--keep`` leaves models, checkpoints and caches in a
folder; ``--read`` reads those that another run has left there, so that what was written before a rebuild is
read after it.

``compare`` prints each case that differs, in which fields, and how far apart they are. The exit status is 1
if any does, or if a case is missing on either side. A case that raises counts as its type of exception.

Record both files on one machine and, with ``--backend gpu``, in one home folder: timings select the kernels
of a matrix, and the choice is remembered in ``~/.cache/bmrm``. Times, and what depends on them, are left out.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

# Read when the compiled core and NumPy are loaded. Sums of BLAS in one thread never change their order.
os.environ["OMP_NUM_THREADS"] = "2"
os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["MKL_NUM_THREADS"] = "1"
os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"  # or JAX takes most of a GPU's memory

import numpy as np

THREADS = 2
"""Of each process without MPI. A rank has one."""

DEVICES = {"cpu": "cpu", "gpu": "cuda"}

RANKS = (2, 3)

RANKS_LIMIT = 540.0
"""Seconds after which ranks are assumed to hang. What they have recorded by then is kept."""

SHOWN = 60
"""Characters of a value that is printed."""

SLOW = 10
"""Groups of cases whose time is printed."""


# ---- compare


def short(value: Any) -> str:
    """Return a value as text of limited length."""
    text = json.dumps(value)
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."


def is_number(value: Any) -> bool:
    """Whether a value is a number."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def numbers(value: Any) -> np.ndarray | None:
    """Return the numbers in a value, as far as they were recorded; None if it is something else."""
    if isinstance(value, dict):
        value = value.get("sample")
    if is_number(value):
        value = [value]
    if not isinstance(value, list) or not value or not all(map(is_number, value)):
        return None
    return np.array(value, np.float64)


def distance(old: Any, new: Any) -> str:
    """Return how far two different values of a field are apart, as text."""
    arrays = isinstance(old, dict) and isinstance(new, dict)
    if arrays and [old.get(what) for what in ("shape", "type")] != [
        new.get(what) for what in ("shape", "type")
    ]:
        return f"{old.get('type')} {old.get('shape')} -> {new.get('type')} {new.get('shape')}"
    one, other = numbers(old), numbers(new)
    if one is None or other is None or one.shape != other.shape:
        return f"{short(old)} -> {short(new)}"
    with np.errstate(invalid="ignore"):
        apart = np.abs(other - one)
    far = float(np.nanmax(apart)) if not np.isnan(apart).all() else float("nan")
    unlike = int(np.count_nonzero(one != other))
    if not arrays:
        return f"{short(old)} -> {short(new)}, apart by {far:.2g}"
    if not unlike:
        return f"different, but not in the {len(one)} recorded entries"
    return f"apart by {far:.2g} of {np.abs(one).max():.2g}, in {unlike} of {len(one)} entries"


def flat(fields: dict[str, Any]) -> dict[str, Any]:
    """Return fields in which those of a nested field stand next to the others."""
    found = {}
    for name, value in fields.items():
        if isinstance(value, dict) and not {"digest", "sample"} & set(value):
            found.update({f"{name}.{inner}": each for inner, each in flat(value).items()})
        else:
            found[name] = value
    return found


def differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Return a line for each field of a case that differs."""
    one, other = flat(old), flat(new)
    lines = []
    for name in [*one, *(name for name in other if name not in one)]:
        if name not in other or name not in one:
            side, value = ("old", one[name]) if name in one else ("new", other[name])
            lines.append(f"{name}: in the {side} file alone, {short(value)}")
        elif json.dumps(one[name], sort_keys=True) != json.dumps(other[name], sort_keys=True):
            lines.append(f"{name}: {distance(one[name], other[name])}")
    return lines


def compare(old_path: Path, new_path: Path) -> int:
    """Print what differs between two files; return 1 if anything does."""
    old, new = (json.loads(path.read_text()) for path in (old_path, new_path))
    for name in ("backend", "python", "numpy", "machine"):
        one, other = old["about"].get(name), new["about"].get(name)
        if one != other:
            print(f"note: {name} is {one} in the one file and {other} in the other")
    cases, others = old["cases"], new["cases"]
    unlike, missing = 0, 0
    for name in [*cases, *(name for name in others if name not in cases)]:
        if name not in cases or name not in others:
            missing += 1
            print(f"{name}: missing in {old_path if name not in cases else new_path}")
            continue
        lines = differences(cases[name], others[name])
        unlike += bool(lines)
        for line in lines:
            print(f"{name}: {line}")
    both = len(set(cases) & set(others))
    print(f"{both} cases in both files: {both - unlike} equal, {unlike} unlike; {missing} in one file alone")
    return 1 if unlike or missing or not both else 0


# ---- record


def about(backend: str) -> dict[str, Any]:
    """Return what a file records about its run."""
    import bmrm

    return {
        "bmrm": str(Path(bmrm.__file__).parent),
        "version": bmrm.__version__,
        "backend": backend,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "machine": platform.node(),
    }


def record(options: argparse.Namespace) -> int:
    """Run all cases and write the file."""
    from same_bits_cases.commands import of_checkpoints, of_commands, of_commands_on_ranks
    from same_bits_cases.estimators import of_estimators, of_reductions
    from same_bits_cases.files import Folders, of_models, of_readers, write_inputs
    from same_bits_cases.recorder import Recorder
    from same_bits_cases.solves import GROUPS, of_gpu

    began = time.perf_counter()
    common = {"device": DEVICES[options.backend], "threads": THREADS}
    recorder = Recorder(about(options.backend), options.file, common, only=options.only)
    print(f"bmrm is {recorder.about['bmrm']}", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        folders = Folders(*folders_of(options, Path(scratch)))
        for group in (*GROUPS, of_estimators, of_reductions, *([of_gpu] if options.backend == "gpu" else [])):
            group(recorder)
        write_inputs(folders.own)
        for files in (of_readers, of_models, of_commands, of_checkpoints):
            files(recorder, folders)
        for ranks in RANKS if options.ranks else ():
            record_ranks(recorder, options, ranks, Path(scratch))
            of_commands_on_ranks(recorder, folders, ranks)
            of_checkpoints(recorder, folders, ranks)
    recorder.write()
    report(recorder, time.perf_counter() - began)
    return 0


def folders_of(options: argparse.Namespace, scratch: Path) -> tuple[Path, Path | None]:
    """Return the folder to write files in, and a copy to read from: kept files must not change."""
    own = scratch / "own" if options.keep is None else options.keep
    own.mkdir(parents=True, exist_ok=True)
    if any(own.iterdir()):
        raise SystemExit(f"same_bits.py: --keep: found files in {own}, expected an empty folder")
    if options.read is None:
        return own, None
    # With modification times, by which a cache recognises its text.
    return own, Path(shutil.copytree(options.read, scratch / "other"))


def record_ranks(recorder: Any, options: argparse.Namespace, ranks: int, scratch: Path) -> None:
    """Run the cases of ranks in separate processes, and take over what they have recorded."""
    from same_bits_cases.commands import OPEN_MPI, environment, mpi_words

    part = scratch / f"ranks{ranks}.json"
    words = ["ranks", str(part), "--backend", options.backend, "--only", options.only or ""]
    process = subprocess.Popen(
        [*mpi_words(ranks), sys.executable, __file__, *words], env=environment(**OPEN_MPI)
    )
    try:
        process.wait(RANKS_LIMIT)
    except subprocess.TimeoutExpired:
        process.terminate()  # mpiexec ends its ranks
        process.wait()
    if process.returncode:
        print(f"same_bits.py: {ranks} ranks ended with the exit status {process.returncode}", file=sys.stderr)
    recorder.case(f"ranks{ranks}/exit", lambda: {"exit": process.returncode})
    if part.exists():
        found = json.loads(part.read_text())
        recorder.cases.update(found["cases"])
        recorder.seconds.update(found["about"]["seconds"])


def run_rank(options: argparse.Namespace) -> int:
    """Run the cases of ranks on one of them."""
    from mpi4py import MPI
    from same_bits_cases.ranks import of_ranks
    from same_bits_cases.recorder import Recorder

    world = MPI.COMM_WORLD
    common = {"device": DEVICES[options.backend], "threads": 1}
    path = options.file if world.Get_rank() == 0 else None
    prefix = f"ranks{world.Get_size()}/"
    recorder = Recorder({}, path, common, only=options.only, prefix=prefix, comm=world)
    of_ranks(recorder)
    recorder.write()
    return 0


def report(recorder: Any, seconds: float) -> None:
    """Print how many cases there are, which of them raise, and what took the time."""
    cases = recorder.cases
    raised: dict[str, list[str]] = {}
    for name, fields in cases.items():
        if "error" in fields:
            raised.setdefault(fields["error"], []).append(name)
    for kind, names in sorted(raised.items()):
        print(f"{kind}: {len(names)} cases, {', '.join(names[:3])}{', ...' if len(names) > 3 else ''}")
    for group, spent in recorder.seconds.most_common(SLOW):
        print(f"{spent:7.1f} s  {group}")
    print(f"{len(cases)} cases in {seconds:.0f} s: {recorder.path}")


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    modes = parser.add_subparsers(dest="mode", required=True)
    for mode, text in (("record", "run all cases"), ("ranks", "what record --ranks starts")):
        own = modes.add_parser(mode, help=text)
        own.add_argument("file", type=Path, help="file to write")
        own.add_argument("--backend", choices=list(DEVICES), default="cpu", help="where to solve")
        own.add_argument("--only", metavar="REGEX", help="leave out cases with other names")
    own = modes.choices["record"]
    own.add_argument("--ranks", action="store_true", help="also on ranks of MPI")
    own.add_argument("--keep", type=Path, metavar="FOLDER", help="leave the files that are written here")
    own.add_argument("--read", type=Path, metavar="FOLDER", help="read the files that another run has kept")
    pair = modes.add_parser("compare", help="print what differs between two files")
    pair.add_argument("old", type=Path)
    pair.add_argument("new", type=Path)
    options = parser.parse_args()
    if options.mode == "compare":
        return compare(options.old, options.new)
    return record(options) if options.mode == "record" else run_rank(options)


if __name__ == "__main__":
    sys.exit(main())
