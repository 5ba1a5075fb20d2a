"""``bmrm-bench``: its output, and its messages without a GPU."""

import copy
import json

import numpy as np
import pytest
from commands import run_python

from bmrm.cli import bench
from bmrm.errors import BmrmError
from bmrm.matrix.gpu import devices as device

STATISTICS = {"rows": 60, "nnz": 300, "longest": 5, "empty_rows": 0}
CANDIDATES = [
    {"plan": {"kernel": "split", "lanes": 0, "cap": 0, "tiles": 0, "tile": 0},
     "predicted": 5e-6, "measured": 6e-6, "bytes": 2400},
    {"plan": {"kernel": "sliced", "lanes": 0, "cap": 8, "tiles": 0, "tile": 0},
     "predicted": 4e-6, "measured": 4.5e-6, "bytes": 2500},
    {"plan": {"kernel": "subwarp", "lanes": 4, "cap": 0, "tiles": 0, "tile": 0},
     "predicted": 9e-6, "measured": 0.0, "bytes": 0},
]  # fmt: skip


class Cuda:
    """Stands in for `bmrm.matrix._cuda` on a machine with one GPU."""

    def __init__(self) -> None:
        self.built: list[dict] = []

    def device_count(self) -> int:
        return 1

    @property
    def Matrix(self):  # noqa: N802
        """The class of matrices, which this object stands in for too."""
        return self

    def __call__(self, indptr, indices, data, shape, **options):
        self.built.append({"shape": shape, "nnz": len(indices), **options})
        return self

    def from_dense(self, array, **options):
        self.built.append({"shape": array.shape, **options})
        return Dense()

    def Plan(self, **plan) -> dict:  # noqa: N802
        return plan

    def predict(self, device, constants, statistics, plan) -> float:
        assert (device["name"], statistics, plan["kernel"]) == ("A GPU", STATISTICS, "dense")
        return 6e-6

    def report(self) -> dict:
        operator = {"statistics": STATISTICS, "candidates": CANDIDATES, "chosen": 1}
        return {
            "shape": (60, 5), "nnz": 300, "dtype": "float32", "coding": "plain", "bytes": 5000,
            "prepare_seconds": 0.01, "device": {"name": "A GPU"}, "constants": {"launch": 2e-6},
            "blocks": [{}], "host_bytes": 0, "normal": operator, "transposed": operator,
        }  # fmt: skip


class Dense(Cuda):
    """A dense matrix there: its one kernel is neither predicted nor timed when it is built."""

    def report(self) -> dict:
        plan = {"kernel": "dense", "lanes": 0, "cap": 0, "tiles": 0, "tile": 0}
        operator = {
            "statistics": STATISTICS,
            "candidates": [{"plan": plan, "predicted": 0.0, "measured": 0.0, "bytes": 3 * 10**6}],
            "chosen": 0,
        }
        return super().report() | {"normal": operator, "transposed": copy.deepcopy(operator)}

    def time(self, operator) -> float:
        return {"normal": 7e-6, "transposed": 8e-6}[operator]


@pytest.fixture
def cuda(monkeypatch) -> Cuda:
    found = Cuda()
    monkeypatch.setattr(device, "import_cuda", lambda: found)
    return found


@pytest.fixture
def bmrm_bench(capfd):
    def call(*words):
        code = bench.main([str(word) for word in words])
        return code, *capfd.readouterr()

    return call


def test_both_products_with_candidates_and_pick(data, cuda, bmrm_bench):
    code, out, err = bmrm_bench("spmv", data)
    assert (code, err) == (0, "")
    assert "X w: 60 rows" in out
    assert "X^T r: 60 rows" in out
    picks = [line.split() for line in out.splitlines() if line.startswith("*")]
    assert picks == [["*", "sliced", "cap", "8", "4.0", "4.5", "0.00"]] * 2
    assert cuda.built == [{"shape": (60, 5), "nnz": 300, "dtype": "float32", "device": 0, "tune": "best"}]


def test_a_dense_matrix_has_one_kernel_predicted_and_timed(folder, cuda, bmrm_bench):
    np.save("full.npy", np.arange(12.0).reshape(4, 3))
    code, out, err = bmrm_bench("spmv", "full.npy", "--dtype", "float64", "--all")
    assert (code, err) == (0, "")
    assert cuda.built == [{"shape": (4, 3), "dtype": "float64", "device": 0}]
    picks = [line.split() for line in out.splitlines() if line.startswith("*")]
    assert picks == [["*", "dense", "6.0", measured, "3.00"] for measured in ("7.0", "8.0")]


def test_all_candidates_in_double(data, cuda, bmrm_bench):
    assert bmrm_bench("spmv", "--all", "--dtype", "float64", data)[0] == 0
    assert (cuda.built[0]["tune"], cuda.built[0]["dtype"]) == ("all", "float64")


def test_json_is_the_report(data, cuda, bmrm_bench):
    code, out, err = bmrm_bench("spmv", "--json", data)
    assert (code, err) == (0, "")
    assert json.loads(out) == json.loads(json.dumps(cuda.report()))


def test_an_absent_gpu_is_reported_before_the_file_is_read(cuda, bmrm_bench):
    code, out, err = bmrm_bench("spmv", "--device", 1, "no such file")
    assert (code, out) == (1, "")
    assert err == "bmrm-bench: --device 1: found 1 CUDA devices, expected at least 2\n"


def test_a_missing_file_is_bad_data(cuda, bmrm_bench):
    code, _, err = bmrm_bench("spmv", "no such file")
    assert code == 3
    assert err.startswith("bmrm-bench: no such file: ")


def test_a_build_without_cuda_says_so(data, monkeypatch, bmrm_bench):
    def none():
        raise BmrmError("device='cuda': this build has no CUDA support; use device='cpu'")

    monkeypatch.setattr(device, "import_cuda", none)
    code, _, err = bmrm_bench("spmv", data)
    assert code == 1
    assert err == "bmrm-bench: found a build without CUDA support, expected one that can use a GPU\n"


@pytest.mark.parametrize("words", [[], ["spmm", "file"], ["spmv"], ["spmv", "file", "--device", "-1"]])
def test_bad_usage(words, bmrm_bench):
    code, out, err = bmrm_bench(*words)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1


def test_help_lists_options_and_exit_codes(bmrm_bench):
    code, out, _ = bmrm_bench("--help")
    assert code == 0
    for text in ("spmv", "--all", "--device", "--json", "out of GPU memory"):
        assert text in out


def test_the_command_without_a_gpu_is_one_line():
    count = "from bmrm.matrix import _cuda; import sys; sys.exit(_cuda.device_count() > 0)"
    if run_python(count).returncode:
        pytest.skip("there is a GPU, or the package was built without CUDA")
    code = "import sys; from bmrm.cli.bench import main; sys.exit(main(['spmv', 'no such file']))"
    process = run_python(code)
    assert process.returncode == 1
    assert process.stderr == "bmrm-bench: --device 0: found 0 CUDA devices, expected at least 1\n"
