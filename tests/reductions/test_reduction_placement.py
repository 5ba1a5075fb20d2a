"""Where row functions run; no GPU is needed."""

import logging

import numpy as np
import pytest
from programs import kmeans_step

from bmrm.errors import BmrmError, DeviceMemoryError
from bmrm.formulas.cpu import native
from bmrm.formulas.run import cost, function, placing
from bmrm.matrix.gpu import work as work_module
from bmrm.matrix.gpu.placement import Placement


def test_work_is_predicted_only_if_there_is_a_choice(monkeypatch):
    def never(call, threads=None):
        raise AssertionError("asked for a GPU")

    X = np.random.default_rng(0).normal(size=(100, 8))
    monkeypatch.setattr(function, "predict_place", never)
    kmeans_step(X, w=1.0, centers=X[:3], device="cpu")
    with pytest.raises(AssertionError, match="asked for a GPU"):
        kmeans_step(X, w=1.0, centers=X[:3])


def test_nothing_is_predicted_without_a_compiler(monkeypatch):
    def fails():
        raise ImportError("llvmlite")

    X = np.random.default_rng(0).normal(size=(100, 8))
    expected = kmeans_step.python(X, w=1.0, centers=X[:3])
    monkeypatch.setattr(native, "can_compile", lambda: False)
    monkeypatch.setattr(native, "vector_bytes", fails)
    np.testing.assert_array_equal(kmeans_step(X, w=1.0, centers=X[:3]).sums, expected.sums)
    assert "llvmlite is not installed" in kmeans_step.explain(X, w=1.0, centers=X[:3]).splitlines()[-1]


def test_a_gpu_without_room_is_the_cpu_unless_asked_for(monkeypatch):
    def full(call, number, keep, **more):
        raise DeviceMemoryError("GPU 0: out of memory")

    X = np.random.default_rng(0).normal(size=(100, 8))
    monkeypatch.setattr(kmeans_step._gpu, "run", full)
    monkeypatch.setattr(function, "predict_place", lambda call, threads=None: Placement(0, "", chosen=True))
    with pytest.warns(UserWarning, match="device='auto': GPU 0: out of memory; using the CPU"):
        found = kmeans_step(X, w=1.0, centers=X[:3])
    np.testing.assert_array_equal(found.label, kmeans_step(X, w=1.0, centers=X[:3], device="cpu").label)
    with pytest.raises(DeviceMemoryError):
        kmeans_step(X, w=1.0, centers=X[:3], device="cuda")


def test_a_reduction_says_where_it_runs_and_why(monkeypatch, caplog):
    monkeypatch.setattr(work_module, "is_started", lambda: True)
    X = np.random.default_rng(0).normal(size=(20_000, 8))
    words = {"w": 1.0, "centers": X[:3]}
    monkeypatch.setattr(placing, "usable_gpu", lambda: None)
    assert kmeans_step.explain(X, **words).splitlines()[-1].startswith("device  cpu: ")
    with caplog.at_level(logging.DEBUG, "bmrm"):
        kmeans_step(X, **words)
        kmeans_step(X, device="cpu", **words)
    assert [m.startswith("plan: device  cpu: ") for m in caplog.messages] == [True, True]
    monkeypatch.setattr(cost, "REDUCTION_GPU_CALL_SECONDS", 0.0)
    monkeypatch.setattr(work_module, "UPLOAD_BYTES_PER_SECOND", 1e15)
    monkeypatch.setattr(placing, "usable_gpu", lambda: {"multiprocessors": 132, "free_bytes": 1 << 33})
    assert kmeans_step.explain(X, **words).splitlines()[-1].startswith("device  cuda:0: the CPU takes ")


def test_a_machine_without_a_gpu_or_its_compiler_has_none(monkeypatch):
    def fails():
        raise BmrmError("NVRTC: found none")

    monkeypatch.setattr(placing, "load_nvrtc", fails)
    assert placing.usable_gpu() is None
