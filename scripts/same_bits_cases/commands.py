"""Runs of ``bmrm-train`` and ``bmrm-predict``, and the checkpoints that they write and continue from."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import bmrm
from bmrm.io import read_data
from same_bits_cases.files import Folders, of_model
from same_bits_cases.recorder import Fields, Recorder, of_file, of_result, public

LIMIT = 300
"""Seconds after which a command is assumed to hang."""

LEFT_OUT = ("timings", "seconds")
"""Fields of the JSON of a command that differ from run to run."""

OPEN_MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}
"""Lets Open MPI start more ranks than there are cores, as MPICH does."""

TRAININGS: dict[str, tuple[str, str]] = {
    "hinge": ("binary.svm", "--lambda 0.001"),
    "logistic": ("binary.svm", "--loss logistic --intercept -c 1 -w1 2"),
    "text": ("text.svm", "--lambda 0.0001 -B 1"),
    "single": ("dense.svm", "--dtype float32 --lambda 0.01"),
    "single_l1": ("dense.svm", "--dtype float32 --loss logistic --reg l1 --lambda 0.01"),
    "single_novelty": ("dense.npy", "--dtype float32 --loss novelty --lambda 0.01"),
    "single_area": ("text.svm", "--dtype float32 --loss roc_area --lambda 0.01"),
    "single_f": ("text.svm", "--dtype float32 --loss f_beta --lambda 0.01"),
    "single_levels": ("levels.svm", "--dtype float32 --loss ordinal --lambda 0.01"),
    "single_pairs": ("queries.svm", "--dtype float32 --loss pairwise --lambda 0.01"),
    "single_ndcg": ("queries.svm", "--dtype float32 --loss ndcg --lambda 0.01"),
    "single_lambda": ("queries.svm", "--dtype float32 --loss lambda_ndcg --lambda 0.01"),
    "single_mrr": ("queries.svm", "--dtype float32 --loss mrr --lambda 0.01"),
    "single_classes": ("classes.svm", "--dtype float32 --loss softmax --lambda 0.01"),
    "large": ("large.svm", "--lambda 0.001"),
    "large_fine": ("large.svm", "--loss logistic --lambda 0.01 --tol 1e-8 --checkpoint large.state"),
    "large_select": ("large.svm", "-C --lambdas 0.01:0.1:2 -v 2"),
    "elastic": ("binary.svm", "--loss squared_hinge --reg elastic_net --l1-ratio 0.2 --positive"),
    "classes": ("classes.svm", "--loss multiclass --costs costs --class-weight balanced -B 1"),
    "softmax": ("classes.svm", "--loss softmax --lambda 0.01"),
    "sets": ("sets.svm", "--loss multilabel --lambda 0.01"),
    "real": ("real.svm", "--loss epsilon_insensitive -p 0.2 --cache --sample-weight weights"),
    "counts": ("counts.svm", "--loss poisson --feature-lambda factors --lambda 0.01"),
    "queries": ("queries.svm", "--loss ndcg --k 5 --lambda 0.01"),
    "levels": ("levels.svm", "--loss ordinal --lambda 0.01"),
    "npz": ("text.npz", "--loss squared_hinge --lambda 0.001"),
    "config": ("binary.svm", "--config options.toml"),
    "limit": ("binary.svm", "--max-iter 2 --lambda 0.00001"),
    "select": ("binary.svm", "-C --lambdas 0.001:0.1:3 -v 3 --rule 1se"),
    "calibrate": ("text.svm", "--calibrate platt -v 3 --lambda 0.001"),
    "validate": ("binary.svm", "-v 4 --lambda 0.01"),
    "export": ("binary.svm", "--export liblinear"),
    "bmrm": ("binary.svm", "--solver bmrm --tol 0.01"),
    "warm": ("binary.svm", "--warm-start hinge.trained --lambda 0.0005"),
    "prior": ("binary.svm", "--prior hinge.trained --lambda 0.0005"),
    "memory": ("binary.svm", "--dry-run --device cpu"),
    "memory_text": ("text.svm", "--dry-run --device cpu"),
    "memory_classes": ("classes.svm", "--dry-run --device cpu --loss softmax"),
    "bad": ("bad.svm", ""),
    "none": ("none.svm", ""),
}
"""The data file and options of each training."""

PREDICTIONS = {
    "hinge": "--decision-values",
    "logistic": "--probability",
    "text": "",
    "classes": "",
    "softmax": "-b 1",
    "sets": "",
    "real": "",
    "counts": "",
    "queries": "",
    "levels": "",
    "calibrate": "--probability",
}
"""Options of each prediction, by the model of the training of that name for its own data."""

CHECKPOINTS: dict[str, tuple[str, str, str]] = {
    "narrow": ("binary.svm", "--lambda 0.0001", ""),
    "intercept": ("binary.svm", "--intercept --lambda 0.0001", "--weights owned"),
    "text": ("text.svm", "--loss logistic --lambda 0.0001", "--weights owned"),
    "l1": ("binary.svm", "--reg l1 --lambda 0.01", ""),
    "classes": ("classes.svm", "--loss multiclass -B 1 --lambda 0.0001", ""),
    "factors": ("binary.svm", "--feature-lambda factors --lambda 0.001", ""),
}
"""The data file and options of each training that is stopped and continued, and more options on ranks."""


def environment(**more: str) -> dict[str, str]:
    """Return the environment of a process that imports the same package."""
    paths = [str(Path(bmrm.__file__).resolve().parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **more}


def mpi_words(ranks: int) -> list[str]:
    """Return the command that starts a program on some ranks, by the mpiexec of this Python if it has one."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    found = shutil.which("mpiexec", path=path)
    if found is None:
        raise SystemExit("same_bits.py: found no mpiexec, which --ranks needs")
    return [found, "-n", str(ranks)]


class Commands:
    """Runs commands in the folder of a run.

    Parameters
    ----------
    record : Recorder
    folders : Folders
    """

    def __init__(self, record: Recorder, folders: Folders) -> None:
        self.folders, self.device = folders, record.common["device"]
        self.threads = record.common["threads"]

    def _run(self, entry: str, words: list[str], ranks: int) -> subprocess.CompletedProcess[str]:
        code = f"import sys; from bmrm.cli.start import {entry}; sys.exit({entry}())"
        return subprocess.run(
            [*(mpi_words(ranks) if ranks else []), sys.executable, "-c", code, *words],
            cwd=self.folders.own,
            env=environment(**(OPEN_MPI if ranks else {})),
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )

    def train(self, data: str, words: list[str], model: str, ranks: int = 0, state: str = "") -> Fields:
        """Train, without MPI if ``ranks`` is 0; return digests of the model and of the checkpoint too."""
        threads = 1 if ranks else self.threads
        given = ["--json", "--threads", str(threads), "--device", self.device, *words, data, model]
        return self._found(self._run("train", given, ranks), model, state)

    def predict(self, name: str, words: list[str]) -> Fields:
        """Predict by the model of a training, of this run or of the other one."""
        data, model, out = TRAININGS[name][0], self.folders.to_read(f"{name}.trained"), f"{name}.predicted"
        given = ["--json", "--threads", str(self.threads), *words, data, model, out]
        return self._found(self._run("predict", given, 0), out)

    def save(self, name: str, ranks: int) -> Fields:
        """Train for some passes and write a checkpoint."""
        data, words, more = CHECKPOINTS[name]
        state = state_name(name, ranks)
        given = [*words.split(), *(more.split() if ranks else []), *STOPPED, "--checkpoint", state]
        return self.train(data, given, f"{state}.stopped", ranks, state)

    def resume(self, name: str, ranks: int, now: int) -> Fields:
        """Continue from the checkpoint of some ranks, of this run or of the other one, on others."""
        data, words, more = CHECKPOINTS[name]
        state = self.folders.to_read(state_name(name, ranks))
        given = [*words.split(), *(more.split() if now else []), *FINE, "--resume", state]
        found = self.train(data, given, f"{name}-{ranks}-{now}.resumed", now)
        found.pop("options", None)  # which have the path of the checkpoint
        return found

    def _found(self, done: subprocess.CompletedProcess[str], *names: str) -> Fields:
        """Return exit code, JSON without times, and digests of files."""
        found: Fields = {"exit": done.returncode}
        if done.stdout.startswith("{"):
            found |= {key: value for key, value in json.loads(done.stdout).items() if key not in LEFT_OUT}
        for name in filter(None, names):
            path = self.folders.own / name
            found[f"file {name}"] = of_file(path) if path.exists() else None
        return found


FINE = ["--tol", "1e-7", "--dtype", "float64"]
STOPPED = [*FINE, "--max-iter", "4"]


def state_name(name: str, ranks: int) -> str:
    """Return the name of the checkpoint that was written on this number of ranks."""
    return f"{name}-{ranks}.state"


def of_commands(record: Recorder, folders: Folders) -> None:
    """Train and predict."""
    commands = Commands(record, folders)
    for name, (data, words) in TRAININGS.items():
        record.case(f"train/{name}", commands.train, data, words.split(), f"{name}.trained")
    for name, words in PREDICTIONS.items():
        record.case(f"predict/{name}", commands.predict, name, words.split())


ON_RANKS = {
    "parts": ("part[0-2].svm", "--lambda 0.001"),
    "classes": ("classes.svm", "--loss softmax -B 1 --class-weight balanced"),
    "queries": ("queries.svm", "--loss ndcg --k 5 --lambda 0.01"),
    "weights": ("binary.svm", "--sample-weight weights --loss squared_hinge --reg elastic_net"),
    "single": ("dense.svm", "--dtype float32 --lambda 0.01"),
    "npz": ("text.npz", "--weights owned --lambda 0.001"),
    "memory": ("text.svm", "--dry-run --device cpu"),
    "bad": ("bad.svm", ""),
}
"""The data file and options of each training on ranks."""


def of_commands_on_ranks(record: Recorder, folders: Folders, ranks: int) -> None:
    """Train on ranks."""
    commands = Commands(record, folders)
    for name, (data, words) in ON_RANKS.items():
        model = f"{name}-{ranks}.trained"
        record.case(f"train/{name} on {ranks}", commands.train, data, words.split(), model, ranks)


def of_checkpoints(record: Recorder, folders: Folders, ranks: int = 0) -> None:
    """Write checkpoints on ranks, and continue from them there and in one process."""
    commands = Commands(record, folders)
    for name in CHECKPOINTS:
        record.case(f"checkpoint/{name}/saved on {ranks}", commands.save, name, ranks)
        for now in sorted({ranks, 0}):
            record.case(f"checkpoint/{name}/from {ranks} to {now}", commands.resume, name, ranks, now)
        if name in ("narrow", "text"):
            record.case(f"checkpoint/{name}/solved from {ranks}", solved, record, folders, name, ranks)


def solved(record: Recorder, folders: Folders, name: str, ranks: int) -> Fields:
    """Continue from a checkpoint by `bmrm.solve`."""
    Checkpoint = public("Checkpoint", "bmrm", "bmrm.io.checkpoint")
    data = read_data(folders.own / CHECKPOINTS[name][0], dtype="float64")
    state = Checkpoint.load(folders.other / state_name(name, ranks))
    options: dict[str, Any] = {"lam": 1e-4, "tol": 1e-7, "warm_start": state, **record.common}
    found = bmrm.solve(data.X, data.y, "hinge" if name == "narrow" else "logistic", **options)
    then = {f"then.{name}": value for name, value in of_model(state.model, data.X).items()}
    return {**then, **of_result(found, data.X)}
