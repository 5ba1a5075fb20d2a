"""Commands whose rows do not fit on a GPU, or the emulator, and are the CPU's in part."""

import json

import numpy as np
import pytest
from conftest import caller
from devices import cuda, gpu

from bmrm.cli import cluster, graph
from bmrm.cli.exits import Exit
from bmrm.distributed import blocks
from bmrm.graph.backends.gpu import MAX_IMAGES
from bmrm.matrix.gpu.memory import plan_memory

ROWS, COLUMNS = 4000, 60

pytestmark = gpu


@pytest.fixture
def rows(folder):
    found = np.random.default_rng(0).standard_normal((ROWS, COLUMNS)).astype(np.float32)
    np.save("X.npy", found)
    return found


def gpu_mem(X):
    plan = plan_memory(X.shape, None, 4, 4, None)
    return plan.X // 2 + plan.spare


def test_training_names_the_split_in_json(rows, bmrm_train):
    np.savetxt("y.txt", np.sign(rows[:, 0]), "%d")
    words = [
        "--labels",
        "y.txt",
        "--device",
        "cuda",
        "--gpu-mem",
        gpu_mem(rows),
        "--lambda",
        "1e-2",
        "--json",
    ]
    both = bmrm_train(*words, "--cpu-share", 0.5, "X.npy", "model")
    assert both.code == 0
    assert json.loads(both.out)["split"].startswith("the CPU computes")
    alone = bmrm_train(*words, "--cpu-share", 0, "X.npy", "model")
    assert (alone.code, json.loads(alone.out)["split"]) == (0, "")


def test_clustering_names_the_split_in_json(rows, capfd, monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 4 * COLUMNS * 1024)
    monkeypatch.setattr(blocks, "room_for_blocks", lambda *of: 1 << 40)
    monkeypatch.setattr(blocks, "count_resident", lambda number, *of: 1)
    bmrm_cluster = caller(cluster.main, capfd)
    words = ["-k", 3, "--max-iter", 2, "--device", "cuda", "--json"]
    both = bmrm_cluster(*words, "--cpu-share", 0.75, "X.npy")
    assert both.code == Exit.LIMIT
    text = json.loads(both.out)["placement"]
    assert text.endswith("the CPU computes 2 of 3 blocks that do not fit, rows 2048 to 3999")
    for share in ("0.1", "some"):
        refused = bmrm_cluster(*words, "--cpu-share", share, "X.npy")
        assert "--cpu-share: found" in refused.err
        assert "eighths from 0 to 1, or auto" in refused.err
    refused = bmrm_cluster("--method", "mds", "--cpu-share", 0, "X.npy")
    assert "--cpu-share: found with --method mds" in refused.err


@pytest.mark.parametrize("task", ["pagerank", "rwr"])
def test_ranking_names_the_split_in_json(task, folder, capfd):
    nodes, walks = 400, 2 if task == "rwr" else 1
    np.savetxt("edges.txt", np.random.default_rng(1).integers(0, nodes, (40_000, 2)), "%d")
    bmrm_graph = caller(graph.main, capfd)
    gpu_mem = 60_000 + cuda.predict_walk_bytes(nodes, walks, MAX_IMAGES, nodes)
    words = [task, "edges.txt", "--device", "cuda", "--gpu-mem", gpu_mem, "--json"]
    words += ["--queries", "1,2"] if task == "rwr" else []
    both, alone = bmrm_graph(*words, "--cpu-share", 0.5), bmrm_graph(*words)
    assert (both.code, alone.code) == (0, 0)
    assert "as given; the CPU computes" in json.loads(both.out)["placement"]
    assert json.loads(alone.out)["placement"] == "as given"
    refused = bmrm_graph(*words, "--cpu-share", 0.1)
    assert refused.code == Exit.USAGE
    assert "--cpu-share: found '0.1', expected eighths from 0 to 1, or auto" in refused.err
