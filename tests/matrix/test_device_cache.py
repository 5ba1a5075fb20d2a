"""The cache of chosen kernels when several processes write to it; test_device.py checks its file."""

import multiprocessing
import os

import pytest

from bmrm.matrix.gpu import cache as device_cache

DEVICE = "some GPU"


def plans(lanes):
    plan = {"kernel": "rows", "lanes": lanes, "cap": 0, "tiles": 0, "tile": 0}
    return plan, dict(plan, kernel="columns")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(device_cache, "_picked", {})


def keep_many(rank, start):
    start.wait()
    for k in range(20):
        device_cache.save_plans(DEVICE, f"{rank} {k}", plans(rank))


def test_nothing_that_processes_save_concurrently_is_lost():
    context, ranks = multiprocessing.get_context("spawn"), 4
    start = context.Barrier(ranks)
    processes = [context.Process(target=keep_many, args=(rank, start)) for rank in range(ranks)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    kept = device_cache.read_record(DEVICE).plans
    assert kept == {f"{rank} {k}": plans(rank) for rank in range(ranks) for k in range(20)}


def test_all_processes_use_the_choice_that_was_saved_first(monkeypatch):
    assert device_cache.save_plans(DEVICE, "X", plans(1)) == plans(1)
    monkeypatch.setattr(
        device_cache, "_picked", {}
    )  # another process, which picked before it could read that
    assert device_cache.save_plans(DEVICE, "X", plans(2)) == plans(1)
    assert device_cache.find_plans(DEVICE, "X") == plans(1)


def test_a_choice_that_does_not_fit_is_replaced():
    device_cache.save_plans(DEVICE, "X", plans(1))
    assert device_cache.save_plans(DEVICE, "X", plans(2), before=plans(1)) == plans(2)
    assert device_cache.read_record(DEVICE).plans["X"] == plans(2)


def test_rates_and_plans_do_not_overwrite_each_other():
    rates = dict.fromkeys(("launch", "copy", "read", "gather_shared", "gather_l2"), 1.0)
    rates |= {"gather_memory": 2.0, "fill_shared": 3.0}
    device_cache.save_plans(DEVICE, "X", plans(1))
    device_cache.save_time(DEVICE, "some work", 2e-9)
    device_cache.save_constants(DEVICE, rates)
    device_cache.save_time(DEVICE, "other work", 3e-9)
    times = {"some work": 2e-9, "other work": 3e-9}
    assert device_cache.read_record(DEVICE) == (rates, {"X": plans(1)}, times)


def test_times_that_are_none_are_left_out():
    for seconds in (1e-9, 0.0, -1.0, float("inf")):
        device_cache.save_time(DEVICE, f"work of {seconds}", seconds)
    assert device_cache.read_record(DEVICE).times == {"work of 1e-09": 1e-9}


def test_a_folder_that_is_not_writable_is_no_error(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", os.fspath(tmp_path / "file"))
    assert device_cache.save_plans(DEVICE, "X", plans(1)) == plans(1)
    assert device_cache.find_plans(DEVICE, "X") == plans(1), "what a process picked it knows"
    assert device_cache.read_record(DEVICE).plans == {}
