"""The model file: the output of training and the input of prediction.

It is a safetensors file with two float64 tensors: ``w`` of shape (n_features,) and ``intercept`` of shape
(1,), or (n_features, K) and (K,) for K classes. With an isotonic calibration it has two more, the knots
``calibration_x`` and ``calibration_p``; if the features have names, it has ``feature_names``, of bytes. Its
metadata have one key, ``bmrm``: a JSON document with the version of the format, the loss, the labels, the
regularisation, the certificate (docs/formats.md lists the fields) and a checksum of the file
(``content.py``). Nothing in the file depends on the clock, so the same training writes the same bytes.

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
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from bmrm.base.atomic import atomic_write
from bmrm.base.units import finite_or_none
from bmrm.base.vectors import Vector
from bmrm.base.version import __version__
from bmrm.errors import DataError, HostMemoryError, ParameterError
from bmrm.io.tensors import MAX_TENSOR_HEADER_BYTES, Tensors, open_tensors
from bmrm.linear.models import content
from bmrm.linear.models.calibration import Calibration, Isotonic, Platt
from bmrm.linear.models.certificate import Certificate, TrainingData

FORMAT_VERSION = 3
PLAIN_VERSION = 2
"""The version of models without offsets. Earlier versions of the package, which would predict without them,
do not read version 3."""
READABLE_VERSIONS = (1, 2, 3)
_KEY = "bmrm"
KNOTS = ("calibration_x", "calibration_p")
FEATURE_NAMES = "feature_names"
"""A tensor of bytes, JSON in UTF-8, because a header may not be long enough for the names."""
SEVERAL = ("multiclass", "multilabel", "label_ranking")
"""Tasks whose models have one column of weights per class or label."""

LABEL_TYPES = (
    *("bool", "float16", "float32", "float64", "str"),
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
)
"""Names of the types of labels; see `Model.label_type`."""

ROOM_FOR_TENSORS_BYTES = 4096
"""Bytes of the header of a file for the list of tensors, which takes about 100 for each."""

T = TypeVar("T")


def parts_of(model: Any) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Return the description and the tensors of a `Model`, for `write`."""
    calibration, certificate = model.calibration, model.certificate
    tensors: dict[str, npt.NDArray[Any]]
    tensors = {"w": np.ascontiguousarray(model.w), "intercept": np.atleast_1d(model.intercept)}
    if isinstance(calibration, Isotonic):
        knots = zip(KNOTS, (calibration.x, calibration.p), strict=True)
        tensors |= {name: np.ascontiguousarray(values) for name, values in knots}
    if model.feature_names is not None:
        text = json.dumps(list(model.feature_names)).encode()
        tensors[FEATURE_NAMES] = np.frombuffer(text, np.uint8)
    description = {
        "format_version": FORMAT_VERSION if model.has_offset else PLAIN_VERSION,
        "library_version": __version__,
        "task": model.task,
        "loss": {"name": model.loss, "params": dict(model.loss_params)},
        "classes": None if model.classes is None else list(model.classes),
        "label_type": model.label_type,
        "reg": model.reg,
        "reg_params": dict(model.reg_params),
        "lam": model.lam,
        "n_features": model.n_features,
        "zero_based": model.zero_based,
        "training": None if model.training is None else asdict(model.training),
        **({"has_offset": True} if model.has_offset else {}),
        "thresholds": None if model.thresholds is None else list(model.thresholds),
        "calibration": _calibration_document(calibration),
        "certificate": None if certificate is None else _certificate_document(certificate),
    }
    return description, tensors


def _calibration_document(calibration: Calibration | None) -> dict[str, Any] | None:
    if calibration is None:
        return None
    numbers = {"a": calibration.a, "b": calibration.b} if isinstance(calibration, Platt) else {}
    return {"method": calibration.method, **numbers}


def _certificate_document(certificate: Certificate) -> dict[str, Any]:
    bounds, facts = ("objective", "lower_bound", "gap"), ("status", "n_iter", "tol", "tol_kind")
    return {
        **{name: finite_or_none(getattr(certificate, name)) for name in bounds},
        **{name: getattr(certificate, name) for name in (*facts, "dtype", "rounding")},
    }


def write(
    path: str | os.PathLike[str],
    description: Mapping[str, Any],
    tensors: Mapping[str, npt.NDArray[Any]],
    notes: Mapping[str, str] | None = None,
) -> None:
    """Write a model file, whole or not at all, with a checksum in its description.

    - ``description``: the description of a `Model`, for JSON
    - ``tensors``: contiguous arrays, in the order of the file
    - ``notes``: further keys of the metadata
    """
    from safetensors.numpy import save

    document = {**description, content.KEY: content.UNKNOWN}
    metadata = {_KEY: json.dumps(document, allow_nan=False)}
    _check_size(metadata)
    whole = save(dict(tensors), metadata={**(notes or {}), **metadata})
    with atomic_write(path) as file:
        for part in content.sealed(whole):
            file.write(part)


def read(path: str | os.PathLike[str], make: Callable[..., T]) -> tuple[T, str | None, Mapping[str, str]]:
    """Read a model file; return the model, the file's checksum (None if it has none), and its metadata.

    ``make`` is called with the fields of a `Model`, and raises `DataError` if they contradict each other.
    Raise `DataError` if the file is not a model file, or is damaged.
    """
    name = os.fspath(path)
    try:
        with open_tensors(name) as file:
            model = _make(*_read_parts(file), make)
            return model, content.check(file), file.metadata
    except DataError as error:
        raise DataError(f"{name}: {error}") from None
    except HostMemoryError as error:
        raise HostMemoryError(f"{name}: {error}") from None


def _check_size(metadata: Mapping[str, str]) -> None:
    """Raise `ParameterError` if a description with text labels is too long to be read again."""
    size = sum(len(json.dumps(text)) for text in metadata.values()) + ROOM_FOR_TENSORS_BYTES
    if size > MAX_TENSOR_HEADER_BYTES:
        raise ParameterError(
            f"model: found {size} bytes of description, expected at most {MAX_TENSOR_HEADER_BYTES}: "
            "its labels are too many or too long"
        )


def _read_parts(file: Tensors) -> tuple[dict[str, Any], dict[str, Vector]]:
    document = _parse_document(file.metadata.get(_KEY))
    sides = 1 + (document.get("task") in SEVERAL)
    tensors = {"w": file.read("w", "F64", sides), "intercept": file.read("intercept", "F64", 1)}
    kinds = {**dict.fromkeys(KNOTS, "F64"), FEATURE_NAMES: "U8"}
    return document, tensors | {key: file.read(key, kind, 1) for key, kind in kinds.items() if key in file}


def _parse_document(text: str | None) -> dict[str, Any]:
    if text is None:
        raise DataError(f"not a bmrm model: a safetensors file without {_KEY!r} metadata")
    try:
        document = json.loads(text)
        version = document["format_version"]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise DataError("damaged model description") from None
    if type(version) is not int or version not in READABLE_VERSIONS:
        raise DataError(
            f"found model format version {version!r} (written by bmrm {document.get('library_version')!r}), "
            f"expected version {FORMAT_VERSION}: upgrade bmrm or train again"
        )
    return dict(document)


def _make(document: dict[str, Any], tensors: dict[str, Vector], make: Callable[..., T]) -> T:
    w, intercept = tensors["w"], tensors["intercept"]
    try:
        if document["n_features"] != len(w) or intercept.shape != (w.shape[1:] or (1,)):
            raise DataError(f"found {len(w)} weights, expected {document['n_features']} features")
        classes, certificate = document["classes"], document["certificate"]
        # Files of version 1 have labels of type float64, but do not say so.
        label_type = document["label_type"] if document["format_version"] > 1 else "float64"
        thresholds = document.get("thresholds")  # older files have none
        if document["zero_based"] not in (None, True, False):
            raise ValueError
        return make(
            w=w,
            intercept=float(intercept[0]) if w.ndim == 1 else intercept,
            loss=str(document["loss"]["name"]),
            task=str(document["task"]),
            classes=None if classes is None else _classes(classes, label_type),
            label_type=label_type,
            lam=float(document["lam"]),
            reg=str(document["reg"]),
            reg_params=_reg_params(document.get("reg_params", {})),
            loss_params=_loss_params(document["loss"], document["task"]),
            certificate=None if certificate is None else _certificate(certificate),
            calibration=_calibration(document.get("calibration"), tensors),
            zero_based=document["zero_based"],
            thresholds=None if thresholds is None else tuple(map(float, thresholds)),
            feature_names=_feature_names(tensors),
            training=_training(document.get("training")),
            has_offset=_has_offset(document),
            library_version=str(document["library_version"]),
        )
    except DataError:
        raise
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError):
        raise DataError("damaged model description") from None


def _classes(given: Any, label_type: Any) -> tuple[float | int | bool | str, ...]:
    """Return the labels of a file if they are of the type that it names."""
    kinds: dict[str, type | tuple[type, ...]] = {"b": bool, "U": str, "f": (int, float)}
    if not isinstance(given, list) or label_type not in LABEL_TYPES:
        raise ValueError
    letter = np.dtype(label_type).kind
    kind = kinds.get(letter, int)
    if not all(isinstance(label, kind) and (kind is bool or not isinstance(label, bool)) for label in given):
        raise ValueError
    return tuple(map(float, given)) if letter == "f" else tuple(given)


def _loss_params(document: dict[str, Any], task: str) -> dict[str, float]:
    """Return the parameters of the loss, checked by the loss itself, whose task must be ``task``."""
    from bmrm.losses import LOSSES

    name = str(document["name"])
    params = {str(key): float(value) for key, value in document["params"].items()}
    if not all(map(math.isfinite, params.values())):
        raise ValueError
    if name in LOSSES:  # otherwise it is a user's loss
        against_the_rest = task == "multiclass" and LOSSES[name].task == "binary"
        if LOSSES[name].task != task and not against_the_rest:
            raise DataError(f"found the task {task!r} with the loss {name}, expected {LOSSES[name].task!r}")
        try:
            LOSSES[name](**params)
        except ParameterError as error:
            raise DataError(str(error)) from None
    return params


def _feature_names(tensors: dict[str, Vector]) -> tuple[str, ...] | None:
    if FEATURE_NAMES not in tensors:
        return None
    names = json.loads(tensors[FEATURE_NAMES].tobytes())
    if not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise ValueError
    return tuple(names)


def _training(document: dict[str, Any] | None) -> TrainingData | None:
    if document is None:
        return None
    found = TrainingData(**document)
    sizes = found.rows, found.features, found.values
    if not all(type(size) is int and size >= 0 for size in sizes):
        raise ValueError
    if found.text_checksum is not None and not re.fullmatch("[0-9a-f]{16}", found.text_checksum):
        raise ValueError
    return found


def _has_offset(document: dict[str, Any]) -> bool:
    found = document.get("has_offset", False)  # files of earlier versions have none
    if type(found) is not bool or found != (document["format_version"] > PLAIN_VERSION):
        raise ValueError
    return found


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
    x, p = (tensors[name] for name in KNOTS)
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
