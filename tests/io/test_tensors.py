"""Safetensors files with headers that are damaged or malicious."""

import json
import re

import numpy as np
import pytest
from safetensors.numpy import save

import bmrm
from bmrm.errors import DataError, HostMemoryError
from bmrm.io import regular, tensors
from bmrm.io.tensors import open_tensors
from bmrm.linear.models import content
from bmrm.linear.models.checkpoint import Checkpoint, Problem
from bmrm.linear.models.checkpoint import save as save_checkpoint
from bmrm.linear.models.model import Model

GOOD = {"a": {"dtype": "F64", "shape": [2, 3], "data_offsets": [0, 48]}}


def write(path, header, body):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + body)
    return str(path)


def read(path, *what):
    with open_tensors(path) as file:
        return file.read(*(what or ("a", "F64", 2)))


def test_files_of_the_library_can_be_read(tmp_path):
    path = tmp_path / "x"
    wanted = {"a": np.arange(6.0).reshape(2, 3), "b": np.arange(3, dtype=np.int32), "c": np.zeros(0)}
    path.write_bytes(save({**wanted, "other": np.ones(3, np.float16)}, metadata={"key": "text"}))
    with open_tensors(str(path)) as file:
        assert file.metadata == {"key": "text"}
        assert "a" in file
        assert "d" not in file
        for name, (kind, sides) in {"a": ("F64", 2), "b": ("I32", 1), "c": ("F64", 1)}.items():
            assert (file.read(name, kind, sides) == wanted[name]).all()
        assert (file.read_columns("a", 1, 3) == wanted["a"][:, 1:3]).all()
        with pytest.raises(
            DataError, match=r"tensor 'a': found F64 of shape \(2, 3\), expected one F64 vector"
        ):
            file.read("a", "F64", 1)
        with pytest.raises(DataError, match="no tensor 'd'"):
            file.read("d", "F64", 1)


def entry(**changes):
    return {"a": {**GOOD["a"], **changes}}


@pytest.mark.parametrize(
    "header",
    [
        entry(dtype="F8_E4M3"),
        entry(dtype="F8_E4M3", data_offsets=[0, 6]),
        entry(dtype="C64"),
        entry(dtype="F65"),
        entry(dtype=None),
        entry(dtype=["F64"]),
        entry(shape=[2, 2]),
        entry(shape=[2, -3]),
        entry(shape=[2, 3.0]),
        entry(shape=[True, 6]),
        entry(shape=6),
        entry(shape=[0, 2**62], data_offsets=[0, 0]),
        entry(shape=[0, 2**40, 2**40], data_offsets=[0, 0]),
        entry(shape=[2**62, 2**62]),
        entry(data_offsets=[0, 2**70]),
        entry(data_offsets=[8, 56]),
        entry(data_offsets=[48, 0]),
        entry(data_offsets=[0]),
        entry(data_offsets=None),
        {"a": []},
        {"a": None},
        {},
        {**GOOD, "b": {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]}},
        {**GOOD, "__metadata__": []},
        {**GOOD, "__metadata__": {"key": 1}},
        b'{"a": ' + json.dumps(GOOD["a"]).encode() + b', "a": ' + json.dumps(GOOD["a"]).encode() + b"}",
        b"{" * 1000,
        b'{"a": ' + b"[" * 100_000,
        b"{\xff}",
        b"{}" + b" " * tensors.MAX_TENSOR_HEADER_BYTES,
    ],
)
def test_invalid_headers(tmp_path, header):
    path = write(tmp_path / "x", header, bytes(48))
    with pytest.raises(DataError, match=r"model file|^tensor 'a': found C64"):
        read(path)


@pytest.mark.parametrize("body", [b"", bytes(47), bytes(49)])
def test_too_few_bytes_or_too_many(tmp_path, body):
    with pytest.raises(DataError, match="truncated or damaged model file"):
        read(write(tmp_path / "x", GOOD, body))


def test_the_same_header_without_a_fault_is_read(tmp_path):
    assert (read(write(tmp_path / "x", GOOD, bytes(48))) == np.zeros((2, 3))).all()


def test_a_tensor_that_does_not_fit_into_memory(tmp_path, monkeypatch):
    def refuse(needed, what):
        raise HostMemoryError(f"out of memory: {what} needs {needed}")

    path = tmp_path / "model"
    bmrm.solve(np.eye(4), [1, 1, -1, -1], lam=0.1).save(path)
    monkeypatch.setattr(tensors, "require_memory", refuse)
    with pytest.raises(HostMemoryError, match=f"^{path}: out of memory: tensor 'w' needs 32$"):
        Model.load(path)


def test_arrays_are_allocated_only_for_existing_bytes(tmp_path, monkeypatch):
    """The reader never allocates memory only because a header says so."""
    asked = []
    empty = np.empty
    monkeypatch.setattr(
        regular.np, "empty", lambda shape, *how: (asked.append(np.prod(shape)), empty(shape, *how))[1]
    )
    with pytest.raises(DataError):
        read(write(tmp_path / "x", entry(shape=[2**30, 2**10], data_offsets=[0, 2**43]), bytes(48)))
    assert max(asked) < 1000


def changed(path, name, kind, width):
    """Change the type of a tensor of a file."""
    whole = path.read_bytes()
    length = int.from_bytes(whole[:8], "little")
    header, at = json.loads(whole[8 : 8 + length]), 0
    widths = {"F64": 8, "I32": 4, kind: width}
    header[name]["dtype"] = kind
    for key, found in header.items():
        if key != "__metadata__":
            size = widths[found["dtype"]] * int(np.prod(found["shape"]))
            found["data_offsets"], at = [at, at + size], at + size
    write(path, header, (whole[8 + length :] * 2)[:at])


def seal(path):
    whole = path.read_bytes()
    blank, seals = re.subn(rb'(\\"checksum\\": \\")[0-9a-f]{16}', rb"\g<1>" + content.UNKNOWN.encode(), whole)
    assert seals == 1
    path.write_bytes(b"".join(content.sealed(blank)))


@pytest.mark.parametrize(
    ("kind", "width"), [("F8_E4M3", 1), ("F8_E5M2", 1), ("BF16", 2), ("C64", 8), ("F32", 4)]
)
@pytest.mark.parametrize("name", ["cuts.gradients", "cuts.offsets", "cuts.alpha", "cuts.blocks"])
def test_cuts_of_another_type(tmp_path, name, kind, width):
    X, y = np.random.default_rng(0).standard_normal((9, 4)), np.where(np.arange(9) < 5, 1.0, -1.0)
    result = bmrm.solve(X, y, lam=0.1, max_iter=3, cuts_per_pass=1)
    path = tmp_path / "checkpoint"
    save_checkpoint(path, Model.from_result(result), Problem(9, 36, 1, False, None), result.bundle.working())
    assert Checkpoint.load(path).cuts(0, 4).gradients.shape[1] == 4
    changed(path, name, kind, width)
    seal(path)  # a checksum is against damage, not against malice
    with pytest.raises(DataError, match=f"damaged cuts .*tensor '{name}': found {kind} of shape"):
        Checkpoint.load(path).cuts(0, 4)
