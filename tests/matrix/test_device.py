"""The choice of the device, and the cache per GPU, with a GPU simulated by the CPU."""

import itertools
import json
import warnings
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from host_landing import HostLanding

import bmrm
import bmrm.matrix
from bmrm.base import host_memory
from bmrm.cli import train
from bmrm.errors import BmrmError, DeviceCodeError, DeviceMemoryError, ParameterError
from bmrm.linear import storage
from bmrm.matrix import _cpu, resident
from bmrm.matrix import upload as landing
from bmrm.matrix.gpu import cache as device_cache
from bmrm.matrix.gpu import devices as device
from bmrm.matrix.gpu import memory as gpu_memory
from bmrm.matrix.gpu import work
from bmrm.matrix.gpu.explain import explain
from bmrm.matrix.upload import Landing

INFO = {"id": 0, "name": "Abacus 9", "major": 9, "minor": 0, "free_bytes": 10**9}
MEASURED = dict.fromkeys(
    ("launch", "copy", "read", "gather_shared", "gather_l2", "gather_memory", "fill_shared"), 2.5
)


class Plan(NamedTuple):
    kernel: str
    lanes: int = 0
    cap: int = 0
    tiles: int = 0
    tile: int = 0


class Rounded:
    """A matrix on the CPU that rounds inputs and outputs to its type, as a GPU does.

    A GPU picks kernels by noisy timings: here, different ones each time.
    """

    location = "host"  # solves keep their vectors there
    host_bytes = 0
    weighted_gram_work = float("inf")
    room = 10**6  # stored values
    caps = itertools.count(1)

    def __init__(
        self,
        *arrays,
        dtype,
        threads,
        device=0,
        dense=None,
        plan=None,
        memory_limit=None,
        spare=0,
        finite=False,
    ):
        if plan is not None and "abacus" in (p.kernel for p in plan):
            raise ParameterError("plan: found kernel 'abacus'")
        self.timed = plan is None
        self.plans = plan or (
            Plan("sliced", cap=next(self.caps)),
            Plan("tiled", cap=next(self.caps), tile=64),
        )
        size = arrays[1].size if dense is None else dense.size
        if size > self.room:
            raise DeviceMemoryError(f"X takes {size} numbers, there is room for {self.room}")
        self.dtype, self.device = np.dtype(dtype), device
        inner = _cpu.Matrix(*arrays) if dense is None else _cpu.Matrix.from_dense(dense)
        self.inner, self.shape, self.nnz, self.threads = inner, inner.shape, inner.nnz, threads
        self.mean_squares = inner.mean_squares

    @classmethod
    def from_dense(cls, array, **options):
        return cls(dense=array, **options)

    def report(self):
        both = zip(("normal", "transposed"), self.plans, strict=True)
        return {
            op: {"candidates": [{"plan": {}}, {"plan": plan._asdict()}], "chosen": 1} for op, plan in both
        }

    @staticmethod
    def predict_format(m, d, nnz, value_bytes):
        return 100 * nnz * (4 + value_bytes)

    def matvec(self, w, out):
        self.inner.matvec(w.astype(self.dtype), out)
        out[:] = out.astype(self.dtype)

    def rmatvec_blocks(self, r, starts, out):
        self.inner.rmatvec_blocks(r.astype(self.dtype), starts, out)
        out[:] = out.astype(self.dtype)


@pytest.fixture
def gpu(monkeypatch, tmp_path) -> SimpleNamespace:
    """A GPU that pays for any X."""
    backend = SimpleNamespace(
        Matrix=Rounded,
        Plan=Plan,
        Landing=HostLanding,
        measured=0,
        device_count=lambda: 1,
        device_info=lambda device=0: INFO | {"id": device},
    )

    def measure(device):
        backend.measured += 1
        return dict(MEASURED)

    backend.measure = measure
    for module in (device, resident, gpu_memory, landing):
        monkeypatch.setattr(module, "import_cuda", lambda: backend)
    monkeypatch.setattr(work, "WORTH_A_GPU", 1)
    monkeypatch.setattr(work, "NARROW_WORTH_A_GPU", 1)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    as_in_another_process(monkeypatch)
    return backend


def as_in_another_process(monkeypatch):
    monkeypatch.setattr(device, "_constants", {})
    monkeypatch.setattr(device_cache, "_picked", {})


def problem(dtype=np.float64):
    rng = np.random.default_rng(0)
    X = sp.random_array((400, 30), density=0.2, rng=rng, format="csr").astype(dtype)
    return X, np.where(X @ rng.standard_normal(30) + 0.1 * rng.standard_normal(400) > 0, 1, -1)


@pytest.mark.parametrize(("device", "number"), [("cuda", 0), ("cuda:0", 0), ("cuda:3", 3)])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_a_gpu_by_its_number(gpu, device, number, form):
    assert bmrm.Dataset(form(np.eye(3)), device=device).matrix.device == number


def test_auto_uses_a_gpu_that_pays(gpu, monkeypatch):
    X, y = problem()
    assert bmrm.Dataset(X, y).device == "cuda (Abacus 9)"
    assert bmrm.Dataset(X.toarray(), y).device == "cuda (Abacus 9)"
    assert bmrm.Dataset(X, y, device="cpu").device == "cpu"
    monkeypatch.setattr(work, "NARROW_WORTH_A_GPU", X.nnz + 1)
    assert bmrm.Dataset(X, y).device == "cpu"
    monkeypatch.setattr(work, "MAX_NARROW_COLUMNS", 29)
    assert bmrm.Dataset(X, y).device == "cuda (Abacus 9)"
    monkeypatch.setattr(work, "WORTH_A_GPU", X.nnz + 1)
    assert bmrm.Dataset(X, y).device == "cpu"
    assert bmrm.Dataset(X, y, device="cuda").device == "cuda (Abacus 9)"


def test_auto_does_not_load_the_driver_for_a_small_problem(gpu, monkeypatch):
    monkeypatch.setattr(work, "NARROW_WORTH_A_GPU", 10**6)
    monkeypatch.setattr(gpu, "device_count", lambda: pytest.fail("the driver was asked"))
    assert bmrm.Dataset(*problem()).device == "cpu"


@pytest.mark.parametrize("capability", [(7, 4), (6, 9)])
def test_auto_ignores_an_old_gpu(gpu, monkeypatch, capability):
    old = INFO | dict(zip(("major", "minor"), capability, strict=True))
    monkeypatch.setattr(gpu, "device_info", lambda device=0: old)
    assert device.gpu() is None
    assert bmrm.Dataset(*problem()).device == "cpu"


NO_CODE = "device 0, Abacus 9, has compute capability 9.0, and this build has code for 7.5, 8.0"


@pytest.fixture
def without_code(gpu, monkeypatch):
    """A build without code for the GPU."""

    def refuse(*arguments, **options):
        raise DeviceCodeError(f"{NO_CODE} (no kernel image); build with BMRM_CUDA_ARCH=90")

    monkeypatch.setattr(gpu, "device_info", refuse)
    monkeypatch.setattr(gpu, "measure", refuse)
    monkeypatch.setattr(device, "_said", set())


@pytest.mark.usefixtures("without_code")
def test_auto_says_once_that_the_build_has_no_code_for_the_gpu():
    X, y = problem()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        assert {bmrm.Dataset(rows, y).device for rows in (X, X, X.toarray())} == {"cpu"}
    assert [(str(warning.message), warning.filename) for warning in seen] == [
        (
            f"device='auto': {NO_CODE} (no kernel image); build with BMRM_CUDA_ARCH=90; using the CPU",
            __file__,
        )
    ]


@pytest.mark.usefixtures("without_code")
@pytest.mark.parametrize("name", ["cuda", "cuda:0"])
def test_a_gpu_that_the_build_has_no_code_for_is_an_error(name):
    with pytest.raises(DeviceCodeError, match=f"{NO_CODE}.*BMRM_CUDA_ARCH=90"):
        bmrm.solve(*problem(), device=name)


def test_auto_without_a_gpu(gpu, monkeypatch):
    monkeypatch.setattr(gpu, "device_count", lambda: 0)
    assert bmrm.Dataset(*problem()).device == "cpu"


def test_without_cuda_in_the_package(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "bmrm.matrix._cuda", None)
    monkeypatch.delattr(bmrm.matrix, "_cuda", raising=False)
    X, y = problem()
    with pytest.raises(BmrmError, match="this build has no CUDA support; use device='cpu'"):
        bmrm.solve(X, y, device="cuda")
    monkeypatch.setattr(work, "NARROW_WORTH_A_GPU", 1)
    assert bmrm.solve(X, y, device="auto").device == "cpu"


@pytest.mark.parametrize("dense", [False, True])
def test_x_that_does_not_fit_goes_to_the_cpu_with_a_warning(gpu, monkeypatch, dense):
    monkeypatch.setattr(Rounded, "room", 10)
    X, y = problem()
    X = X.toarray() if dense else X
    with pytest.warns(UserWarning, match=r"'auto': X takes \d+ numbers, there is room for 10; using the CPU"):
        data = bmrm.Dataset(X, y)
    assert data.device == "cpu"
    with pytest.raises(DeviceMemoryError, match="there is room for 10"):
        bmrm.Dataset(X, y, device="cuda")


def test_memory_of_x_is_logged_before_it_is_allocated(gpu, caplog):
    X, y = problem()
    with caplog.at_level("INFO", logger="bmrm"):
        bmrm.Dataset(X, y)
    spare = gpu_memory.vector_bytes(X.shape, 8) + int(1.5 * gpu_memory.PLANNED_CUTS * X.shape[1] * 8)
    assert caplog.messages == [
        f"Abacus 9: X takes about {X.nnz * 1200 / 1e6:.4g} MB, all on the device; "
        f"950 MB may be used, {spare / 1e6:.4g} MB of them for vectors and cuts"
    ]


def test_auto_uses_a_gpu_on_which_half_of_x_fits(gpu, caplog):
    X, y = problem()
    spare = gpu_memory.vector_bytes(X.shape, 8) + int(1.5 * gpu_memory.PLANNED_CUTS * X.shape[1] * 8)
    most, least = (spare + int(share / 0.9 * X.nnz * 1200) for share in (0.55, 0.45))
    with caplog.at_level("INFO", logger="bmrm"):
        assert bmrm.Dataset(X, y, gpu_mem=most).device == "cuda (Abacus 9)"
    assert "stream from pinned host memory" in caplog.text
    with pytest.warns(
        UserWarning, match="'auto': X takes about .* which would be slower than the CPU; using the CPU"
    ):
        assert bmrm.Dataset(X, y, gpu_mem=least).device == "cpu"
    assert bmrm.Dataset(X, y, gpu_mem=least, device="cuda").device == "cuda (Abacus 9)"


def test_a_limit_too_small_for_the_vectors_is_an_error(gpu):
    X, y = problem()
    with pytest.raises(DeviceMemoryError, match=r"0\.02 MB of device memory are too little"):
        bmrm.Dataset(X, y, device="cuda", gpu_mem="20k")


def test_main_memory_too_small_for_what_streams_is_an_error(gpu, monkeypatch):
    X, y = problem()
    monkeypatch.setattr(host_memory, "available_bytes", lambda: 10**5)
    with pytest.raises(DeviceMemoryError, match=r"0\.0001 GB of main memory are available"):
        bmrm.Dataset(X, y, device="cuda", gpu_mem="1M")


@pytest.mark.parametrize(
    ("values", "options", "expected"),
    [
        (np.float32, {}, np.float32),
        (np.float64, {}, np.float64),
        (np.float32, {"tol": 1e-6}, np.float64),
        (np.float32, {"tol": 1e-5}, np.float32),
        (np.float32, {"tol": 1e-6, "dtype": "float32"}, np.float32),
        (np.float64, {"dtype": np.float32}, np.float32),
    ],
)
def test_the_type_follows_the_tolerance(gpu, values, options, expected):
    X, y = problem(values)
    for given in (X, X.toarray()):
        data = bmrm.Dataset(given, y, **options)
        assert data.matrix.dtype == expected
        assert data.resolution == (device.FLOAT32_RESOLUTION if expected == np.float32 else 0.0)


def test_ones_are_float32_unless_the_tolerance_is_small(gpu):
    X, y = problem()
    ones = bmrm.io.Csr(X.indptr.astype(np.int64), X.indices.astype(np.int32), None, X.shape)
    assert bmrm.Dataset(ones, y).matrix.dtype == np.float32
    assert bmrm.Dataset(ones, y, tol=1e-7).matrix.dtype == np.float64


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_solve_claims_only_gaps_that_products_can_resolve(gpu, loss):
    X, y = problem(np.float32)
    best = bmrm.solve(X, y, loss, lam=1e-2, tol=1e-9, device="cpu")
    fine = bmrm.solve(X, y, loss, lam=1e-2, tol=1e-9)
    assert (fine.status, fine.device) == ("converged", "cuda (Abacus 9)")
    assert fine.objective == pytest.approx(best.objective, rel=2e-9)
    coarse = bmrm.solve(X, y, loss, lam=1e-2, tol=1e-9, dtype=np.float32)
    assert coarse.status == "precision"
    assert 0 <= coarse.gap <= device.FLOAT32_RESOLUTION * coarse.objective
    slack = device.FLOAT32_RESOLUTION * best.objective
    assert coarse.lower_bound <= best.objective + slack
    assert coarse.objective >= best.lower_bound - slack
    assert bmrm.solve(X, y, loss, lam=1e-2, tol=1e-3).status == "converged"
    assert [r.status for r in bmrm.path(X, y, [1e-1, 1e-2], loss=loss, tol=1e-7)] == ["converged"] * 2


@pytest.mark.parametrize("intercept", [{}, {"fit_intercept": True, "penalize_intercept": True}])
def test_newton_steps_by_products_without_a_hessian(gpu, intercept):
    X, y = problem()
    there, here = (
        bmrm.solve(X, y, "logistic", lam=1e-2, tol=1e-7, device=place, **intercept)
        for place in ("cuda", "cpu")
    )
    assert there.status == here.status == "converged"
    assert there.device == "cuda (Abacus 9)"
    assert there.timings["newton"] > 0.0
    assert here.timings["newton"] > 0.0
    assert there.objective == pytest.approx(here.objective, rel=2e-7)


def test_an_unknown_device():
    with pytest.raises(ParameterError, match="device: found 'abacus', expected one of auto, cpu, cuda"):
        resident.place_matrix(np.eye(2), device="abacus")


@pytest.fixture
def file(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    X, y = problem()
    with open("data", "w") as text:
        for i, label in enumerate(y):
            row = X[[i]].tocoo()
            text.write(
                f"{label} " + " ".join(f"{j + 1}:{v}" for j, v in zip(row.col, row.data, strict=True)) + "\n"
            )
    return tmp_path / "data"


def test_the_command_says_where_it_trained(gpu, file, capsys):
    assert train.main([str(file), "model"]) == 0
    assert " on cuda (Abacus 9)\n" in capsys.readouterr().out
    assert train.main(["--json", "--verbose", "--device", "cuda", str(file), "model"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["device"] == "cuda (Abacus 9)"
    assert "Abacus 9: X takes about" in err
    assert train.main(["--json", "--device", "cpu", str(file), "model"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["device"] == "cpu"
    assert "Abacus" not in err


@pytest.fixture
def landings(gpu) -> list:
    """Collect the landings that are created."""
    made = []

    class Kept(HostLanding):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            made.append(self)

    gpu.Landing = Kept
    return made


@pytest.mark.parametrize("loss", ["hinge", "pairwise"])
def test_a_text_is_uploaded_while_it_is_parsed(gpu, landings, file, monkeypatch, loss, capsys):
    """The same model, from the same kernels, as with arrays on the host."""
    lines = file.read_text().splitlines()
    file.write_text("\n".join(line.replace(" ", f" qid:{i // 10} ", 1) for i, line in enumerate(lines)))
    assert train.main(["--loss", loss, "--device", "cuda", str(file), "landed"]) == 0
    monkeypatch.setattr(landing, "MAX_MEMORY_SHARE", 0.0)
    assert train.main(["--loss", loss, "--device", "cuda", str(file), "plain"]) == 0
    assert len(landings) == 1
    assert landings[0].released
    assert Path("landed").read_bytes() == Path("plain").read_bytes()
    assert len(device_cache.read_record(INFO["name"]).plans) == 1


def test_a_text_whose_gpu_proves_too_small_is_copied_back(gpu, landings, file, monkeypatch):
    monkeypatch.setattr(Rounded, "room", 10)
    with Landing() as there:
        data = bmrm.io.read_data(file, land=there)
        with pytest.warns(UserWarning, match="using the CPU"):
            dataset = bmrm.Dataset(data.X, data.y)
    assert dataset.device == "cpu"
    assert landings[0].released


def test_a_fault_frees_the_landing(gpu, landings, file, capsys):
    file.write_text(file.read_text() + "1 2:x\n")
    assert train.main(["--device", "cuda", str(file), "model"]) == 3
    assert landings[0].released
    assert 'data:401:3: found "2:x", expected index:value' in capsys.readouterr().err


def test_the_progress_line_says_when_a_text_is_uploaded(gpu, file, monkeypatch):
    shown = []

    class Line:
        def __init__(self, *stream, **options):
            pass

        @contextmanager
        def show_during(self, what):
            yield
            shown.append(what().words[0])

    monkeypatch.setattr("bmrm.cli.loading.ProgressLine", Line)
    for place in ("cuda", "cpu"):
        assert train.main(["--device", place, str(file), "model"]) == 0
    assert shown == [
        f"parsing and uploading {file}",
        "preparing the matrix",
        f"reading {file}",
        "preparing the matrix",
    ]


FITTING = {"rows": 100, "nonzeros": 9000, "pairs": 1000}


@pytest.mark.parametrize(
    ("options", "sizes", "taken"),
    [
        ({}, {}, True),
        ({"device": "cuda:0", "dtype": "float64", "tol": 1e-7}, {}, True),
        ({"device": "cpu"}, {}, False),
        ({"tol": 1e-7}, {}, False),
        ({"gpu_mem": 10**9}, {}, False),
        ({}, {"pairs": 4000}, True),
        ({}, {"nonzeros": 0}, False),
        ({}, {"nonzeros": 2**31}, False),
        ({}, {"pairs": landing.MAX_SLOT_PAIRS + 1}, False),
        ({}, {"nonzeros": INFO["free_bytes"] // 16}, True),
        ({}, {"nonzeros": INFO["free_bytes"] // 16 + 1}, False),
    ],
)
def test_which_texts_are_uploaded_while_they_are_parsed(gpu, monkeypatch, options, sizes, taken):
    made = []
    monkeypatch.setattr(HostLanding, "__init__", lambda self, *given, device: made.append(given))
    with Landing(**{"threads": 3, **options}) as there:
        sink = there(**{**FITTING, **sizes})
        assert (sink is not None, there.used) == (taken, taken)
    size = FITTING | sizes
    slots = min(6, size["nonzeros"] // size["pairs"] + 1)
    expected = (size["nonzeros"], np.dtype(options.get("dtype", "float32")), slots, size["pairs"])
    assert made == [expected][:taken]


def test_no_upload_to_a_gpu_that_others_have_filled(gpu, monkeypatch):
    def full(*given, **named):
        raise DeviceMemoryError("full")

    gpu.Landing = full
    full.predict_bytes = HostLanding.predict_bytes
    with Landing() as there:
        assert there(**FITTING) is None


@pytest.mark.parametrize("options", [["--cache"], ["--gpu-mem", "900M"], ["--device", "cpu"]])
def test_options_that_need_arrays_on_the_host(gpu, landings, file, options):
    assert train.main([*options, str(file), "model"]) == 0
    assert landings == []


@pytest.mark.filterwarnings("default")
def test_the_command_warns_in_one_line(gpu, file, capsys, monkeypatch):
    monkeypatch.setattr(Rounded, "room", 10)
    assert train.main(["-q", str(file), "model"]) == 0
    err = capsys.readouterr().err
    assert err.startswith("bmrm-train: warning: device='auto': X takes ")
    assert err.count("\n") == 1
    assert train.main(["-q", "--device", "cuda", str(file), "model"]) == 5


@pytest.mark.parametrize(("tol", "value_bytes"), [("1e-3", 4), ("1e-7", 8)])
def test_dry_run_reports_gpu_memory(gpu, file, capsys, monkeypatch, tol, value_bytes):
    monkeypatch.setattr(storage, "MAX_FLOAT64_FILE_BYTES", 0)  # or all would be float64
    nnz = problem()[0].nnz
    assert train.main(["--dry-run", "--json", "--tol", tol, str(file)]) == 0
    parts = json.loads(capsys.readouterr().out)["bytes"]
    assert parts["X on the GPU"] == 100 * nnz * (4 + value_bytes)
    assert parts["X in pinned host memory"] == 0
    assert parts.pop("total") == sum(parts.values())
    assert train.main(["--dry-run", "--json", "--tol", tol, "--gpu-mem", "1M", str(file)]) == 0
    bounded = json.loads(capsys.readouterr().out)["bytes"]
    assert bounded["X in pinned host memory"] > 0
    assert bounded["X on the GPU"] + bounded["X in pinned host memory"] == parts["X on the GPU"]
    assert bounded["bundle"] < parts["bundle"]
    assert train.main(["--dry-run", str(file)]) == 0
    assert "X on the GPU  " in capsys.readouterr().out
    assert train.main(["--dry-run", "--device", "cpu", str(file)]) == 0
    assert "GPU" not in capsys.readouterr().out


@pytest.fixture
def cache_file(gpu, tmp_path) -> Path:
    path = tmp_path / "cache" / "bmrm" / f"abacus-9-{bmrm.__version__}.json"
    assert path == Path(device_cache.record_path(INFO["name"]))
    path.parent.mkdir(parents=True)
    return path


@pytest.fixture
def no_folder(gpu, monkeypatch, tmp_path):
    """The cache file cannot be written, since its folder is a file."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))


def test_constants_are_measured_once_for_all_processes(gpu, cache_file, monkeypatch):
    assert device.constants() == device.constants() == MEASURED
    assert gpu.measured == 1
    assert json.loads(cache_file.read_text()) == {"constants": MEASURED, "plans": {}, "times": {}}
    as_in_another_process(monkeypatch)
    assert device.constants() == device.constants(1) == MEASURED
    assert gpu.measured == 1


NO_FILES = [
    "",
    "[]",
    "{",
    '{"constants": 1, "plans": 1}',
    "[" * 100_000,
    "\xff",
    " " * device_cache.MAX_RECORD_BYTES + "{}",
]


@pytest.mark.parametrize("text", NO_FILES, ids=range(len(NO_FILES)))
def test_an_invalid_file_is_replaced(gpu, cache_file, text):
    cache_file.write_text(text, encoding="latin-1")
    assert device.constants() == MEASURED
    assert gpu.measured == 1
    assert json.loads(cache_file.read_text()) == {"constants": MEASURED, "plans": {}, "times": {}}


@pytest.mark.parametrize(
    "constants",
    [{"copy": 1.0}, MEASURED | {"copy": -1.0}, MEASURED | {"copy": "1"}, MEASURED | {"more": 1.0}],
)
def test_invalid_constants_are_measured_again(gpu, cache_file, constants):
    cache_file.write_text(json.dumps({"constants": constants, "plans": {}}))
    assert device.constants() == MEASURED
    assert gpu.measured == 1
    assert json.loads(cache_file.read_text())["constants"] == MEASURED


def test_constants_without_a_writable_folder(gpu, no_folder):
    assert device.constants() == device.constants() == MEASURED
    assert gpu.measured == 1


def on_gpu(X, **options) -> Rounded:
    return resident.place_matrix(X, device="cuda", **options).matrix


def test_kernels_chosen_once_are_used_in_all_processes(gpu, cache_file, monkeypatch):
    X, _ = problem()
    first = on_gpu(X)
    assert first.timed
    as_in_another_process(monkeypatch)
    again = on_gpu(X.copy())
    assert not again.timed
    assert again.plans == first.plans
    kept = json.loads(cache_file.read_text())["plans"]
    assert list(kept.values()) == [[plan._asdict() for plan in first.plans]]


def test_kernels_of_one_matrix_are_not_used_for_another(gpu):
    X, _ = problem()
    wider = sp.csr_array((X.data, X.indices, X.indptr), shape=(400, 31))
    moved, scaled = X.copy(), X.copy()
    moved.indices[0] = (moved.indices[0] + 1) % moved.indices[1]
    scaled.data *= 2.0
    ones = bmrm.io.Csr(X.indptr.astype(np.int64), X.indices, None, X.shape)
    for other in (X, wider, moved, scaled, ones, X.astype(np.float32)):
        assert on_gpu(other).timed
        assert not on_gpu(other).timed
    assert on_gpu(X, dtype=np.float32).timed
    assert not on_gpu(X).timed


def test_constants_and_kernels_share_a_file(gpu, cache_file, monkeypatch):
    X, _ = problem()
    first = on_gpu(X)
    device.constants()
    as_in_another_process(monkeypatch)
    assert on_gpu(X).plans == first.plans
    on_gpu(X[:300])
    as_in_another_process(monkeypatch)
    assert device.constants() == MEASURED
    assert gpu.measured == 1
    assert len(json.loads(cache_file.read_text())["plans"]) == 2


GOOD = Plan("sliced", cap=8)._asdict()


@pytest.mark.parametrize(
    "kept",
    [
        1,
        [GOOD],
        [GOOD, GOOD, GOOD],
        [GOOD, None],
        [GOOD, GOOD | {"kernel": 1}],
        [GOOD, GOOD | {"cap": 8.0}],
        [GOOD, GOOD | {"cap": True}],
        [GOOD, GOOD | {"tile": 2**31}],
        [GOOD, GOOD | {"lanes": -1}],
        [GOOD, GOOD | {"more": 1}],
        [GOOD, {"kernel": "split"}],
        [GOOD, GOOD | {"kernel": "abacus"}],
    ],
)
def test_invalid_kernels_are_chosen_again(gpu, cache_file, monkeypatch, kept):
    X, _ = problem()
    on_gpu(X)
    known = json.loads(cache_file.read_text())
    (matrix,) = known["plans"]
    cache_file.write_text(json.dumps(known | {"plans": {matrix: kept}}))
    as_in_another_process(monkeypatch)
    again = on_gpu(X)
    assert again.timed
    assert json.loads(cache_file.read_text())["plans"] == {matrix: [plan._asdict() for plan in again.plans]}


def test_kernels_that_no_longer_fit_are_chosen_again(gpu, monkeypatch):
    X, _ = problem()
    on_gpu(X)
    monkeypatch.setattr(Rounded, "room", 10)
    with pytest.raises(DeviceMemoryError, match="there is room for 10"):
        on_gpu(X)
    build = Rounded.__init__

    def tight(self, *arrays, plan=None, **options):
        if plan is not None:
            raise DeviceMemoryError("no room for these kernels")
        build(self, *arrays, **options)

    monkeypatch.setattr(Rounded, "room", 10**6)
    monkeypatch.setattr(Rounded, "__init__", tight)
    assert on_gpu(X).timed


def test_kernels_without_a_folder_are_remembered_by_the_process(gpu, no_folder, monkeypatch):
    X, _ = problem()
    first = on_gpu(X)
    assert on_gpu(X).plans == first.plans
    as_in_another_process(monkeypatch)
    assert on_gpu(X).timed


@pytest.mark.parametrize("fresh", [False, True])
def test_the_latest_kernels_are_saved(gpu, cache_file, monkeypatch, fresh):
    monkeypatch.setattr(device_cache, "MAX_PLANS", 3)
    X, _ = problem()
    matrices = [X[: 100 + i] for i in range(4)]
    for matrix in matrices:
        on_gpu(matrix)
    assert len(json.loads(cache_file.read_text())["plans"]) == 3
    if fresh:
        as_in_another_process(monkeypatch)
    assert [on_gpu(matrix).timed for matrix in reversed(matrices)] == [False, False, False, True]


def test_explain_marks_the_chosen_kernel():
    statistics = {"rows": 4, "nnz": 6, "longest": 3, "empty_rows": 1}
    plans = [{"kernel": "split"}, {"kernel": "hot", "cap": 16, "tiles": 1, "tile": 4000}]
    candidates = [
        {"plan": plans[0], "predicted": 4e-5, "measured": 0.0, "bytes": 0},
        {"plan": plans[1], "predicted": 2e-5, "measured": 2.5e-5, "bytes": 3_000_000},
    ]
    report = {
        "shape": (4, 3), "nnz": 6, "dtype": "float32", "coding": "ones", "bytes": 12_300_000,
        "prepare_seconds": 0.0123, "device": INFO, "transposed": None, "blocks": [{}], "host_bytes": 0,
        "normal": {"statistics": statistics, "candidates": candidates, "chosen": 1},
    }  # fmt: skip
    text = explain(report)
    assert text.splitlines()[:2] == [
        "4 x 3, 6 nonzeros, float32 vectors, ones values",
        "Abacus 9: 12.3 MB, prepared in 12 ms",
    ]
    picked = [line for line in text.splitlines() if line.startswith("*")]
    assert [line.split() for line in picked] == [
        ["*", "hot", "cap", "16", "tiles", "1", "tile", "4000", "20.0", "25.0", "3.00"]
    ]
    assert "  split" in text
    assert "X^T r" not in text
    assert "X^T r: 4 rows" in explain(report | {"transposed": report["normal"]})
