"""Where estimators run; no GPU is needed."""

import numpy as np
import pytest
import scipy.sparse as sp

from bmrm import KMeans
from bmrm.errors import DeviceMemoryError, ParameterError
from bmrm.io.csr import Csr
from bmrm.matrix.gpu import work as work_module
from bmrm.matrix.gpu.devices import is_started, parse_device
from bmrm.matrix.gpu.placement import Placement, gpu_that_has, place, with_fall_back
from bmrm.matrix.gpu.work import START_SECONDS, WORTH_A_GPU, MatrixWork, Work
from bmrm.unsupervised.clusters import estimator as kmeans
from bmrm.unsupervised.clusters.work import kmeans_work, sparse_kmeans_work
from bmrm.unsupervised.decomposition.work import gram_work
from bmrm.unsupervised.manifold.work import scaling_work
from bmrm.unsupervised.mixtures.work import mixture_work

A_GPU = {"multiprocessors": 132, "free_bytes": 1 << 33}


class OnGpu:
    """Shows itself as an array of no rows on a GPU, which no driver is asked about."""

    def __init__(self, number):
        self.number = number
        self.__cuda_array_interface__ = {"shape": (0, 2), "typestr": "<f8", "data": (0, False), "version": 3}

    def __dlpack_device__(self):
        return (2, self.number)


def never():
    raise AssertionError("asked for a GPU")


@pytest.fixture
def started(monkeypatch):
    monkeypatch.setattr(work_module, "is_started", lambda: True)


def test_a_device_is_one_of_four_forms():
    names = ("auto", "cpu", "cuda", "cuda:0", "cuda:12")
    assert [parse_device(name) for name in names] == [None, None, None, 0, 12]
    for wrong in ("gpu", "cuda:", "cuda:-1", "cuda:1 ", "cuda:\u0661", "", None, 0, b"cpu", ["cpu"]):
        with pytest.raises(
            ParameterError, match=r"device: found .*, expected one of auto, cpu, cuda, cuda:N"
        ):
            parse_device(wrong)


def test_a_gpu_that_was_chosen_gives_way_to_the_cpu_if_it_is_full():
    def full(number):
        raise DeviceMemoryError(f"GPU {number}: out of memory")

    with pytest.warns(UserWarning, match="^device='auto': GPU 1: out of memory; using the CPU$"):
        found = with_fall_back(Placement(1, "faster", chosen=True), lambda: "here", full)
    assert found == ("here", Placement(None, "GPU 1: out of memory"))
    with pytest.raises(DeviceMemoryError):
        with_fall_back(Placement(1, "as given"), never, full)
    assert with_fall_back(Placement(None, "as given"), lambda: "here", full)[0] == "here"
    there, placed = with_fall_back(Placement(1, "as given"), never, lambda number: (number, "a note"))
    assert (there, str(placed)) == (1, "device  cuda:1: as given; a note")


def test_a_matrix_goes_to_a_gpu_by_its_size():
    for stored, columns, gpu in (
        (WORTH_A_GPU, None, 0),
        (WORTH_A_GPU, 2000, 0),
        (WORTH_A_GPU, 100, None),
        (WORTH_A_GPU - 1, None, None),
    ):
        found = place("auto", None, MatrixWork(stored, columns), find_gpu=lambda: A_GPU)
        assert (found.gpu, found.chosen) == (gpu, True)
        assert "stored values, and a GPU pays off from" in found.reason
    assert place("auto", None, MatrixWork(WORTH_A_GPU), find_gpu=lambda: None).reason.startswith("no GPU")
    assert place("auto", None, MatrixWork(1), find_gpu=never).gpu is None


def test_rows_on_a_gpu_stay_there():
    rows = OnGpu(3)
    assert gpu_that_has(rows) == 3
    for device in ("auto", "cuda", "cuda:3"):
        assert place(device, gpu_that_has(rows), find_gpu=never).device == "cuda:3"
    for device in ("cpu", "cuda:0"):
        with pytest.raises(ParameterError, match=f"found '{device}' for rows on GPU 3, expected cuda:3"):
            place(device, gpu_that_has(rows))
    assert gpu_that_has(Csr(np.zeros(1, np.int64), np.zeros(0, np.int32), None, (0, 2))) is None
    assert gpu_that_has([[1.0]]) is None
    assert gpu_that_has(np.eye(2)) is None


def test_what_is_asked_for_is_not_questioned():
    small = kmeans_work(10, 2, 2, 4, moves=3)
    assert place("cuda", None, small, find_gpu=never).gpu == 0
    assert place("cuda:2", None, small, find_gpu=never).gpu == 2
    large = Work(1e9, 0.0, 0.0, 0.0, 0.0)
    assert place("cpu", None, large, find_gpu=never).gpu is None
    assert place("cuda", None, large, find_gpu=never).gpu == 0


def test_auto_takes_what_is_predicted_to_be_faster(started, monkeypatch):
    quick, slow = kmeans_work(2_000_000, 16, 64, 4, moves=300), kmeans_work(100, 16, 8, 4, moves=300)
    found = place("auto", None, quick, find_gpu=lambda: A_GPU)
    assert found.gpu == 0
    assert "the CPU takes" in found.reason
    assert "to upload" in found.reason
    assert place("auto", None, slow, find_gpu=never).gpu is None
    # one thread would take longer than a GPU that has to be started, a thousand not
    monkeypatch.setattr(work_module, "is_started", lambda: False)
    work_of = [kmeans_work(300_000, 16, 64, 4, moves=300, threads=threads) for threads in (1, 1000)]
    assert [place("auto", None, each, find_gpu=lambda: A_GPU).gpu for each in work_of] == [0, None]


def test_auto_is_the_cpu_if_the_upload_alone_takes_longer(started):
    assert place("auto", None, Work(0.5, 1e-3, 1, 1e11, 0.0), find_gpu=never).gpu is None


def test_auto_is_the_cpu_without_a_gpu_or_room_on_it(started, recwarn):
    large = kmeans_work(10_000_000, 16, 64, 4, moves=300, threads=2)
    assert place("auto", None, large, find_gpu=lambda: None).gpu is None
    little = {**A_GPU, "free_bytes": 1 << 20}
    pairs = scaling_work(40_000, 2, passes=300)
    assert "too little memory" in place("auto", None, pairs, find_gpu=lambda: little).reason
    wide = Work(1.0, 0.1, 0, 1e9, 1e10, copied_passes=20.0)
    assert place("auto", None, wide, find_gpu=lambda: little).gpu is None  # copies take longer
    many = kmeans_work(10_000_000, 16, 4000, 4, moves=300, init="", threads=2)
    found = [place("auto", None, many, find_gpu=lambda of=of: of) for of in (A_GPU, little)]
    assert [each.gpu for each in found] == [0, 0]
    assert "71.1 ms to upload" in found[0].reason
    assert "752 ms to upload" in found[1].reason  # in 21 passes
    assert place("auto", find_gpu=never).gpu is None
    assert not recwarn.list


def test_a_smaller_gpu_is_slower(started):
    between = Work(1.0, 0.6, 0, 0.0, 0.0)
    assert place("auto", None, between, find_gpu=lambda: A_GPU).gpu == 0
    assert place("auto", None, between, find_gpu=lambda: {**A_GPU, "multiprocessors": 66}).gpu is None


def test_the_start_of_a_gpu_counts_until_it_has_one(monkeypatch):
    short = Work(0.5 * START_SECONDS, 0.0, 0, 0.0, 0.0)
    monkeypatch.setattr(work_module, "is_started", lambda: False)
    assert place("auto", None, short, find_gpu=never).gpu is None
    monkeypatch.setattr(work_module, "is_started", lambda: True)
    assert place("auto", None, short, find_gpu=lambda: A_GPU).gpu == 0
    monkeypatch.undo()
    assert not is_started(999)  # does not fail without a driver, or with too few GPUs


@pytest.mark.parametrize(
    "make",
    [
        lambda n, threads: kmeans_work(n, 8, 5, 4, moves=300, starts=2, threads=threads),
        lambda n, threads: sparse_kmeans_work(n, 50, 8 * n, 5, 4, moves=300, starts=2, threads=threads),
        lambda n, threads: mixture_work(n, 8, 5, 8, full=True, steps=100, threads=threads),
        lambda n, threads: mixture_work(n, 8, 5, 8, full=False, steps=100, threads=threads),
        lambda n, threads: scaling_work(n, 2, passes=300, threads=threads),
        lambda n, threads: scaling_work(n, 2, passes=300, features=5, threads=threads),
    ],
)
def test_work_grows_with_the_rows_and_shrinks_with_the_threads(make):
    small, large = make(10_000, 1), make(100_000, 1)
    assert all(value > 0.0 for value in small[:5])
    assert large.cpu_seconds > 5 * small.cpu_seconds
    assert large.gpu_seconds > 5 * small.gpu_seconds
    assert large.steps == small.steps
    assert large.gpu_bytes > small.gpu_bytes
    one, four = make(1_000_000, 1).cpu_seconds, make(1_000_000, 4).cpu_seconds
    assert one / 4 < four < one / 3


def test_there_is_work_of_one_row_or_point():
    assert scaling_work(1, 2, passes=1).cpu_seconds > 0.0
    assert kmeans_work(1, 1, 1, 4, moves=1).cpu_seconds > 0.0


@pytest.mark.parametrize("init", ["k-means++", "k-means||", ""])
def test_wide_sparse_rows_cost_more_with_the_same_values(init):
    narrow, wide = (
        sparse_kmeans_work(10_000, columns, 200_000, 20, 8, moves=10, init=init) for columns in (500, 50_000)
    )
    assert wide.cpu_seconds > narrow.cpu_seconds
    assert wide.call_seconds > narrow.call_seconds
    assert wide.upload_bytes == narrow.upload_bytes < wide.gpu_bytes
    assert sparse_kmeans_work(10_000, 500, 200_000, 20, 0, moves=10).upload_bytes < narrow.upload_bytes


def test_where_sparse_rows_are_clustered_is_decided_by_their_work(started, monkeypatch):
    asked = []

    def placed(device, there, work, group):
        asked.append((device, there, work, group))
        return Placement(None, "")

    monkeypatch.setattr(kmeans, "place", placed)
    X = sp.random_array((300, 40), density=0.1, format="csr", rng=np.random.default_rng(0))
    model = KMeans(3, random_state=0, max_iter=7, threads=1).fit(X)
    model.predict(X)
    model.predict(Csr(*map(np.asarray, (X.indptr, X.indices)), None, X.shape))
    fitted = sparse_kmeans_work(300, 40, X.nnz, 3, 8, moves=7, threads=1)
    pass_of = [sparse_kmeans_work(300, 40, X.nnz, 3, size, moves=0, init="", threads=1) for size in (8, 0)]
    assert asked == [("auto", None, each, None) for each in (fitted, *pass_of)]


def test_a_scatter_matrix_takes_the_square_of_its_columns(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    small, large = gram_work(100_000, 100, 8), gram_work(100_000, 1000, 8)
    assert large.cpu_seconds > 50 * small.cpu_seconds


def test_a_matrix_covariance_costs_more():
    full, diagonal = (mixture_work(10_000, 20, 5, 8, full=full, steps=10) for full in (True, False))
    assert full.cpu_seconds > diagonal.cpu_seconds
