"""The model file: what training ends with and prediction starts from.

A safetensors file with two float64 tensors, ``w`` of shape (n_features,) and ``intercept`` of shape (1,); or
(n_features, K) and (K,) for K classes; with an isotonic calibration two more, its knots ``calibration_x``
and ``calibration_p``.
Its metadata holds one key, ``bmrm``: a JSON document with the format's version, the loss, the labels, the
regularisation, the certificate (docs/formats.md lists the fields) and a checksum of the file
(``content.py``). Nothing in the file depends on the clock, so the same training gives the same bytes.

A model file is untrusted input: sizes are checked against the file before anything is allocated, and
nothing in it is executed.

References
----------
The safetensors format, https://github.com/huggingface/safetensors#format
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from bmrm._version import __version__
from bmrm.calibration import Calibration, Isotonic, Platt
from bmrm.errors import DataError, HostMemoryError, ParameterError
from bmrm.io import content
from bmrm.io.atomic import atomic_write
from bmrm.io.model import SEVERAL, Certificate, Model
from bmrm.io.tensors import Tensors, opened

FORMAT_VERSION = 1
_KEY = "bmrm"
_KNOTS = ("calibration_x", "calibration_p")
Vector = npt.NDArray[np.float64]


def write(
    model: Model,
    path: str | os.PathLike[str],
    tensors: Mapping[str, npt.NDArray[Any]] | None = None,
    notes: Mapping[str, str] | None = None,
) -> None:
    """Write a model, see `Model.save`; with tensors and keys of the metadata beside its own."""
    from safetensors.numpy import save

    own = {"w": np.ascontiguousarray(model.w), "intercept": np.atleast_1d(model.intercept)}
    if isinstance(model.calibration, Isotonic):
        knots = zip(_KNOTS, (model.calibration.x, model.calibration.p), strict=True)
        own |= {name: np.ascontiguousarray(values) for name, values in knots}
    document = {**_document(model), content.KEY: content.UNKNOWN}
    metadata = {_KEY: json.dumps(document, allow_nan=False)}
    whole = save({**(tensors or {}), **own}, metadata={**(notes or {}), **metadata})
    with atomic_write(path) as file:
        for part in content.sealed(whole):
            file.write(part)


def read(path: str | os.PathLike[str]) -> Model:
    """Read a model; see `Model.load`."""
    return read_checked(path)[0]


def read_checked(path: str | os.PathLike[str]) -> tuple[Model, str | None, Mapping[str, str]]:
    """Read a model, the checksum that its file is sound by, None where it has none, and all metadata."""
    name = os.fspath(path)
    try:
        with opened(name) as file:
            model = _model(*_read_parts(file))
            return model, content.check(file), file.metadata
    except DataError as error:
        raise DataError(f"{name}: {error}") from None
    except HostMemoryError as error:
        raise HostMemoryError(f"{name}: {error}") from None


def finite_or_none(value: float) -> float | None:
    """JSON has no infinity: an unknown bound is null."""
    return float(value) if math.isfinite(value) else None


def _document(model: Model) -> dict[str, Any]:
    certificate = model.certificate
    return {
        "format_version": FORMAT_VERSION,
        "library_version": __version__,
        "task": model.task,
        "loss": {"name": model.loss, "params": dict(model.loss_params)},
        "classes": None if model.classes is None else list(model.classes),
        "reg": model.reg,
        "reg_params": dict(model.reg_params),
        "lam": model.lam,
        "n_features": model.n_features,
        "zero_based": model.zero_based,
        "thresholds": None if model.thresholds is None else list(model.thresholds),
        "calibration": _calibration_document(model.calibration),
        "certificate": certificate
        and {
            "objective": finite_or_none(certificate.objective),
            "lower_bound": finite_or_none(certificate.lower_bound),
            "gap": finite_or_none(certificate.gap),
            "status": certificate.status,
            "n_iter": certificate.n_iter,
            "tol": certificate.tol,
            "tol_kind": certificate.tol_kind,
            "dtype": certificate.dtype,
            "rounding": certificate.rounding,
        },
    }


def _calibration_document(calibration: Calibration | None) -> dict[str, Any] | None:
    if calibration is None:
        return None
    numbers = {"a": calibration.a, "b": calibration.b} if isinstance(calibration, Platt) else {}
    return {"method": calibration.method, **numbers}


def _read_parts(file: Tensors) -> tuple[dict[str, Any], dict[str, Vector]]:
    """Return the description and the tensors."""
    document = _parse_document(file.metadata.get(_KEY))
    sides = 1 + (document.get("task") in SEVERAL)
    tensors = {"w": file.read("w", "F64", sides), "intercept": file.read("intercept", "F64", 1)}
    return document, tensors | {key: file.read(key, "F64", 1) for key in _KNOTS if key in file}


def _parse_document(text: str | None) -> dict[str, Any]:
    if text is None:
        raise DataError(f"not a bmrm model: a safetensors file without {_KEY!r} metadata")
    try:
        document = json.loads(text)
        version = document["format_version"]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise DataError("damaged model description") from None
    if version != FORMAT_VERSION:
        raise DataError(
            f"found model format version {version!r} (written by bmrm {document.get('library_version')!r}), "
            f"expected version {FORMAT_VERSION}: upgrade bmrm or train again"
        )
    return dict(document)


def _model(document: dict[str, Any], tensors: dict[str, Vector]) -> Model:
    w, intercept = tensors["w"], tensors["intercept"]
    try:
        if document["n_features"] != len(w) or intercept.shape != (w.shape[1:] or (1,)):
            raise DataError(f"found {len(w)} weights, expected {document['n_features']} features")
        classes, certificate = document["classes"], document["certificate"]
        thresholds = document.get("thresholds")  # older files have none
        if document["zero_based"] not in (None, True, False):
            raise ValueError
        return Model(
            w=w,
            intercept=float(intercept[0]) if w.ndim == 1 else intercept,
            loss=str(document["loss"]["name"]),
            task=str(document["task"]),
            classes=None if classes is None else tuple(map(float, classes)),
            lam=float(document["lam"]),
            reg=str(document["reg"]),
            reg_params=_reg_params(document.get("reg_params", {})),
            loss_params=_loss_params(document["loss"], document["task"]),
            certificate=None if certificate is None else _certificate(certificate),
            calibration=_calibration(document.get("calibration"), tensors),
            zero_based=document["zero_based"],
            thresholds=None if thresholds is None else tuple(map(float, thresholds)),
            library_version=str(document["library_version"]),
        )
    except DataError:
        raise
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError):
        raise DataError("damaged model description") from None


def _loss_params(document: dict[str, Any], task: str) -> dict[str, float]:
    """Return the parameters of a loss that is one of its task, by its own check of them."""
    from bmrm.losses import LOSSES

    name = str(document["name"])
    params = {str(key): float(value) for key, value in document["params"].items()}
    if not all(map(math.isfinite, params.values())):
        raise ValueError
    if name in LOSSES:  # else it is a user's own
        if LOSSES[name].task != task:
            raise DataError(f"found the loss {name} of the task {task!r}, expected {LOSSES[name].task!r}")
        try:
            LOSSES[name](**params)
        except ParameterError as error:
            raise DataError(str(error)) from None
    return params


def _reg_params(document: dict[str, Any]) -> dict[str, float | bool]:
    for value in document.values():
        if not (isinstance(value, bool | int | float) and math.isfinite(value)):
            raise ValueError
    return {str(key): value for key, value in document.items()}


def _calibration(document: dict[str, Any] | None, tensors: dict[str, Vector]) -> Calibration | None:
    if document is None:
        return None
    if document["method"] == "platt":
        platt = Platt(float(document["a"]), float(document["b"]))
        if not (math.isfinite(platt.a) and math.isfinite(platt.b)):
            raise ValueError
        return platt
    x, p = (tensors[name] for name in _KNOTS)
    sound = len(x) == len(p) > 0 and np.isfinite(x).all() and (np.diff(x) > 0).all()
    if document["method"] != "isotonic" or not (
        sound and ((p >= 0) & (p <= 1)).all() and (np.diff(p) >= 0).all()
    ):
        raise ValueError
    return Isotonic(x, p)


def _certificate(document: dict[str, Any]) -> Certificate:
    objective, bound, tol = document["objective"], document["lower_bound"], float(document["tol"])
    dtype, rounding = document.get("dtype"), float(document.get("rounding", 0.0))  # older files have none
    if not math.isfinite(tol) or dtype not in (None, "float32", "float64") or not 0.0 <= rounding < math.inf:
        raise ValueError
    return Certificate(
        objective=math.inf if objective is None else float(objective),
        lower_bound=-math.inf if bound is None else float(bound),
        status=str(document["status"]),
        n_iter=int(document["n_iter"]),
        tol=tol,
        tol_kind=str(document["tol_kind"]),
        dtype=dtype,
        rounding=rounding,
    )
