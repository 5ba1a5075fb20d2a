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
import os
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy.typing as npt

from bmrm.base.atomic import atomic_write
from bmrm.base.vectors import Vector
from bmrm.errors import DataError, HostMemoryError, ParameterError
from bmrm.io.tensors import MAX_TENSOR_HEADER_BYTES, Tensors, open_tensors
from bmrm.linear.models import content

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

ROOM_FOR_TENSORS_BYTES = 4096
"""Bytes of the header of a file for the list of tensors, which takes about 100 for each."""

T = TypeVar("T")


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


def read(
    path: str | os.PathLike[str], build: Callable[[dict[str, Any], dict[str, Vector]], T]
) -> tuple[T, str | None, Mapping[str, str]]:
    """Read a model file; return the model, the file's checksum (None if it has none), and its metadata.

    ``build`` makes a model from a description and tensors; it raises `DataError` if they contradict each
    other. Raise `DataError` if the file is not a model file, or is damaged.
    """
    name = os.fspath(path)
    try:
        with open_tensors(name) as file:
            model = build(*_read_parts(file))
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
