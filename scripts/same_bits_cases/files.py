"""Files that the package reads and writes: text, its cache, other formats, models."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import bmrm
from bmrm.io import iter_svmlight, read_data
from same_bits_cases.problems import INTERCEPTS, PARAMS, Problem, problem
from same_bits_cases.recorder import Fields, Recorder, bits, of_file, of_prediction

ROWS = 400
"""Rows of the text files."""

TEXTS = {
    "binary": ("narrow", "sparse float64", "binary"),
    "dense": ("narrow", "float64", "binary"),
    "text": ("text", "float64", "binary"),
    "classes": ("narrow", "sparse float64", "multiclass"),
    "sets": ("narrow", "sparse float64", "multilabel"),
    "real": ("narrow", "float64", "regression"),
    "counts": ("narrow", "sparse float64", "count"),
    "queries": ("narrow", "sparse float64", "ranking"),
    "levels": ("text", "float64", "ordinal"),
}
"""Text files: the problem, how its X is stored, and the task of its labels."""

MODELS: dict[str, tuple[str, Fields]] = {
    "hinge": ("text", INTERCEPTS["free"]),
    "logistic": ("narrow", {}),
    "squared": ("wide", {"prior": 0.01 * np.ones(problem("wide").X.shape[1])}),
    "poisson": ("narrow", {}),
    "novelty": ("narrow", {}),
    "multiclass": ("text", INTERCEPTS["penalised"]),
    "softmax": ("narrow", {}),
    "multilabel": ("narrow", {}),
    "multilabel_ranking": ("narrow", {}),
    "ndcg": ("narrow", {}),
    "ordinal": ("narrow", {}),
    "roc_area": ("wide", {}),
    "quantile": ("narrow", {"reg": "elastic_net", "lam": 1e-2}),
}
"""Models: the problem, and options of the solve."""


class Folders:
    """The folder to write files in, and the folder to read them from.

    Parameters
    ----------
    own : Path
        Files of this run.
    other : Path or None
        Files of the same names, of another run; None to read what this run writes.
    """

    def __init__(self, own: Path, other: Path | None) -> None:
        self.own, self.other = own, other or own

    def to_read(self, name: str) -> str:
        """Return the path of a file to be read, from the folder of this run."""
        return os.path.relpath(self.other / name, self.own)


# ---- inputs


def write_inputs(folder: Path) -> None:
    """Write what the cases and commands read."""
    for name, (shape, storage, task) in TEXTS.items():
        write_text(folder / f"{name}.svm", problem(shape, storage), task, slice(ROWS))
    at = problem("streamed")
    write_text(folder / "large.svm", at, "binary", slice(None))
    for part in range(3):
        write_text(folder / f"part{part}.svm", at, "binary", slice(150 * part, 150 * part + 150))
    rng = np.random.default_rng(7)
    columns = problem("narrow").X.shape[1]
    for name, values in (("weights", rng.random(ROWS)), ("factors", np.arange(columns) % 4)):
        (folder / name).write_text("".join(f"{value!r}\n" for value in values.tolist()))
    (folder / "costs").write_text("0 1 4\n1 0 1\n4 1 0\n")
    (folder / "options.toml").write_text('loss = "logistic"\nlambda = 0.01\n')
    (folder / "bad.svm").write_text("1 1:0.5\n-1 2:x\n")
    (folder / "binary.svm.gz").write_bytes(gzip.compress((folder / "binary.svm").read_bytes(), mtime=0))
    X, y = problem("text").X, problem("text").labels["binary"]
    parts = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": X.shape, "format": "csr"}
    np.savez(folder / "text.npz", y=y, **parts)
    np.save(folder / "dense.npy", problem("narrow").X)
    rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    entries = zip(rows.tolist(), X.indices.tolist(), X.data.tolist(), strict=True)
    lines = [f"{row + 1} {column + 1} {value!r}\n" for row, column, value in entries]
    head = f"%%MatrixMarket matrix coordinate real general\n{X.shape[0]} {X.shape[1]} {X.nnz}\n"
    (folder / "text.mtx").write_text(head + "".join(lines))


def write_text(path: Path, at: Problem, task: str, rows: slice) -> None:
    """Write rows as SVMlight text, of one label or several, with queries for a ranking."""
    X, labels = sp.csr_array(at.X[rows]), at.labels[task][rows]
    with path.open("w") as file:
        for row in range(X.shape[0]):
            own = slice(X.indptr[row], X.indptr[row + 1])
            several = labels.ndim == 2
            label = ",".join(map(str, np.flatnonzero(labels[row]))) if several else repr(float(labels[row]))
            query = f" qid:{row // 8 + 1}" if task == "ranking" else ""
            entries = zip(X.indices[own].tolist(), X.data[own].tolist(), strict=True)
            values = " ".join(f"{column + 1}:{value!r}" for column, value in entries)
            file.write(f"{label}{query} {values}\n")


# ---- readers


def of_readers(record: Recorder, folders: Folders) -> None:
    """Read text, its cache, and the other formats."""
    for name, (_, _, task) in TEXTS.items():
        for dtype in ("float32", "float64"):
            path = folders.own / f"{name}.svm"
            record.case(f"read/{name}/{dtype}", read, path, dtype=dtype, query_id=task == "ranking")
    for name in ("binary.svm.gz", "text.npz", "dense.npy", "text.mtx"):
        record.case(f"read/{name}/float64", read, folders.own / name, dtype="float64")
    record.case("read/text/in chunks", in_chunks, folders.own / "text.svm")
    record.case("read/real/cached", cached, folders)


def read(path: Path, **options: Any) -> Fields:
    """Return the bits of what a file holds."""
    data = read_data(path, **options)
    X = data.X
    dense = isinstance(X, np.ndarray)
    parts = {"X": X} if dense else {"indptr": X.indptr, "indices": X.indices, "data": X.data}
    found: Fields = {name: None if part is None else bits(part) for name, part in parts.items()}
    found |= {"shape": list(X.shape), "zero_based": data.zero_based, "rounded": data.rounded}
    found["y"] = None if data.y is None else of_prediction(data.y)
    found["qid"] = None if data.qid is None else bits(data.qid)
    return {**found, "from_cache": data.from_cache}


def in_chunks(path: Path) -> Fields:
    """Return the bits of text that is read in chunks."""
    found = list(iter_svmlight(path, dtype="float64"))
    values = np.concatenate([X.data for X, _ in found])
    return {"chunks": len(found), "data": bits(values), "y": bits(np.concatenate([y for _, y in found]))}


def cached(folders: Folders) -> Fields:
    """Make a cache; read that of this run or of the other one."""
    made = read_data(folders.own / "real.svm", dtype="float64", cache=True)
    found = read(folders.other / "real.svm", dtype="float64", cache=True)
    return {"first_from_cache": made.from_cache, **found}


# ---- models


def of_models(record: Recorder, folders: Folders) -> None:
    """Write models, read them or those of the other run, and predict."""
    for loss, (shape, options) in MODELS.items():
        record.case(f"model/{loss}/{shape}", written, record, folders, loss, problem(shape), options)
    for method in ("platt", "isotonic"):
        record.case(f"model/hinge/{method}", calibrated, record, folders, method)


def written(record: Recorder, folders: Folders, loss: str, at: Problem, options: Fields) -> Fields:
    """Train and write the model; read it and predict."""
    options = {"tol": 1e-3, "max_iter": 80, **PARAMS.get(loss, {}), **options}
    result, name = record.solved(at, loss, **options), f"{loss}.model"
    result.save(folders.own / name, zero_based=True)
    model = bmrm.Model.load(folders.other / name)
    return {"file": of_file(folders.own / name), **of_model(model, at.X)}


def calibrated(record: Recorder, folders: Folders, method: str) -> Fields:
    """Write a model with a calibration; read it and predict."""
    at, name = problem("narrow"), f"{method}.model"
    given = {"folds": 3, "tol": 1e-3, "max_iter": 80, **record.common}
    found = bmrm.select(at.X, lams=[1e-2, 1e-1], **at.given("hinge"), **given)
    bmrm.Model.from_result(found.result, calibration=found.calibrate(method)).save(folders.own / name)
    model = bmrm.Model.load(folders.other / name)
    return {"file": of_file(folders.own / name), **of_model(model, at.X)}


def of_model(model: Any, X: Any) -> Fields:
    """Return the bits of a model and of what it predicts."""
    certificate = model.certificate
    found = {
        "w": bits(model.w),
        "b": bits(model.intercept),
        "loss": [model.loss, dict(model.loss_params)],
        "reg": [model.reg, dict(model.reg_params), model.lam],
        "labels": [model.classes, model.thresholds, model.zero_based],
        "objective": certificate.objective,
        "lower_bound": certificate.lower_bound,
        "status": certificate.status,
        "passes": certificate.n_iter,
        "margins": bits(model.decision_function(X)),
        "predictions": of_prediction(model.predict(X)),
    }
    if model.has_probabilities:
        found["probabilities"] = bits(model.predict_probability(X))
    return found
